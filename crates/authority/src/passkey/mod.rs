//! Passkeys (`WebAuthn`): what a browser sends when a person registers a passkey or signs with one is checked here, and a signature that was
//! recorded can be checked again later by anybody.
//!
//! The verifier is ours because it is small: strict JSON, a strict reader of the little CBOR that `WebAuthn` has, and three algorithms. The
//! caller passes the challenge and the relying party in. Attestation is not believed: a statement about the maker of an authenticator is
//! read past. What a store keeps of a passkey is defined here too ([`StoredPasskey`]).
//! Deliberately not here: making challenges, remembering which were used, and the store itself.

mod assertion;
mod authenticator_data;
mod cbor;
mod client_data;
mod fault;
mod public_key;
mod registration;
mod relying_party;
mod stored;
#[cfg(test)]
mod tests;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

pub use assertion::{PasskeyAssertion, PasskeyAssertionResponse, VerifiedPasskeyAssertion};
pub use fault::PasskeyFault;
pub use public_key::PasskeyPublicKey;
pub use registration::{PasskeyAttestationResponse, PasskeyRegistration, RegisteredPasskey};
pub use relying_party::{BadRelyingParty, RelyingParty};
pub use stored::{PASSKEY_NAME_CHARS_MAX, StoredPasskey, passkey_handle};

/// Bytes of a challenge.
pub const PASSKEY_CHALLENGE_BYTES: usize = 32;
/// Bytes of a credential's id (`WebAuthn` §4).
const CREDENTIAL_ID_BYTES_MAX: usize = 1023;

/// What a browser was asked.
#[derive(Debug, Clone, Copy)]
pub struct PasskeyExpectation<'a> {
    /// The challenge of this ceremony. The caller makes it and accepts it once.
    pub challenge: &'a [u8; PASSKEY_CHALLENGE_BYTES],
    /// Where the ceremony took place.
    pub party: &'a RelyingParty,
}

/// The bytes of a base64url text without padding, which has exactly one form.
fn decode(text: &str, bytes_max: usize, what: &'static str) -> Result<Vec<u8>, PasskeyFault> {
    // Four characters are three bytes.
    if text.len() > bytes_max.div_ceil(3) * 4 {
        return Err(PasskeyFault::Malformed(what));
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| PasskeyFault::Malformed(what))?;
    if bytes.len() > bytes_max { Err(PasskeyFault::Malformed(what)) } else { Ok(bytes) }
}
