//! Canonical bytes by RFC 8785. Only this module makes them, so that having some is evidence of their form.

use bytes::Bytes;
use serde_json::Value;

/// The RFC 8785 form of a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalBytes(Bytes);

/// Serialises a decoded value in its one canonical form.
///
/// A `Value` holds only finite numbers and string keys, so nothing in it can fail to serialise; should the library ever
/// disagree, the error is handed up instead of hidden.
pub fn canonicalize(value: &Value) -> Result<CanonicalBytes, serde_json::Error> {
    serde_json_canonicalizer::to_vec(value).map(|bytes| CanonicalBytes(bytes.into()))
}

impl CanonicalBytes {
    /// The bytes, cheap to share.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}
