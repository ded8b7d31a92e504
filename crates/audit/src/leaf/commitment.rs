//! Commitments: a hash over a salt and a content. A holder of both can prove that the leaf is about this content; without the salt the
//! hash tells nothing, even about contents that could be guessed. Erasing salt and content leaves the log as it is.
//!
//! Deliberately not here: where salts come from and are kept.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes of a salt, all of them random.
pub const SALT_BYTES: usize = 32;

const DOMAIN: &[u8] = b"servanda/commitment/v1\0";
const PREFIX: &str = "salted-sha256:";

/// A commitment, written `salted-sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Commitment([u8; 32]);

/// Text that is not a commitment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a commitment is `{PREFIX}` followed by 64 lower-case hex digits")]
pub struct ParseCommitmentError(());

impl Commitment {
    /// Commits to a content.
    pub fn new(salt: &[u8; SALT_BYTES], content: &[u8]) -> Self {
        Self(Sha256::new().chain_update(DOMAIN).chain_update(salt).chain_update(content).finalize().into())
    }

    /// Whether this salt and this content are what was committed to.
    pub fn is_opened_by(&self, salt: &[u8; SALT_BYTES], content: &[u8]) -> bool {
        Self::new(salt, content) == *self
    }
}

impl fmt::Display for Commitment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Commitment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<Commitment> for String {
    fn from(commitment: Commitment) -> Self {
        commitment.to_string()
    }
}

impl FromStr for Commitment {
    type Err = ParseCommitmentError;

    fn from_str(text: &str) -> Result<Self, ParseCommitmentError> {
        let digits =
            text.strip_prefix(PREFIX).and_then(|digits| digits.as_bytes().as_chunks::<2>().0.first_chunk::<32>());
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.ok_or(ParseCommitmentError(()))?) {
            let pair = str::from_utf8(pair).map_err(|_| ParseCommitmentError(()))?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| ParseCommitmentError(()))?;
        }
        // Only the one spelling: no capitals, no signs, nothing after it.
        let commitment = Self(bytes);
        if commitment.to_string() == text { Ok(commitment) } else { Err(ParseCommitmentError(())) }
    }
}

impl TryFrom<String> for Commitment {
    type Error = ParseCommitmentError;

    fn try_from(text: String) -> Result<Self, ParseCommitmentError> {
        text.parse()
    }
}
