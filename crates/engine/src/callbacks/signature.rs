//! Signatures as the Standard Webhooks specification defines them: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The prefix of a secret in the specification's own form; the rest is base64.
const PREFIX: &str = "whsec_";
/// The shortest secret that is accepted: 192 bits.
const SECRET_BYTES_MIN: usize = 24;
/// The longest secret that is accepted. A longer text is more likely a mistake than a secret.
const SECRET_BYTES_MAX: usize = 1_024;

/// The secret that signs events. It is never shown.
#[derive(Clone)]
pub struct SigningSecret(Hmac<Sha256>);

/// Why a text is not a usable secret. The error never contains the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningSecretError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is so short that it could be guessed.
    #[error("it has {0} bytes, and at least {SECRET_BYTES_MIN} are needed")]
    Short(usize),
    /// It is so long that it must be a mistake.
    #[error("it has more than {SECRET_BYTES_MAX} bytes")]
    Long,
    /// It begins like base64 but is not.
    #[error("it begins with `{PREFIX}`, and what follows is not base64")]
    NotBase64,
}

impl SigningSecret {
    /// Reads a secret: after `whsec_` it is base64; any other text is used as it is.
    pub fn parse(text: &str) -> Result<Self, SigningSecretError> {
        let bytes = match text.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| SigningSecretError::NotBase64)?,
            None => text.as_bytes().to_vec(),
        };
        match bytes.len() {
            0 => Err(SigningSecretError::Empty),
            length if length < SECRET_BYTES_MIN => Err(SigningSecretError::Short(length)),
            length if length > SECRET_BYTES_MAX => Err(SigningSecretError::Long),
            // HMAC accepts a key of any length, so this error never occurs.
            _ => Hmac::new_from_slice(&bytes).map(Self).map_err(|_| SigningSecretError::Long),
        }
    }

    /// The signature of a message, as the header has it. The id and the time must not contain a full stop.
    pub(crate) fn sign(&self, id: &str, timestamp_sec: u64, body: &str) -> String {
        let mut code = self.0.clone();
        code.update(format!("{id}.{timestamp_sec}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SigningSecret")
    }
}
