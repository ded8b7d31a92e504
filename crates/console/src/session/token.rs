//! The token of a session: 256 random bits, and a mark of the person, by which a person's sessions are found and counted.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use servanda_authority::{Secret, secret::NoRandomness};
use servanda_contract::digest::hex;
use sha2::{Digest as _, Sha256};

const SECRET_BYTES: usize = 32;
const SECRET_CHARS: usize = 43;
const MARK_CHARS: usize = 16;
const TOKEN_DOMAIN: &[u8] = b"servanda/console-session/v1\0";
const PERSON_DOMAIN: &[u8] = b"servanda/console-person/v1\0";

/// The token of a session.
pub(crate) struct SessionToken {
    /// A hash of the person's name. It is no secret.
    mark: String,
    secret: Secret,
}

impl SessionToken {
    /// A new token for a person.
    pub(crate) fn new(tenant: &str, principal: &str) -> Result<Self, NoRandomness> {
        Ok(Self { mark: person_mark(tenant, principal), secret: Secret::random(SECRET_BYTES)? })
    }

    /// Reads a cookie's value. None if it cannot be a token.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (mark, secret) = text.split_once('.')?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        // The length is checked first: nothing is decoded that cannot be a token.
        if mark.len() != MARK_CHARS || !mark.bytes().all(is_hex) || secret.len() != SECRET_CHARS {
            return None;
        }
        Some(Self { mark: mark.to_owned(), secret: Secret::new(URL_SAFE_NO_PAD.decode(secret).ok()?) })
    }

    /// The cookie's value.
    pub(crate) fn text(&self) -> String {
        format!("{}.{}", self.mark, URL_SAFE_NO_PAD.encode(self.secret.expose()))
    }

    /// The key under which the store has the session. The token cannot be made from it.
    pub(crate) fn store_key(&self) -> String {
        let hash = Sha256::new().chain_update(TOKEN_DOMAIN).chain_update(self.secret.expose()).finalize();
        format!("{}.{}", self.mark, hex(&hash))
    }

    /// The mark of the person.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// The secret, as a key for codes.
    pub(crate) fn secret(&self) -> &[u8] {
        self.secret.expose()
    }
}

/// A short hash of a person's name.
pub(crate) fn person_mark(tenant: &str, principal: &str) -> String {
    let hash =
        Sha256::new().chain_update(PERSON_DOMAIN).chain_update(tenant).chain_update(b"\0").chain_update(principal);
    let text = hex(&hash.finalize());
    text.get(..MARK_CHARS).unwrap_or_default().to_owned()
}

impl fmt::Debug for SessionToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionToken").field("mark", &self.mark).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_in_no_other_form() {
        let token = SessionToken::new("acme", "ada").unwrap();
        let text = token.text();
        assert_eq!(SessionToken::read(&text).unwrap().store_key(), token.store_key());
        assert!(!token.store_key().contains(text.split_once('.').unwrap().1), "the store has no token");
        for wrong in [
            String::new(),
            text.to_uppercase(),
            format!("{text}A"),
            text.replace('.', ""),
            format!("{}.{}", "0".repeat(16), "A".repeat(42)),
            format!("{}.{}", "0".repeat(16), "!".repeat(43)),
            format!("{}.{}", "g".repeat(16), "A".repeat(43)),
        ] {
            assert!(SessionToken::read(&wrong).is_none(), "{wrong}");
        }
        assert_ne!(person_mark("a", "bc"), person_mark("ab", "c"));
    }
}
