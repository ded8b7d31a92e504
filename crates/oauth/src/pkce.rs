//! What ties the two halves of a consent together: the verifier whose hash is sent first (PKCE, RFC 7636, S256 and nothing else), and the
//! state that comes back with the answer.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use servanda_authority::{Secret, secret::NoRandomness};
use sha2::{Digest as _, Sha256};

const RANDOM_BYTES: usize = 32;

/// A random text that fits into a URL, 43 characters long.
pub fn random_text() -> Result<Secret, NoRandomness> {
    Secret::random(RANDOM_BYTES).map(|bytes| Secret::from(URL_SAFE_NO_PAD.encode(bytes.expose())))
}

/// The challenge of a verifier, which is sent first.
pub fn s256_challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_the_one_of_rfc_7636() {
        let verifier = Secret::from("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned());
        assert_eq!(s256_challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn texts_are_long_and_never_the_same() {
        let (one, other) = (random_text().unwrap(), random_text().unwrap());
        assert_eq!(one.expose().len(), 43);
        assert_ne!(one.expose(), other.expose());
    }
}
