//! A secret value: wiped when it is dropped, absent from every print, never serialised. Code that needs the bytes must
//! call `expose`.

use std::fmt;

use zeroize::Zeroizing;

/// Bytes that only their intended recipient may see.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// The operating system provides no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system provides no randomness")]
pub struct NoRandomness(());

impl Secret {
    /// Takes the bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// New random bytes.
    pub fn random(bytes_count: usize) -> Result<Self, NoRandomness> {
        let mut bytes = Zeroizing::new(vec![0; bytes_count]);
        getrandom::fill(&mut bytes).map_err(|_| NoRandomness(()))?;
        Ok(Self(bytes))
    }

    /// The bytes, for the one use they are for.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, if they are text.
    pub fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text.into_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not even its length: that tells kinds of tokens apart.
        formatter.write_str("Secret")
    }
}
