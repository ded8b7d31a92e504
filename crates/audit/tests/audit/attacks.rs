//! What whoever holds the files, or the key, can do to a log, and what the check of the whole log says about it.

use std::collections::BTreeMap;

use servanda_audit::{
    AnyLeaf, LeafCheck, LogFault, LogPolicy, TilePath, TreeHash,
    tile::{CHECKPOINT_PATH, append_to_bundle, leaves_of_bundle},
    verify::LeafCheckFault,
    verify_log,
};

use super::logs::{TestLog, leaf, signer};

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

const SIZE: u64 = 1_300;
const EARLIER: u64 = 700;

/// The name of the file in which the leaf is, in a log of `SIZE` leaves.
fn file_of(kind: &str, leaf: u64) -> String {
    if leaf < 1_280 { format!("tile/{kind}/00{}", leaf / 256) } else { format!("tile/{kind}/005.p/20") }
}

fn leaves_of(files: &Files) -> Vec<Vec<u8>> {
    let mut leaves = Vec::new();
    for start in (0..SIZE).step_by(256) {
        let width = u16::try_from((SIZE - start).min(256)).unwrap();
        let bundle = leaves_of_bundle(&files[&file_of("entries", start)], width).unwrap();
        leaves.extend(bundle.into_iter().map(<[u8]>::to_vec));
    }
    leaves
}

/// Stores the leaves, and leaves the tiles as they are. There may be one more or fewer than there were.
fn store_leaves(files: &mut Files, leaves: &[Vec<u8>]) {
    for start in (0..usize::try_from(SIZE).unwrap()).step_by(256) {
        let is_last = start == 1_280;
        let end = if is_last { leaves.len() } else { start + 256 };
        let mut bundle = Vec::new();
        leaves[start..end].iter().for_each(|leaf| append_to_bundle(&mut bundle, leaf).unwrap());
        files.insert(file_of("entries", u64::try_from(start).unwrap()), bundle);
    }
}

fn change_leaves(files: &mut Files, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
    let mut leaves = leaves_of(files);
    change(&mut leaves);
    store_leaves(files, &leaves);
}

pub(crate) fn rewrite(files: &mut Files, index: u64, forged: &[u8]) {
    let Some(width) = [256_u16, 20, 44].into_iter().find(|width| files.contains_key(&bundle_path(index, *width)))
    else {
        panic!("no bundle of leaf {index}");
    };
    let name = bundle_path(index, width);
    let mut bundle = Vec::new();
    for (place, leaf) in leaves_of_bundle(&files[&name], width).unwrap().into_iter().enumerate() {
        let leaf = if place == usize::try_from(index % 256).unwrap() { forged } else { leaf };
        append_to_bundle(&mut bundle, leaf).unwrap();
    }
    files.insert(name, bundle);
}

fn bundle_path(index: u64, width: u16) -> String {
    TilePath::new(servanda_audit::tile::TileKind::Entries, index / 256, width).unwrap().to_string()
}

/// CVE-2026-56865's case.
pub(crate) fn rewrite_with_hash(files: &mut Files, index: u64, forged: &[u8]) {
    rewrite(files, index, forged);
    let place = usize::try_from(index % 256).unwrap() * 32;
    let tile = files.get_mut(&file_of("0", index)).unwrap();
    tile[place..place + 32].copy_from_slice(TreeHash::of_leaf(forged).as_bytes());
}

/// A log with the honest leaves before `from`, and others after it; every file and hash is right, and it is signed by the same key.
fn forked(from: u64) -> Files {
    let mut log = TestLog::new();
    log.append((0..from).map(leaf).chain((from..SIZE).map(|index| format!("other {index}").into_bytes())));
    log.cut();
    log.files
}

fn with_checkpoint(mut files: Files, note: String) -> Files {
    files.insert(CHECKPOINT_PATH.to_owned(), note.into_bytes());
    files
}

type Attack = fn(&mut Files);

const ATTACKS: [(&str, Attack, &str); 24] = [
    ("nothing", |_| {}, ""),
    ("a bit of a leaf flips", |files| change_leaves(files, |leaves| leaves[300][0] ^= 1), "leaf 300 was changed"),
    ("a bit of the first leaf flips", |files| change_leaves(files, |leaves| leaves[0][0] ^= 1), "leaf 0 was changed"),
    (
        "a bit of the last leaf flips",
        |files| change_leaves(files, |leaves| leaves[1_299][5] ^= 1),
        "leaf 1299 was changed",
    ),
    ("a leaf is emptied", |files| change_leaves(files, |leaves| leaves[9].clear()), "leaf 9 was changed"),
    ("a leaf is deleted", |files| change_leaves(files, |leaves| drop(leaves.remove(300))), "leaf 300 was deleted"),
    (
        "a late leaf is deleted",
        |files| change_leaves(files, |leaves| drop(leaves.remove(1_290))),
        "leaf 1290 was deleted",
    ),
    ("the last leaf is deleted", |files| change_leaves(files, |leaves| drop(leaves.pop())), "leaf 1299 was deleted"),
    (
        "a leaf is inserted",
        |files| change_leaves(files, |leaves| leaves.insert(300, leaf(5))),
        "a leaf was inserted as leaf 300",
    ),
    (
        "a leaf is added",
        |files| change_leaves(files, |leaves| leaves.push(leaf(5))),
        "a leaf was inserted as leaf 1300",
    ),
    (
        "two leaves change places",
        |files| change_leaves(files, |leaves| leaves.swap(300, 310)),
        "reordered from leaf 300 on: 310 is",
    ),
    (
        "leaves of two bundles change places",
        |files| change_leaves(files, |leaves| leaves.swap(300, 10)),
        "leaf 10 was changed",
    ),
    (
        "the end is missing",
        |files| files.retain(|name, _| !name.contains("/005") && !name.contains("/004")),
        "truncated: leaf 1024 and all",
    ),
    ("the last bundle is missing", |files| drop(files.remove("tile/entries/005.p/20")), "truncated: leaf 1280 and all"),
    ("a bundle is missing", |files| drop(files.remove("tile/entries/002")), "tile/entries/002 is missing"),
    ("a tile is missing", |files| drop(files.remove("tile/0/002")), "tile/0/002 is missing"),
    (
        "a bit of a leaf's hash flips",
        |files| flip(files, "tile/0/001", 32 * 44),
        "the tile tile/0/001 was changed: hash 44",
    ),
    (
        "a bit of a late hash flips",
        |files| flip(files, "tile/0/005.p/20", 32 * 2),
        "the tile tile/0/005.p/20 was changed: hash 2 ",
    ),
    (
        "a bit of a tile's hash flips",
        |files| flip(files, "tile/1/000.p/5", 32 * 3),
        "the tile tile/1/000.p/5 was changed: hash 3 ",
    ),
    (
        "a bundle is cut off",
        |files| files.get_mut("tile/entries/001").unwrap().truncate(2_559),
        "tile/entries/001: the bundle ends within leaf 255",
    ),
    (
        "a leaf and its hash",
        |files| rewrite_with_hash(files, 300, b"forged"),
        "leaves 256 to 511 were rewritten together with their hashes",
    ),
    (
        "a late leaf and its hash",
        |files| rewrite_with_hash(files, 1_290, b"forged"),
        "the leaves from 700 on are not those that were signed",
    ),
    (
        "a leaf and all hashes above",
        |files| replace_all(files, 650),
        "the leaves from 0 on are not those that were signed",
    ),
    ("the checkpoint is missing", |files| drop(files.remove(CHECKPOINT_PATH)), "the log has no checkpoint"),
];

fn flip(files: &mut Files, name: &str, at: usize) {
    files.get_mut(name).unwrap()[at] ^= 1;
}

/// Every file but the checkpoint is that of other leaves.
fn replace_all(files: &mut Files, from: u64) {
    let checkpoint = files[CHECKPOINT_PATH].clone();
    *files = forked(from);
    files.insert(CHECKPOINT_PATH.to_owned(), checkpoint);
}

fn verdict(files: &Files, policy: &LogPolicy, check: &mut dyn LeafCheck) -> String {
    let earlier = TestLog::of(EARLIER).trusted();
    verify_log(files, policy, &[earlier], check).map_or_else(|fault| fault.to_string(), |_| String::new())
}

#[test]
fn every_attack_on_the_files_has_its_name_and_place() {
    let honest = TestLog::of(SIZE);
    for (attack, change, expected) in ATTACKS {
        let mut files = honest.files.clone();
        change(&mut files);
        let found = verdict(&files, &honest.policy(), &mut AnyLeaf);
        assert!(if expected.is_empty() { found.is_empty() } else { found.contains(expected) }, "{attack}: {found}");
    }
}

#[test]
fn every_attack_with_a_key_has_its_name() {
    let honest = TestLog::of(SIZE);
    let policy = honest.policy();
    let text = honest.checkpoint().to_string();
    let own_key_again = |files: Files| verdict(&files, &policy, &mut AnyLeaf);
    // The log's own key, in the hands of a second signer.
    assert_eq!(own_key_again(forked(EARLIER)), "", "the earlier leaves are the same");
    let fork = own_key_again(forked(EARLIER - 1));
    assert!(fork.contains("forked: its first 700 leaves are not those of the earlier checkpoint"), "{fork}");
    let cut_back = own_key_again(TestLog::of(EARLIER - 1).files);
    assert!(cut_back.contains("cut back: it had 700 leaves and has 699"), "{cut_back}");
    // Other keys.
    for (name, expected) in [
        ("example.org/servanda", "`example.org/servanda` signed with the key "),
        ("example.org/other", "no known key signed the note"),
    ] {
        let note = signer(name, 9).sign(text.clone()).unwrap().to_string();
        let found = own_key_again(with_checkpoint(honest.files.clone(), note));
        assert!(found.contains(expected), "{name}: {found}");
    }
    // The right signature under another text, and another origin under the right key.
    let genuine = String::from_utf8(honest.files[CHECKPOINT_PATH].clone()).unwrap();
    let found = own_key_again(with_checkpoint(honest.files.clone(), genuine.replace("1300", "1299")));
    assert!(found.contains("the signature of `example.org/servanda`") && found.ends_with("is false"), "{found}");
    let note = honest.signer.sign(text.replace("servanda", "other")).unwrap().to_string();
    let found = own_key_again(with_checkpoint(honest.files.clone(), note));
    assert!(found.contains("of the log `example.org/other`, which the policy does not have"), "{found}");
}

#[test]
fn a_rewritten_leaf_is_found_below_every_level_of_tiles() {
    let honest = TestLog::of(66_000);
    let forged = b"forged".to_vec();
    let mut files = honest.files.clone();
    rewrite_with_hash_of_large(&mut files, 1_000, &forged);
    let fault = verify_log(&files, &honest.policy(), &[], &mut AnyLeaf).unwrap_err();
    assert!(matches!(fault, LogFault::Rewritten { first: 768, last: 1023, .. }), "{fault}");
    // With the hash of its tile as well, which is in a full tile of level 1.
    let tile = files["tile/0/003"].as_chunks::<32>().0.iter().copied().map(TreeHash::new);
    let mut frontier = servanda_audit::merkle::Frontier::default();
    tile.for_each(|hash| frontier.append(hash));
    files.get_mut("tile/1/000").unwrap()[96..128].copy_from_slice(frontier.root().as_bytes());
    let fault = verify_log(&files, &honest.policy(), &[], &mut AnyLeaf).unwrap_err();
    assert!(matches!(fault, LogFault::Rewritten { first: 0, last: 65_535, .. }), "{fault}");
}

fn rewrite_with_hash_of_large(files: &mut Files, index: u64, forged: &[u8]) {
    rewrite(files, index, forged);
    let place = usize::try_from(index % 256).unwrap() * 32;
    let tile = files.get_mut(&format!("tile/0/{:03}", index / 256)).unwrap();
    tile[place..place + 32].copy_from_slice(TreeHash::of_leaf(forged).as_bytes());
}

#[test]
fn several_earlier_checkpoints_are_all_compared() {
    let honest = TestLog::of(SIZE);
    let earlier: Vec<_> = [SIZE, 0, 256, 1, 257, 1_299].map(|size| TestLog::of(size).trusted()).into();
    verify_log(&honest.files, &honest.policy(), &earlier, &mut AnyLeaf).unwrap();
    // Two signed roots for one size: whichever the files are of, the other one does not fit.
    for from in [0, 3, 255, 256, 1_299] {
        let mut log = TestLog::new();
        log.append((0..from).map(leaf).chain((from..SIZE).map(|_| b"other".to_vec())));
        log.cut();
        let both = [log.trusted(), honest.trusted(), TestLog::of(from).trusted()];
        let fault = verify_log(&honest.files, &honest.policy(), &both, &mut AnyLeaf).unwrap_err();
        assert!(matches!(fault, LogFault::Forked { size: SIZE }), "{from}: {fault}");
    }
    let mut other = TestLog::new();
    other.signer = signer("example.org/other", 1);
    let note = other.signer.sign(format!("example.org/other\n0\n{}\n", TreeHash::of_empty_tree())).unwrap().to_string();
    let other = other.policy().trust(note.as_bytes()).unwrap();
    let fault = verify_log(&honest.files, &honest.policy(), &[other], &mut AnyLeaf).unwrap_err();
    assert!(matches!(fault, LogFault::OtherLog { .. }), "{fault}");
}

/// Remembers what it was shown; a leaf with the word `illegal` is one.
#[derive(Default)]
struct Seen(Vec<u64>);

impl LeafCheck for Seen {
    fn check(&mut self, index: u64, leaf: &[u8]) -> Result<(), LeafCheckFault> {
        self.0.push(index);
        if leaf.starts_with(b"illegal") { Err("this may not be".into()) } else { Ok(()) }
    }
}

#[test]
fn leaves_are_shown_in_order_until_one_is_illegal_and_files_are_blamed_first() {
    let honest = TestLog::of(SIZE);
    let mut seen = Seen::default();
    assert_eq!(verdict(&honest.files, &honest.policy(), &mut seen), "");
    assert_eq!(seen.0, (0..SIZE).collect::<Vec<_>>());
    let mut log = TestLog::new();
    let words = |index| if index == 800 { b"illegal".to_vec() } else { leaf(index) };
    log.append((0..SIZE).map(words));
    log.cut();
    let mut seen = Seen::default();
    assert_eq!(verdict(&log.files, &log.policy(), &mut seen), "leaf 800: this may not be");
    assert_eq!(seen.0.last(), Some(&800));
    let mut files = honest.files.clone();
    rewrite_with_hash(&mut files, 300, b"illegal");
    let found = verdict(&files, &honest.policy(), &mut Seen::default());
    assert!(found.contains("rewritten"), "nobody wrote the leaf that is illegal: {found}");
}

#[test]
fn an_empty_log_verifies() {
    let log = TestLog::of(0);
    let trusted = verify_log(&log.files, &log.policy(), &[log.trusted()], &mut AnyLeaf).unwrap();
    assert_eq!((trusted.checkpoint().size(), trusted.checkpoint().root()), (0, TreeHash::of_empty_tree()));
    let lie = signer("example.org/servanda", 1).sign(format!("example.org/servanda\n0\n{}\n", TreeHash::of_leaf(b"")));
    let files = with_checkpoint(Files::new(), lie.unwrap().to_string());
    let fault = verify_log(&files, &log.policy(), &[], &mut AnyLeaf).unwrap_err();
    assert!(matches!(fault, LogFault::OtherRoot { from: 0, size: 0 }), "{fault}");
}
