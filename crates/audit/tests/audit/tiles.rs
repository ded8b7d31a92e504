//! Addresses, bundles, and reading under a signed root.

use servanda_audit::{
    LogBuilder, TilePath, TreeHash, TrustedTiles,
    builder::AppendFault,
    tile::{
        BUNDLE_BYTES_MAX, BundleFault, LEAF_BYTES_MAX, TILE_HASHES, TileFault, TileKind, append_to_bundle,
        leaves_of_bundle,
    },
};

use super::logs::{TestLog, leaf};

const LEVEL_0: TileKind = TileKind::Hashes { level: 0 };

#[test]
fn addresses_have_one_spelling() {
    let path = |kind, index, width| TilePath::new(kind, index, width).unwrap();
    for (text, expected) in [
        ("tile/0/000", path(LEVEL_0, 0, 256)),
        ("tile/0/x001/x234/067", path(LEVEL_0, 1_234_067, 256)),
        ("tile/0/x001/x234/067.p/1", path(LEVEL_0, 1_234_067, 1)),
        ("tile/7/999", path(TileKind::Hashes { level: 7 }, 999, 256)),
        ("tile/entries/x001/000.p/255", path(TileKind::Entries, 1000, 255)),
        ("tile/0/x018/x446/x744/x073/x709/x551/615", path(LEVEL_0, u64::MAX, 256)),
    ] {
        assert_eq!(expected.to_string(), text);
        assert_eq!(text.parse(), Ok(expected));
    }
    for text in [
        "",
        "tile",
        "tile/",
        "tile/0",
        "tile/0/",
        "tile/0/0",
        "tile/0/00",
        "tile/0/0000",
        "tile/00/000",
        "tile/8/000",
        "tile/-1/000",
        "tile/+1/000",
        "tile/0/x000/001",
        "tile/0/001/001",
        "tile/0/x001",
        "tile/0/xx01",
        "tile/0/+01",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000.p/",
        "tile/0/000.p/1.p/1",
        "tile/0/000/",
        "/tile/0/000",
        "tile/0/../000",
        "tile/entries/000.p",
        "tile/0/x018/x446/x744/x073/x709/x551/616",
    ] {
        assert!(text.parse::<TilePath>().is_err(), "{text}");
    }
}

#[test]
fn a_tree_has_the_files_that_the_specification_counts() {
    let widths = |size: u64| {
        let kinds = (0..8).map(|level| TileKind::Hashes { level });
        let partial = kinds.map(|kind| TilePath::partial_of_tree(kind, size).map(|path| (path.index(), path.width())));
        partial.collect::<Vec<_>>()
    };
    let none = [None; 5];
    assert_eq!(widths(70_000), [&[Some((273, 112)), Some((1, 17)), Some((0, 1))], &none[..]].concat());
    assert_eq!(widths(256), [&[None, Some((0, 1)), None], &none[..]].concat());
    assert!(widths(u64::MAX).iter().all(|tile| tile.is_some_and(|(_, width)| width == 255)));
    assert_eq!(TilePath::of_tree(LEVEL_0, u64::MAX, u64::MAX), None);
    assert_eq!(TilePath::new(LEVEL_0, 0, TILE_HASHES + 1), None);
}

#[test]
fn bundles_say_where_they_are_wrong() {
    let mut bundle = Vec::new();
    let largest = vec![7; LEAF_BYTES_MAX];
    for leaf in [&b"one"[..], b"", &largest] {
        append_to_bundle(&mut bundle, leaf).unwrap();
    }
    assert_eq!(leaves_of_bundle(&bundle, 3).unwrap(), [&b"one"[..], b"", &largest]);
    let too_large = append_to_bundle(&mut bundle.clone(), &[largest.as_slice(), b"x"].concat());
    assert_eq!(too_large, Err(BundleFault::LeafTooLarge { bytes: LEAF_BYTES_MAX + 1 }));
    for (cut, position) in [(1, 0), (4, 0), (6, 1), (8, 2), (bundle.len() - 1, 2)] {
        assert_eq!(leaves_of_bundle(&bundle[..cut], 3), Err(BundleFault::CutOff { position }), "{cut} bytes");
    }
    assert_eq!(leaves_of_bundle(&bundle[..5], 3), Err(BundleFault::Count { expected: 3, found: 1 }));
    assert_eq!(leaves_of_bundle(&bundle, 1), Err(BundleFault::Count { expected: 1, found: 3 }));
    assert_eq!(leaves_of_bundle(b"", 1), Err(BundleFault::Count { expected: 1, found: 0 }));
}

#[test]
fn a_full_file_serves_for_a_partial_one_that_is_gone() {
    let mut log = TestLog::of(200);
    let before = log.checkpoint();
    log.append((200..600).map(leaf));
    log.cut();
    log.files.retain(|name, _| !name.contains("000.p/200"));
    assert!(!log.files.contains_key("tile/0/000.p/200") && log.files.contains_key("tile/0/000"));
    let mut tiles = TrustedTiles::open(&log.files, before.size(), before.root()).unwrap();
    assert_eq!(tiles.leaf(199).unwrap(), leaf(199));
    assert!(matches!(tiles.leaf(200), Err(TileFault::Outside { index: 200, size: 200 })));
}

/// CVE-2026-56865's case, which published readers accept: whoever stores the files rewrites a leaf and its hash.
#[test]
fn a_leaf_rewritten_with_its_hash_is_not_read() {
    let honest = TestLog::of(1_300);
    let checkpoint = honest.checkpoint();
    for index in [0, 300, 1_279, 1_280, 1_299] {
        let mut files = honest.files.clone();
        super::attacks::rewrite_with_hash(&mut files, index, b"forged");
        let read =
            TrustedTiles::open(&files, checkpoint.size(), checkpoint.root()).and_then(|mut tiles| tiles.leaf(index));
        match read.unwrap_err() {
            TileFault::NotInTree { path } => assert!(index < 1_280 && path.first_leaf() <= index, "{path}"),
            TileFault::OtherRoot { size } => assert!(index >= 1_280 && size == 1_300, "leaf {index}"),
            other => panic!("leaf {index}: {other}"),
        }
        // Others are read as before, as far as the right edge is what was signed.
        if index < 1_280 {
            let mut tiles = TrustedTiles::open(&files, checkpoint.size(), checkpoint.root()).unwrap();
            assert_eq!(tiles.leaf(700).unwrap(), leaf(700));
        }
    }
    let mut files = honest.files.clone();
    super::attacks::rewrite(&mut files, 300, b"forged");
    let mut tiles = TrustedTiles::open(&files, checkpoint.size(), checkpoint.root()).unwrap();
    assert!(matches!(tiles.leaf(300), Err(TileFault::OtherLeaf { index: 300, .. })));
}

#[test]
fn files_of_another_size_are_not_read() {
    let honest = TestLog::of(1_300);
    let checkpoint = honest.checkpoint();
    for (name, bytes) in [("tile/0/001", 8_191), ("tile/0/001", 8_160), ("tile/0/005.p/20", 0), ("tile/0/001", 8_224)] {
        let mut files = honest.files.clone();
        files.get_mut(name).unwrap().resize(bytes, 0);
        let read =
            TrustedTiles::open(&files, checkpoint.size(), checkpoint.root()).and_then(|mut tiles| tiles.leaf(300));
        let fault = read.unwrap_err();
        assert!(matches!(fault, TileFault::Size { .. } | TileFault::Unreadable { .. }), "{name} of {bytes}: {fault}");
    }
    let mut files = honest.files.clone();
    files.insert("tile/entries/001".to_owned(), vec![0; BUNDLE_BYTES_MAX + 1]);
    let mut tiles = TrustedTiles::open(&files, checkpoint.size(), checkpoint.root()).unwrap();
    assert!(matches!(tiles.leaf(300), Err(TileFault::Unreadable { .. })));
}

#[test]
fn a_builder_does_not_continue_what_was_not_signed() {
    let log = TestLog::of(300);
    let other = servanda_audit::Checkpoint::new("example.org/servanda", 300, TreeHash::of_empty_tree()).unwrap();
    assert!(matches!(LogBuilder::resume(&log.files, &other), Err(TileFault::OtherRoot { size: 300 })));
    let mut files = log.files.clone();
    super::attacks::rewrite(&mut files, 299, b"forged");
    assert!(matches!(LogBuilder::resume(&files, &log.checkpoint()), Err(TileFault::OtherLeaf { index: 299, .. })));
}

#[test]
fn a_builder_is_bounded_until_it_is_cut() {
    let mut builder = LogBuilder::default();
    let largest = vec![7; LEAF_BYTES_MAX];
    let fault = (0..2_000).find_map(|_| builder.append(&largest).err());
    assert_eq!(fault, Some(AppendFault::Pending));
    let files = builder.cut();
    assert!(files.iter().map(|file| file.bytes.len()).sum::<usize>() < 80 * 1024 * 1024);
    builder.append(&largest).unwrap();
    assert!(builder.append(&[largest.as_slice(), b"x"].concat()).is_err());
}

#[test]
fn a_cut_has_only_what_is_new() {
    let mut log = TestLog::new();
    let names = |log: &mut TestLog| log.cut().iter().map(|file| file.path.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&mut log), [""; 0]);
    log.append((0..256).map(leaf));
    assert_eq!(names(&mut log), ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]);
    assert_eq!(names(&mut log), [""; 0]);
    log.append((256..258).map(leaf));
    assert_eq!(names(&mut log), ["tile/entries/001.p/2", "tile/0/001.p/2"]);
}
