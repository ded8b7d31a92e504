//! The hashes of RFC 6962, section 2.1: SHA-256 with a byte in front that tells leaves from nodes.
//!
//! Deliberately not here: which nodes are hashed together.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

/// Bytes of a hash.
pub const HASH_BYTES: usize = 32;

/// A hash of the tree; written in base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeHash([u8; HASH_BYTES]);

/// Text that is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 32 bytes in base64")]
pub struct ParseTreeHashError(());

impl TreeHash {
    /// The hash of these bytes, which were computed elsewhere.
    pub const fn new(bytes: [u8; HASH_BYTES]) -> Self {
        Self(bytes)
    }

    /// The hash of a leaf's bytes.
    pub fn of_leaf(leaf: &[u8]) -> Self {
        Self(Sha256::new().chain_update([0]).chain_update(leaf).finalize().into())
    }

    /// The hash of a node.
    pub fn of_node(left: Self, right: Self) -> Self {
        Self(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0).finalize().into())
    }

    /// The root of the tree without leaves.
    pub fn of_empty_tree() -> Self {
        Self(Sha256::digest([]).into())
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; HASH_BYTES] {
        &self.0
    }
}

impl fmt::Display for TreeHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for TreeHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for TreeHash {
    type Err = ParseTreeHashError;

    fn from_str(text: &str) -> Result<Self, ParseTreeHashError> {
        let bytes = STANDARD.decode(text).map_err(|_| ParseTreeHashError(()))?;
        bytes.try_into().map(Self).map_err(|_| ParseTreeHashError(()))
    }
}
