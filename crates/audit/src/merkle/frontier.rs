//! The frontier of a tree: the roots of its complete subtrees from left to right. It is all that is needed to append leaves and to
//! know the root.
//!
//! Deliberately not here: the hashes below the frontier.

use super::TreeHash;

/// A tree that grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frontier {
    // INVARIANT: one root for each one bit of `size`, the largest subtree first.
    roots: Vec<TreeHash>,
    size: u64,
}

impl Frontier {
    /// The leaves of the tree.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Appends a leaf's hash.
    pub fn append(&mut self, leaf: TreeHash) {
        self.append_subtree(0, leaf);
    }

    /// Appends the root of a complete subtree of `2^height` leaves. Returns false, and changes nothing, if the tree does not end
    /// where such a subtree begins, or would have more leaves than 64 bits count.
    pub fn append_subtree(&mut self, height: u32, root: TreeHash) -> bool {
        let Some(leaves) = 1_u64.checked_shl(height) else { return false };
        let Some(size) = self.size.checked_add(leaves) else { return false };
        if !self.size.is_multiple_of(leaves) {
            return false;
        }
        let mut merged = root;
        // Upholds: the last roots are those of the lowest bits that are set.
        let complete = (self.size >> height).trailing_ones();
        for _ in 0..complete {
            let Some(left) = self.roots.pop() else { return false };
            merged = TreeHash::of_node(left, merged);
        }
        self.roots.push(merged);
        self.size = size;
        true
    }

    /// The root of the tree.
    pub fn root(&self) -> TreeHash {
        let from_right = self.roots.iter().rev().copied();
        from_right.reduce(|right, left| TreeHash::of_node(left, right)).unwrap_or_else(TreeHash::of_empty_tree)
    }
}
