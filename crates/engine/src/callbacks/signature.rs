//! Signatures as the Standard Webhooks specification has them: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What a secret in the specification's own form begins with; the rest is base64.
const PREFIX: &str = "whsec_";
/// The least a secret may have: 192 bits.
const SECRET_BYTES_MIN: usize = 24;
/// More than this is a mistake, and not a secret.
const SECRET_BYTES_MAX: usize = 1_024;

/// What events are signed with. It is never shown.
#[derive(Clone)]
pub struct SigningSecret(Hmac<Sha256>);

/// Why something is no secret; it never says what that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningSecretError {
    /// There is none.
    #[error("it is empty")]
    Empty,
    /// It can be guessed.
    #[error("it has {0} bytes, and at least {SECRET_BYTES_MIN} are needed")]
    Short(usize),
    /// Nobody meant that.
    #[error("it has more than {SECRET_BYTES_MAX} bytes")]
    Long,
    /// It says that it is base64 and is not.
    #[error("it begins with `{PREFIX}`, and what follows is not base64")]
    NotBase64,
}

impl SigningSecret {
    /// Reads a secret: behind `whsec_` it is base64, anything else is taken as it is.
    pub fn parse(text: &str) -> Result<Self, SigningSecretError> {
        let bytes = match text.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| SigningSecretError::NotBase64)?,
            None => text.as_bytes().to_vec(),
        };
        match bytes.len() {
            0 => Err(SigningSecretError::Empty),
            length if length < SECRET_BYTES_MIN => Err(SigningSecretError::Short(length)),
            length if length > SECRET_BYTES_MAX => Err(SigningSecretError::Long),
            // HMAC takes a key of any length.
            _ => Hmac::new_from_slice(&bytes).map(Self).map_err(|_| SigningSecretError::Long),
        }
    }

    /// The signature of a message, as it stands in the header. Neither the id nor the time has a full stop in it.
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
