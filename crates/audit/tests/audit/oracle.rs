//! Our files, checkpoints, proofs and policies against those of oracle.py, which shares no code with us.

use std::collections::BTreeMap;

use serde::Deserialize;
use servanda_audit::{
    AnyLeaf, LogBuilder, LogPolicy, LogProof, TreeHash, TrustedTiles, merkle::Frontier, tile::CHECKPOINT_PATH,
    verify_log,
};
use sha2::{Digest as _, Sha256};

use super::logs::{ORIGIN, TestLog};

#[derive(Deserialize)]
struct Oracle {
    size: u64,
    files: usize,
    files_sha256: String,
    last_files: Vec<String>,
    roots: BTreeMap<u64, String>,
    checkpoint: String,
    policy: String,
    proofs: BTreeMap<u64, String>,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("oracle.json")).unwrap()
}

fn leaf(index: u64) -> Vec<u8> {
    format!("leaf {index}").repeat(usize::try_from(index % 5).unwrap()).into_bytes()
}

fn log_of(oracle: &Oracle) -> TestLog {
    let mut log = TestLog::new();
    log.append((0..oracle.size).map(leaf));
    log.cut();
    log
}

#[test]
fn files_and_checkpoint_are_the_same_byte_for_byte() {
    let oracle = oracle();
    let mut log = log_of(&oracle);
    let checkpoint = String::from_utf8(log.files.remove(CHECKPOINT_PATH).unwrap()).unwrap();
    assert!(oracle.checkpoint.starts_with(&checkpoint), "{checkpoint}");
    let partial: Vec<&String> = log.files.keys().filter(|name| name.contains(".p/")).collect();
    assert_eq!(partial, oracle.last_files.iter().collect::<Vec<_>>());
    assert_eq!(log.files.len(), oracle.files);
    let mut everything = Sha256::new();
    for (name, bytes) in &log.files {
        everything.update(name);
        everything.update([0]);
        everything.update(u64::try_from(bytes.len()).unwrap().to_be_bytes());
        everything.update(bytes);
    }
    assert_eq!(TreeHash::new(everything.finalize().into()).to_string(), oracle.files_sha256);
}

#[test]
fn roots_on_both_sides_of_a_tiles_end_are_the_same() {
    let mut frontier = Frontier::default();
    let mut compared = 0;
    let oracle = oracle();
    for index in 0..=*oracle.roots.keys().last().unwrap() {
        if let Some(root) = oracle.roots.get(&frontier.size()) {
            assert_eq!(frontier.root().to_string(), *root, "{index} leaves");
            compared += 1;
        }
        frontier.append(TreeHash::of_leaf(&leaf(index)));
    }
    assert_eq!(compared, 9);
}

#[test]
fn a_log_with_two_kinds_of_witnesses_verifies_as_a_whole_and_leaf_by_leaf() {
    let oracle = oracle();
    let mut log = log_of(&oracle);
    log.files.insert(CHECKPOINT_PATH.to_owned(), oracle.checkpoint.clone().into_bytes());
    let policy: LogPolicy = oracle.policy.parse().unwrap();
    let trusted = verify_log(&log.files, &policy, &[log.trusted()], &mut AnyLeaf).unwrap();
    let signed_at: Vec<Option<u64>> = trusted.endorsements().iter().map(|by| by.time_s).collect();
    assert_eq!(signed_at, [None, Some(1_790_000_000), Some(1_790_000_000)]);
    let mut tiles = TrustedTiles::open(&log.files, trusted.checkpoint().size(), trusted.checkpoint().root()).unwrap();
    for (index, text) in &oracle.proofs {
        let proof: LogProof = text.parse().unwrap();
        assert_eq!(proof.to_string(), *text);
        let mut ours = LogProof::make(&mut tiles, *index, oracle.checkpoint.parse().unwrap()).unwrap();
        ours.extra = b"salt".to_vec();
        assert_eq!(ours, proof);
        assert_eq!(tiles.leaf(*index).unwrap(), leaf(*index));
        proof.verify(&leaf(*index), &policy).unwrap();
        assert!(proof.verify(&leaf(index + 1), &policy).is_err(), "another leaf");
    }
}

#[test]
fn a_builder_that_resumes_makes_the_same_files() {
    let oracle = oracle();
    let whole = log_of(&oracle);
    for first in [0, 1, 255, 256, 65_535, 65_536, 65_793] {
        let mut log = TestLog::new();
        log.append((0..first).map(leaf));
        log.cut();
        let mut checkpoint = log.checkpoint();
        for until in [first + 3, first + 300, oracle.size] {
            log.builder = LogBuilder::resume(&log.files, &checkpoint).unwrap();
            log.append((log.builder.size()..until).map(leaf));
            log.cut();
            checkpoint = log.checkpoint();
        }
        // Partial files of the sizes in between stay; everything else is the same.
        for (name, bytes) in &whole.files {
            assert!(log.files.get(name) == Some(bytes), "{name} after {first}");
        }
        assert_eq!(whole.builder.checkpoint(ORIGIN).unwrap(), checkpoint);
    }
}
