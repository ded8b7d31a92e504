//! Attempts to sign in through the identity provider, from the form until the browser comes back.
//!
//! An attempt has a random token in a cookie of the browser that made it. State, nonce and verifier are codes under that token, so only this
//! browser can finish the attempt, and what the store has of it (where the person goes then, and since when) finishes nothing. An attempt
//! lasts ten minutes and is used once, whichever gateway of the store the browser comes back to.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use servanda_authority::Secret;
use servanda_contract::{Timestamp, digest::hex, time::Clock};
use servanda_effects::{JournalError, Note, NoteKind, Notebook};
use sha2::{Digest as _, Sha256};

use super::ProviderAttempt;

/// How long an attempt can be finished.
pub(crate) const ATTEMPT_MS_MAX: u64 = 10 * 60_000;
/// The most attempts under way; a further one takes the place of the oldest.
const ATTEMPTS_MAX: usize = 512;
/// Notes that are read to count attempts: those of attempts, and those of finished ones.
const NOTES_MAX: u32 = 2_048;
const TOKEN_BYTES: usize = 32;
const TOKEN_CHARS: usize = 43;
const KEY_DOMAIN: &[u8] = b"servanda/sign-in-attempt/v1\0";
/// The end of the key of the note that an attempt was used.
const USED: &str = ".used";

/// The attempts.
pub(crate) struct SignInAttempts {
    notebook: Arc<dyn Notebook>,
    clock: Arc<dyn Clock>,
}

/// An attempt with its token.
#[derive(Debug)]
pub(crate) struct OpenAttempt {
    token: Secret,
    /// What ties the answer to it.
    pub(crate) attempt: ProviderAttempt,
    /// Where the person goes afterwards.
    pub(crate) next: String,
    begun_at: Timestamp,
}

/// What the store has of an attempt.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttemptRecord {
    version: u32,
    next: String,
    redirect: String,
    settings: String,
    asks_again: bool,
    begun_at: Timestamp,
}

/// How an attempt begins.
#[derive(Debug)]
pub(crate) struct AttemptRequest<'a> {
    /// Where the person goes afterwards.
    pub(crate) next: &'a str,
    /// Where the browser returns to.
    pub(crate) redirect: String,
    /// A digest of the provider's settings.
    pub(crate) settings: String,
    /// Whether the person has to show again who they are.
    pub(crate) asks_again: bool,
}

impl AttemptRecord {
    const VERSION: u32 = 1;
}

impl SignInAttempts {
    pub(crate) fn new(notebook: Arc<dyn Notebook>, clock: Arc<dyn Clock>) -> Self {
        Self { notebook, clock }
    }

    /// A new attempt. Nothing is stored yet.
    pub(crate) fn begin(&self, request: AttemptRequest<'_>) -> Result<OpenAttempt, JournalError> {
        let token = Secret::random(TOKEN_BYTES).map_err(|error| JournalError::new(error.to_string()))?;
        let AttemptRequest { next, redirect, settings, asks_again } = request;
        let (version, begun_at) = (AttemptRecord::VERSION, self.clock.now());
        let record = AttemptRecord { version, next: next.to_owned(), redirect, settings, asks_again, begun_at };
        OpenAttempt::of(token, record).ok_or_else(|| JournalError::new("no code can be made"))
    }

    /// Stores an attempt, so that it can be finished. If there are too many, the oldest ends.
    pub(crate) async fn keep(&self, open: &OpenAttempt) -> Result<(), JournalError> {
        let now = self.clock.now();
        let notes = self.notebook.list(NoteKind::SignIn, "", NOTES_MAX, now).await?;
        let mut attempts: Vec<(Timestamp, &str)> = notes
            .iter()
            .filter(|note| !note.key.ends_with(USED))
            .map(|note| {
                let record = serde_json::from_str::<AttemptRecord>(&note.value);
                // One that cannot be read goes first.
                (record.map_or(Timestamp::from_unix_ms(0), |record| record.begun_at), note.key.as_str())
            })
            .collect();
        attempts.sort_unstable();
        let too_many = (attempts.len() + 1).saturating_sub(ATTEMPTS_MAX);
        for (_, key) in attempts.into_iter().take(too_many) {
            self.notebook.erase(NoteKind::SignIn, key).await?;
        }
        let value = serde_json::to_string(&open.record()).map_err(|error| JournalError::new(error.to_string()))?;
        let note = Note { kind: NoteKind::SignIn, key: key_of(&open.token), value, expires_at: Some(open.ends_at()) };
        self.notebook.write(note).await
    }

    /// The attempt of a cookie's value, if it can be finished. Finding it does not use it up.
    pub(crate) async fn find(&self, cookie: &str) -> Result<Option<OpenAttempt>, JournalError> {
        let Some(token) = read_token(cookie) else { return Ok(None) };
        let now = self.clock.now();
        let Some(note) = self.notebook.read(NoteKind::SignIn, &key_of(&token), now).await? else { return Ok(None) };
        // Fail closed: an attempt that cannot be read is none.
        let record = serde_json::from_str::<AttemptRecord>(&note.value).ok();
        let record = record.filter(|record| {
            let is_in_time = now < Timestamp::from_unix_ms(record.begun_at.unix_ms().saturating_add(ATTEMPT_MS_MAX));
            record.version == AttemptRecord::VERSION && is_in_time
        });
        Ok(record.and_then(|record| OpenAttempt::of(token, record)))
    }

    /// Uses an attempt up. Of several answers at the same time, one succeeds.
    pub(crate) async fn use_up(&self, open: &OpenAttempt) -> Result<bool, JournalError> {
        let key = key_of(&open.token);
        let writer = Secret::random(TOKEN_BYTES).map_err(|error| JournalError::new(error.to_string()))?;
        let value = format!("\"{}\"", URL_SAFE_NO_PAD.encode(writer.expose()));
        let used =
            Note { kind: NoteKind::SignIn, key: format!("{key}{USED}"), value, expires_at: Some(open.ends_at()) };
        let is_first = self.notebook.write_first(used.clone()).await?.value == used.value;
        self.notebook.erase(NoteKind::SignIn, &key).await?;
        Ok(is_first)
    }
}

impl OpenAttempt {
    fn of(token: Secret, record: AttemptRecord) -> Option<Self> {
        let AttemptRecord { next, redirect, settings, asks_again, begun_at, .. } = record;
        let attempt = ProviderAttempt {
            state: derived(&token, b"state")?,
            nonce: derived(&token, b"nonce")?,
            verifier: derived(&token, b"verifier")?,
            redirect,
            asked_again_at: asks_again.then_some(begun_at),
            settings,
        };
        Some(Self { token, attempt, next, begun_at })
    }

    /// The cookie's value.
    pub(crate) fn cookie_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.token.expose())
    }

    fn ends_at(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.begun_at.unix_ms().saturating_add(ATTEMPT_MS_MAX))
    }

    fn record(&self) -> AttemptRecord {
        AttemptRecord {
            version: AttemptRecord::VERSION,
            next: self.next.clone(),
            redirect: self.attempt.redirect.clone(),
            settings: self.attempt.settings.clone(),
            asks_again: self.attempt.asked_again_at.is_some(),
            begun_at: self.begun_at,
        }
    }
}

impl fmt::Debug for SignInAttempts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SignInAttempts").finish_non_exhaustive()
    }
}

fn read_token(cookie: &str) -> Option<Secret> {
    // The length is checked first: nothing is decoded that cannot be a token.
    if cookie.len() != TOKEN_CHARS {
        return None;
    }
    URL_SAFE_NO_PAD.decode(cookie).ok().map(Secret::new)
}

/// The key under which the store has an attempt. The token cannot be made from it.
fn key_of(token: &Secret) -> String {
    hex(&Sha256::new().chain_update(KEY_DOMAIN).chain_update(token.expose()).finalize())
}

/// A text of 43 characters that only the token's holder can make.
fn derived(token: &Secret, purpose: &[u8]) -> Option<Secret> {
    // A MAC takes keys of every length.
    let mut code = Hmac::<Sha256>::new_from_slice(token.expose()).ok()?;
    code.update(KEY_DOMAIN);
    code.update(purpose);
    Some(Secret::from(URL_SAFE_NO_PAD.encode(code.finalize().into_bytes())))
}

#[cfg(test)]
mod tests;
