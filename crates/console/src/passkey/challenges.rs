//! Challenges for registering and for signing in: made by the gateway, for one purpose and one session, for five minutes, answered once.
//!
//! A challenge is a code over its purpose, its session, its end and a random number, under a secret of the gateway. A page carries end and
//! number, and the answer brings them back. So looking at a page writes nothing; only an answer that was right is remembered until the
//! challenge's end.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use servanda_authority::{Secret, passkey::PASSKEY_CHALLENGE_BYTES};
use servanda_contract::{Timestamp, digest::hex};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::PasskeyRejection;
use crate::{
    session::SessionToken,
    sign_in::{PersonAuthenticator, SignInUnavailable},
};

const DOMAIN: &[u8] = b"servanda/passkey-challenge/v1\0";
/// How long a challenge can be answered.
const CHALLENGE_MS_MAX: u64 = 5 * 60_000;
const NONCE_BYTES: usize = 16;
/// The longest text in which a page carries a challenge.
const TEXT_BYTES_MAX: usize = 64;

/// Makes and checks challenges.
pub(crate) struct PasskeyChallenges {
    authenticator: Arc<dyn PersonAuthenticator>,
    secret: OnceCell<Secret>,
}

/// What a challenge is for. An answer for one purpose is none for another.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PasskeyPurpose<'a> {
    /// Signing in.
    SignIn,
    /// Registering a passkey in this session.
    Registration(&'a SessionToken),
    /// Agreeing, with a passkey that the person has, to another one.
    AnotherPasskey(&'a SessionToken),
    /// Removing the passkey of this id.
    Removal(&'a SessionToken, &'a str),
}

/// A new challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MintedChallenge {
    /// What the page carries.
    pub(crate) text: String,
    /// The challenge.
    pub(crate) challenge: [u8; PASSKEY_CHALLENGE_BYTES],
}

impl PasskeyChallenges {
    pub(crate) fn new(authenticator: Arc<dyn PersonAuthenticator>) -> Self {
        Self { authenticator, secret: OnceCell::new() }
    }

    /// A new challenge.
    pub(crate) async fn mint(
        &self,
        purpose: PasskeyPurpose<'_>,
        now: Timestamp,
    ) -> Result<MintedChallenge, SignInUnavailable> {
        let secret = self.secret().await?;
        let nonce = Secret::random(NONCE_BYTES).map_err(|error| SignInUnavailable(error.to_string()))?;
        let ends_ms = now.unix_ms().saturating_add(CHALLENGE_MS_MAX);
        let text = format!("{ends_ms}.{}", URL_SAFE_NO_PAD.encode(nonce.expose()));
        let challenge = code(secret, purpose, &text).ok_or_else(|| SignInUnavailable("no code".to_owned()))?;
        Ok(MintedChallenge { text, challenge })
    }

    /// The challenge that an answer brings back, if it can be answered now. Whether it was answered before is asked afterwards, with
    /// [`Self::use_up`], so that only right answers are remembered.
    pub(crate) async fn read(
        &self,
        purpose: PasskeyPurpose<'_>,
        text: Option<&str>,
        now: Timestamp,
    ) -> Result<MintedChallenge, PasskeyRejection> {
        let text = text.filter(|text| text.len() <= TEXT_BYTES_MAX).ok_or(PasskeyRejection::Challenge)?;
        let ends_at = ends_at(text).ok_or(PasskeyRejection::Challenge)?;
        // One that ends later than any that is made now is from a clock that was set back.
        let is_open = now < ends_at && ends_at.since_ms(now) <= CHALLENGE_MS_MAX;
        if !is_open {
            return Err(PasskeyRejection::Challenge);
        }
        let secret = self.secret().await?;
        let challenge = code(secret, purpose, text).ok_or(PasskeyRejection::Challenge)?;
        Ok(MintedChallenge { text: text.to_owned(), challenge })
    }

    /// Uses a challenge up that was answered rightly.
    pub(crate) async fn use_up(&self, challenge: &MintedChallenge) -> Result<(), PasskeyRejection> {
        let ends_at = ends_at(&challenge.text).ok_or(PasskeyRejection::Challenge)?;
        let name = hex(&Sha256::digest(challenge.challenge));
        if self.authenticator.is_first_answer(&name, ends_at).await? {
            Ok(())
        } else {
            Err(PasskeyRejection::Challenge)
        }
    }

    async fn secret(&self) -> Result<&[u8], SignInUnavailable> {
        Ok(self.secret.get_or_try_init(|| self.authenticator.challenge_secret()).await?.expose())
    }
}

fn ends_at(text: &str) -> Option<Timestamp> {
    let (ends_ms, _) = text.split_once('.')?;
    Some(Timestamp::from_unix_ms(ends_ms.parse().ok()?))
}

fn code(secret: &[u8], purpose: PasskeyPurpose<'_>, text: &str) -> Option<[u8; PASSKEY_CHALLENGE_BYTES]> {
    let (name, session, about) = match purpose {
        PasskeyPurpose::SignIn => ("sign-in", None, ""),
        PasskeyPurpose::Registration(session) => ("registration", Some(session), ""),
        PasskeyPurpose::AnotherPasskey(session) => ("another-passkey", Some(session), ""),
        PasskeyPurpose::Removal(session, id) => ("removal", Some(session), id),
    };
    let session = session.map(SessionToken::store_key).unwrap_or_default();
    // A MAC takes keys of every length.
    let mut code = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    code.update(DOMAIN);
    for part in [name, &session, about, text] {
        code.update(&(part.len() as u64).to_be_bytes());
        code.update(part.as_bytes());
    }
    Some(code.finalize().into_bytes().into())
}

impl fmt::Debug for PasskeyChallenges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PasskeyChallenges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_purpose_session_and_moment_has_its_own_challenge() {
        let [one, two] = [(); 2].map(|()| SessionToken::new("acme", "ada").unwrap());
        let mut found = BTreeSet::new();
        let mut count = 0;
        for session in [&one, &two] {
            for purpose in [
                PasskeyPurpose::SignIn,
                PasskeyPurpose::Registration(session),
                PasskeyPurpose::AnotherPasskey(session),
                PasskeyPurpose::Removal(session, ""),
                PasskeyPurpose::Removal(session, "passkey:1"),
            ] {
                for (secret, text) in [(b"secret", "1.a"), (b"secret", "1.b"), (b"other.", "1.a")] {
                    found.insert(code(secret, purpose, text).unwrap());
                    count += 1;
                }
            }
        }
        // Signing in has no session, so its three come twice.
        assert_eq!(found.len(), count - 3);
    }
}
