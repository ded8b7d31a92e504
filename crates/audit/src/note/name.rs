//! Names and ids of keys.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};

/// Bytes of a key's name; a cosignature writes its length in one byte.
pub const KEY_NAME_BYTES_MAX: usize = 255;

/// The name under which a key signs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

/// The first four bytes of a hash over a key's name, kind and bytes: tells keys apart, and proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 4]);

/// Text that cannot name a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key's name has 1 to {KEY_NAME_BYTES_MAX} bytes, without spaces, `+` and control characters")]
pub struct KeyNameFault(());

impl KeyName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl KeyId {
    /// The id of a key, as the specification recommends it.
    pub(super) fn compute(name: &KeyName, kind: u8, public_key: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(name.as_str()).chain_update([b'\n', kind]).chain_update(public_key);
        let [first, second, third, fourth, ..]: [u8; 32] = hash.finalize().into();
        Self([first, second, third, fourth])
    }

    pub(super) const fn new(bytes: [u8; 4]) -> Self {
        Self(bytes)
    }

    /// The four bytes.
    pub const fn as_bytes(&self) -> &[u8; 4] {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = KeyNameFault;

    fn from_str(text: &str) -> Result<Self, KeyNameFault> {
        let has_length = (1..=KEY_NAME_BYTES_MAX).contains(&text.len());
        let may_contain = |character: char| !character.is_whitespace() && character >= ' ' && character != '+';
        if has_length && text.chars().all(may_contain) { Ok(Self(text.to_owned())) } else { Err(KeyNameFault(())) }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
