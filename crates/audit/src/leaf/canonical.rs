//! The bytes of a leaf: RFC 8785, so that a leaf has one spelling, within limits.
//!
//! Deliberately not here: the shape (`event`).

use serde_json::Value;

use super::event::AuditLeaf;
use crate::tile::LEAF_BYTES_MAX;

/// The version of the shape; readers refuse a newer one.
pub const LEAF_VERSION: u32 = 1;
/// Bytes of a text in a leaf.
pub const LEAF_TEXT_BYTES_MAX: usize = 2_048;
/// Items of a list in a leaf.
pub const LEAF_LIST_MAX: usize = 64;

/// Bytes that nearly every leaf fits into.
const SPELLED_BYTES: usize = 1_024;
/// Numbers above lose digits in readers that know floating-point numbers only.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// Why bytes are not a leaf, or a leaf has no bytes.
#[derive(Debug, thiserror::Error)]
pub enum LeafFormFault {
    /// Another shape.
    #[error("not a leaf")]
    Shape(#[source] serde_json::Error),
    /// A newer shape.
    #[error("the leaf has version {0}; this program reads version {LEAF_VERSION}")]
    Version(u32),
    /// Another spelling.
    #[error("the leaf is not spelled as RFC 8785 spells it")]
    Spelling,
    /// Too large.
    #[error("the leaf has {bytes} bytes and may have {LEAF_BYTES_MAX}")]
    Size {
        /// Its bytes.
        bytes: usize,
    },
    /// A text, a list or a number.
    #[error(
        "a leaf has texts of at most {LEAF_TEXT_BYTES_MAX} bytes, lists of at most {LEAF_LIST_MAX} and numbers below 2^53"
    )]
    Limit,
}

impl AuditLeaf {
    /// The bytes of the leaf.
    pub fn to_bytes(&self) -> Result<Vec<u8>, LeafFormFault> {
        let bytes = self.spell()?;
        let value = serde_json::from_slice(&bytes).map_err(LeafFormFault::Shape)?;
        if is_within_limits(&value) { Ok(bytes) } else { Err(LeafFormFault::Limit) }
    }

    /// The bytes of a leaf whose writer keeps the limits of texts, lists and numbers itself.
    pub fn spell(&self) -> Result<Vec<u8>, LeafFormFault> {
        let mut bytes = Vec::with_capacity(SPELLED_BYTES);
        // The fields are declared in the order of their names, and no number is a fraction, so that serde_json writes what RFC 8785 wants.
        serde_json::to_writer(&mut bytes, self).map_err(LeafFormFault::Shape)?;
        if bytes.len() > LEAF_BYTES_MAX { Err(LeafFormFault::Size { bytes: bytes.len() }) } else { Ok(bytes) }
    }

    /// Reads a leaf. Bytes that the leaf would not be written with are refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LeafFormFault> {
        if bytes.len() > LEAF_BYTES_MAX {
            return Err(LeafFormFault::Size { bytes: bytes.len() });
        }
        let leaf: Self = serde_json::from_slice(bytes).map_err(LeafFormFault::Shape)?;
        if leaf.v != LEAF_VERSION {
            return Err(LeafFormFault::Version(leaf.v));
        }
        if leaf.to_bytes()? == bytes { Ok(leaf) } else { Err(LeafFormFault::Spelling) }
    }
}

/// A leaf is flat enough to look at recursively: the shape has three levels.
fn is_within_limits(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => number.as_u64().is_some_and(|number| number <= NUMBER_MAX),
        Value::String(text) => text.len() <= LEAF_TEXT_BYTES_MAX,
        Value::Array(items) => items.len() <= LEAF_LIST_MAX && items.iter().all(is_within_limits),
        Value::Object(members) => members.values().all(is_within_limits),
    }
}
