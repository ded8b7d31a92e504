//! The Merkle tree of RFC 6962: hashes, the frontier of a growing tree, proofs of inclusion and of consistency.
//!
//! A proof is made from hashes of complete subtrees, which a [`SubtreeHashes`] supplies, and verified from nothing but the proof.
//! Deliberately not here: where hashes are stored (`tile`), and who signed a root (`note`).

mod consistency;
mod frontier;
mod hash;
mod inclusion;
mod subtree;

pub use consistency::{consistency_path, verify_consistency};
pub use frontier::Frontier;
pub use hash::{HASH_BYTES, ParseTreeHashError, TreeHash};
pub use inclusion::{inclusion_path, verify_inclusion};
pub use subtree::{Subtree, SubtreeHashes};

/// Hashes a proof may have: a tree of 64-bit size has at most 64 levels, and a consistency proof begins with one hash more.
pub const PATH_HASHES_MAX: usize = 65;

/// A proof that does not prove what it is said to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// The leaf would be outside the tree.
    #[error("leaf {index} is outside a tree of {size} leaves")]
    Outside {
        /// The leaf.
        index: u64,
        /// The leaves of the tree.
        size: u64,
    },
    /// The earlier tree would be larger than the later one.
    #[error("a tree of {later} leaves cannot contain an earlier one of {earlier}")]
    Backwards {
        /// The leaves of the tree that is said to be earlier.
        earlier: u64,
        /// The leaves of the other.
        later: u64,
    },
    /// Too few or too many hashes for these sizes.
    #[error("the proof has {hashes} hashes, which no tree of this size needs")]
    Length {
        /// The hashes that the proof has.
        hashes: usize,
    },
    /// The hashes lead to another root.
    #[error("the hashes of the proof lead to another root")]
    OtherRoot,
    /// The hashes lead to another root of the earlier tree.
    #[error("the hashes of the proof lead to another root of the earlier tree")]
    OtherEarlierRoot,
}
