//! Subtrees: which complete ones a range of leaves consists of, and the hash of a range.
//!
//! Deliberately not here: where hashes come from; a [`SubtreeHashes`] knows.

use super::{Frontier, TreeHash};

/// The complete subtree over the leaves from `index * 2^height` to before `(index + 1) * 2^height`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subtree {
    /// Levels above the leaves.
    pub height: u32,
    /// The place among the subtrees of this height.
    pub index: u64,
}

/// Supplies the roots of complete subtrees.
pub trait SubtreeHashes {
    /// Why a root cannot be supplied.
    type Fault;

    /// The root of a subtree.
    fn subtree(&mut self, subtree: Subtree) -> Result<TreeHash, Self::Fault>;
}

/// The leaves from `start` to before `end`; `start` is where a subtree of at least this length may begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeafRange {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl LeafRange {
    /// Where RFC 6962 divides a range of two leaves or more: after the largest power of two that is smaller than its length.
    pub(super) const fn middle(self) -> u64 {
        let length = self.end - self.start;
        self.start + (1 << (u64::BITS - 1 - (length - 1).leading_zeros()))
    }

    pub(super) const fn left(self) -> Self {
        Self { start: self.start, end: self.middle() }
    }

    pub(super) const fn right(self) -> Self {
        Self { start: self.middle(), end: self.end }
    }

    /// The hash of the range.
    pub(super) fn hash<S: SubtreeHashes>(self, hashes: &mut S) -> Result<TreeHash, S::Fault> {
        // Subtrees of descending height are appended like leaves, as if the range were a tree of its own.
        let mut frontier = Frontier::default();
        let mut at = self.start;
        while at < self.end {
            let height = (self.end - at).ilog2();
            let root = hashes.subtree(Subtree { height, index: at >> height })?;
            frontier.append_subtree(height, root);
            at += 1 << height;
        }
        Ok(frontier.root())
    }
}
