//! Strict bytes: JSON decoded so that one text has one meaning, and the canonical bytes (RFC 8785) of that meaning.
//!
//! What an approver sees, what is hashed and what the upstream gets are the same bytes only if decoding leaves no choice.

mod canonical;
mod integers;
mod strict;
#[cfg(test)]
mod tests;

pub use canonical::{CanonicalBytes, canonicalize};
pub use strict::{JsonLimits, StrictError, decode};
