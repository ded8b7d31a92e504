//! Proofs that a leaf is in a tree: RFC 6962 2.1.1 makes them, RFC 9162 2.1.3.2 verifies them.

use super::{
    PATH_HASHES_MAX, PathFault, TreeHash,
    subtree::{LeafRange, SubtreeHashes},
};

/// The path from the leaf `index` to the root of the tree of `size` leaves: the leaf's sibling first. `None` if the leaf is
/// outside the tree.
pub fn inclusion_path<S: SubtreeHashes>(
    hashes: &mut S,
    index: u64,
    size: u64,
) -> Result<Option<Vec<TreeHash>>, S::Fault> {
    if index >= size {
        return Ok(None);
    }
    let mut range = LeafRange { start: 0, end: size };
    let mut path = Vec::new();
    while range.end - range.start > 1 {
        let (next, sibling) =
            if index < range.middle() { (range.left(), range.right()) } else { (range.right(), range.left()) };
        path.push(sibling.hash(hashes)?);
        range = next;
    }
    path.reverse();
    Ok(Some(path))
}

/// Checks that `leaf` is the leaf `index` of the tree of `size` leaves with this root.
pub fn verify_inclusion(
    leaf: TreeHash,
    index: u64,
    size: u64,
    path: &[TreeHash],
    root: TreeHash,
) -> Result<(), PathFault> {
    if index >= size {
        return Err(PathFault::Outside { index, size });
    }
    let wrong_length = PathFault::Length { hashes: path.len() };
    if path.len() > PATH_HASHES_MAX {
        return Err(wrong_length);
    }
    // The places of the leaf and of the last leaf, level by level.
    let (mut place, mut last) = (index, size - 1);
    let mut hash = leaf;
    for &sibling in path {
        if last == 0 {
            return Err(wrong_length);
        }
        if place % 2 == 1 || place == last {
            hash = TreeHash::of_node(sibling, hash);
            // A node without a right sibling rises until it is one.
            while place % 2 == 0 && place != 0 {
                (place, last) = (place / 2, last / 2);
            }
        } else {
            hash = TreeHash::of_node(hash, sibling);
        }
        (place, last) = (place / 2, last / 2);
    }
    match (last == 0, hash == root) {
        (false, _) => Err(wrong_length),
        (true, false) => Err(PathFault::OtherRoot),
        (true, true) => Ok(()),
    }
}
