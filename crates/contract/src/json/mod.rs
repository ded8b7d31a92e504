//! Strict bytes: JSON decoded so that one text has one meaning, and the canonical bytes (RFC 8785) of that meaning.
//!
//! An approver, the digest and the upstream see the same bytes only if decoding is unambiguous.

mod canonical;
mod integers;
mod strict;
#[cfg(test)]
mod tests;

pub use canonical::{CanonicalBytes, canonicalize};
pub use strict::{JsonLimits, StrictError, decode};
