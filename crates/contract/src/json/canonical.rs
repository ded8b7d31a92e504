//! Canonical bytes by RFC 8785. Only this module creates them, so the type proves their form.

use bytes::Bytes;
use serde_json::Value;

/// The RFC 8785 form of a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalBytes(Bytes);

/// Serialises a decoded value in its one canonical form.
///
/// A `Value` holds only finite numbers and string keys, so nothing in it can fail to serialise. If the library ever disagrees,
/// the error is returned, not hidden.
pub fn canonicalize(value: &Value) -> Result<CanonicalBytes, serde_json::Error> {
    serde_json_canonicalizer::to_vec(value).map(|bytes| CanonicalBytes(bytes.into()))
}

impl CanonicalBytes {
    /// The bytes, cheap to share.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}
