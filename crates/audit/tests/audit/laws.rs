//! Laws of the tree: against the recursive definition of RFC 6962, and no bit of a proof can be another one.

use std::convert::Infallible;

use proptest::prelude::*;
use servanda_audit::{
    TreeHash, TrustedTiles,
    merkle::{
        Frontier, Subtree, SubtreeHashes, consistency_path, inclusion_path, verify_consistency, verify_inclusion,
    },
};

use super::logs::{TestLog, leaf};

/// The definition: a list is divided after the largest power of two below its length.
fn root(leaves: &[TreeHash]) -> TreeHash {
    match leaves {
        [] => TreeHash::of_empty_tree(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(1 << (leaves.len() - 1).ilog2());
            TreeHash::of_node(root(left), root(right))
        }
    }
}

struct Leaves(Vec<TreeHash>);

impl SubtreeHashes for Leaves {
    type Fault = Infallible;

    fn subtree(&mut self, subtree: Subtree) -> Result<TreeHash, Infallible> {
        let start = usize::try_from(subtree.index).unwrap() << subtree.height;
        Ok(root(&self.0[start..start + (1 << subtree.height)]))
    }
}

fn leaves(count: u64) -> Leaves {
    Leaves((0..count).map(|index| TreeHash::of_leaf(&leaf(index))).collect())
}

fn flipped(hash: TreeHash, bit: usize) -> TreeHash {
    let mut bytes = *hash.as_bytes();
    bytes[bit / 8 % 32] ^= 1 << (bit % 8);
    TreeHash::new(bytes)
}

/// The proof with one bit of it, or one hash more or less.
fn corruptions(path: &[TreeHash], bit: usize) -> Vec<Vec<TreeHash>> {
    let mut found: Vec<Vec<TreeHash>> = (0..path.len())
        .map(|place| {
            let mut wrong = path.to_vec();
            wrong[place] = flipped(wrong[place], bit);
            wrong
        })
        .collect();
    found.extend((0..path.len()).map(|place| [&path[..place], &path[place + 1..]].concat()));
    found.push([path, &[TreeHash::of_empty_tree()]].concat());
    found
}

#[test]
fn the_frontier_is_the_definition() {
    let all = leaves(300);
    let mut frontier = Frontier::default();
    for count in 0..all.0.len() {
        assert_eq!(frontier.root(), root(&all.0[..count]), "{count} leaves");
        frontier.append(all.0[count]);
    }
}

#[test]
fn a_subtree_is_appended_only_where_it_can_be() {
    let all = leaves(8);
    let mut frontier = Frontier::default();
    frontier.append(all.0[0]);
    let before = frontier.clone();
    assert!(!frontier.append_subtree(1, root(&all.0[1..3])), "two leaves do not begin at leaf 1");
    assert!(!frontier.append_subtree(64, all.0[0]), "more leaves than 64 bits count");
    assert_eq!(frontier, before);
    frontier.append(all.0[1]);
    assert!(frontier.append_subtree(1, root(&all.0[2..4])) && frontier.append_subtree(2, root(&all.0[4..])));
    assert_eq!(frontier.root(), root(&all.0));
    let mut largest = Frontier::default();
    assert!(largest.append_subtree(63, all.0[0]) && !largest.append_subtree(63, all.0[0]));
}

#[test]
fn every_proof_of_small_trees_verifies_and_no_corruption_of_it_does() {
    for size in 1..=33 {
        let mut all = leaves(size);
        let now = root(&all.0);
        for index in 0..size {
            let hash = all.0[usize::try_from(index).unwrap()];
            let path = inclusion_path(&mut all, index, size).unwrap().unwrap();
            verify_inclusion(hash, index, size, &path, now).unwrap();
            for wrong in corruptions(&path, 77) {
                assert!(verify_inclusion(hash, index, size, &wrong, now).is_err(), "{index} of {size}");
            }
            assert!(verify_inclusion(flipped(hash, 3), index, size, &path, now).is_err());
            assert!(verify_inclusion(hash, index, size, &path, flipped(now, 3)).is_err());
            for other in (0..=size).filter(|other| *other != index) {
                assert!(verify_inclusion(hash, other, size, &path, now).is_err(), "{index} as {other} of {size}");
            }
        }
        for earlier in 0..=size {
            let before = root(&all.0[..usize::try_from(earlier).unwrap()]);
            let path = consistency_path(&mut all, earlier, size).unwrap().unwrap();
            verify_consistency((earlier, before), (size, now), &path).unwrap();
            for wrong in corruptions(&path, 200) {
                let verified = verify_consistency((earlier, before), (size, now), &wrong);
                assert!(verified.is_err(), "{earlier} to {size}");
            }
            assert!(verify_consistency((earlier, flipped(before, 9)), (size, now), &path).is_err());
            if earlier > 0 {
                assert!(verify_consistency((earlier, before), (size, flipped(now, 9)), &path).is_err());
            }
        }
        assert_eq!(inclusion_path(&mut all, size, size).unwrap(), None);
        assert_eq!(consistency_path(&mut all, size + 1, size).unwrap(), None);
    }
}

#[test]
fn proofs_from_tiles_verify_on_both_sides_of_every_edge() {
    let log = TestLog::of(66_000);
    let checkpoint = log.checkpoint();
    let (size, now) = (checkpoint.size(), checkpoint.root());
    let mut tiles = TrustedTiles::open(&log.files, size, now).unwrap();
    for index in [0, 1, 255, 256, 65_535, 65_536, 65_791, 65_792, size - 1] {
        let path = inclusion_path(&mut tiles, index, size).unwrap().unwrap();
        verify_inclusion(TreeHash::of_leaf(&leaf(index)), index, size, &path, now).unwrap();
    }
    let mut frontier = Frontier::default();
    for earlier in 0..=size {
        if [1, 2, 255, 256, 257, 65_535, 65_536, 65_537, 65_800, size].contains(&earlier) {
            let path = consistency_path(&mut tiles, earlier, size).unwrap().unwrap();
            verify_consistency((earlier, frontier.root()), (size, now), &path).unwrap();
        }
        frontier.append(TreeHash::of_leaf(&leaf(earlier)));
    }
}

proptest! {
    /// A verifier takes any numbers: it neither panics nor believes.
    #[test]
    fn strange_numbers_prove_nothing(first: u64, second: u64, count in 0_usize..80, seed: [u8; 32]) {
        let path = vec![TreeHash::new(seed); count];
        let hash = TreeHash::of_leaf(&seed);
        prop_assert!(verify_inclusion(hash, first, second, &path, TreeHash::of_empty_tree()).is_err());
        let verified = verify_consistency((first, hash), (second, TreeHash::of_empty_tree()), &path);
        prop_assert!(verified.is_err());
    }
}
