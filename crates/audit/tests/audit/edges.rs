//! The right edge of a tree: it is the one of the log that a builder makes, and it survives being stored.

use proptest::prelude::*;
use servanda_audit::{LogBuilder, TreeEdge, TreeHash, merkle::HASH_BYTES};

use super::logs::leaf;

fn edge_of(size: u64) -> TreeEdge {
    let mut edge = TreeEdge::default();
    for index in 0..size {
        edge.append(TreeHash::of_leaf(&leaf(index)));
    }
    edge
}

#[test]
fn every_full_tile_comes_once_and_equals_the_file() {
    let (mut edge, mut builder, mut tiles) = (TreeEdge::default(), LogBuilder::default(), Vec::new());
    for index in 0..66_000 {
        tiles.extend(edge.append(TreeHash::of_leaf(&leaf(index))));
        builder.append(&leaf(index)).unwrap();
    }
    let files = builder.cut();
    assert_eq!(tiles.len(), 257 + 1, "257 tiles of level 0, one of level 1");
    for tile in tiles {
        let file = files.iter().find(|file| file.path == tile.path).unwrap();
        let bytes: Vec<u8> = tile.hashes.iter().flat_map(TreeHash::as_bytes).copied().collect();
        assert_eq!(file.bytes, bytes, "{}", tile.path);
    }
    assert_eq!(builder.checkpoint("example.org/log").unwrap().root(), edge.root());
}

#[test]
fn a_damaged_edge_is_refused() {
    let bytes = edge_of(700).to_bytes();
    assert_eq!(bytes.len(), (700 % 256 + 2) * HASH_BYTES);
    assert_eq!(TreeEdge::from_bytes(700, &bytes).unwrap(), edge_of(700));
    let refused = |size: u64, bytes: &[u8]| TreeEdge::from_bytes(size, bytes).unwrap_err().to_string();
    assert_eq!(refused(699, &bytes), "the right edge of the tree of 699 leaves is damaged");
    assert!(!refused(701, &bytes).is_empty() && !refused(700, &bytes[1..]).is_empty());
    assert!(!refused(700, &[&bytes[..], &[0]].concat()).is_empty() && !refused(0, &bytes).is_empty());
    assert_eq!(TreeEdge::from_bytes(0, &[]).unwrap(), TreeEdge::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stored_edge_grows_as_one_that_was_not(first in 0_u64..1_200, more in 0_u64..600) {
        let whole = edge_of(first + more);
        let mut stored = TreeEdge::from_bytes(first, &edge_of(first).to_bytes()).unwrap();
        for index in first..first + more {
            stored.append(TreeHash::of_leaf(&leaf(index)));
        }
        prop_assert_eq!(stored.root(), whole.root());
        prop_assert_eq!(stored, whole);
    }
}
