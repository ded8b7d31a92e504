//! The sessions in the store.
//!
//! A session has two notes: its record, which is written once and erased at sign-out, and one that says that it was used lately and expires
//! by itself. Being used never writes the record, so a request that is under way while the person signs out cannot bring the session back.

use std::{fmt, sync::Arc};

use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::{JournalError, Note, NoteKind, Notebook};
use servanda_engine::approvals::Person;

use super::{SessionRecord, SessionToken};
use crate::sign_in::AuthenticatedPerson;

/// The most sessions of one person; the oldest end first.
pub const SESSIONS_PER_PERSON_MAX: usize = 32;
/// How long a session lasts without being used.
const IDLE_MS_MAX: u64 = 3_600_000;
/// How long a session lasts.
const SESSION_MS_MAX: u64 = 12 * 3_600_000;
/// How often being used is written down.
const USED_EVERY_MS: u64 = 60_000;
/// Notes of one person that are read to count sessions: two for each, and those of sign-ins at the same time.
const NOTES_MAX: u32 = 256;
/// The end of the key of the note that a session was used.
const USED: &str = ".used";

/// The sessions.
pub(crate) struct Sessions {
    notebook: Arc<dyn Notebook>,
    clock: Arc<dyn Clock>,
}

/// A session that is open, with its token.
#[derive(Debug)]
pub(crate) struct SignedIn {
    /// The token.
    pub(crate) token: SessionToken,
    /// The session.
    pub(crate) record: SessionRecord,
    /// The person, as of now.
    pub(crate) person: Person,
}

impl Sessions {
    pub(crate) fn new(notebook: Arc<dyn Notebook>, clock: Arc<dyn Clock>) -> Self {
        Self { notebook, clock }
    }

    /// Opens a session. Its token is always new: a browser keeps none that it had before.
    pub(crate) async fn open(&self, person: AuthenticatedPerson) -> Result<SessionToken, JournalError> {
        let now = self.clock.now();
        let AuthenticatedPerson { tenant, principal, groups, method, proved_at, expires_at } = person;
        let token = SessionToken::new(&tenant, &principal).map_err(|error| JournalError::new(error.to_string()))?;
        let record = SessionRecord {
            version: SessionRecord::VERSION,
            tenant,
            principal,
            groups,
            method,
            created_at: now,
            fresh_at: proved_at.min(now),
            ends_at: later(now, SESSION_MS_MAX).min(expires_at),
        };
        self.note_use(&token, &record, now).await?;
        self.notebook.write(note(token.store_key(), &record, record.ends_at)?).await?;
        self.end_oldest(token.mark(), now).await?;
        Ok(token)
    }

    /// The session of a token, if it is open. Finding it counts as using it.
    pub(crate) async fn find(&self, token: SessionToken) -> Result<Option<SignedIn>, JournalError> {
        let now = self.clock.now();
        let Some((record, used_until)) = self.read(&token, now).await? else { return Ok(None) };
        let until = later(now, IDLE_MS_MAX).min(record.ends_at);
        if until.since_ms(used_until) >= USED_EVERY_MS {
            self.note_use(&token, &record, now).await?;
        }
        Ok(Some(SignedIn { person: record.person(now), token, record }))
    }

    /// The same without using it: for a page that looks again by itself, whether or not its person is there.
    pub(crate) async fn look(&self, token: SessionToken) -> Result<Option<SignedIn>, JournalError> {
        let now = self.clock.now();
        let found = self.read(&token, now).await?;
        Ok(found.map(|(record, _)| SignedIn { person: record.person(now), token, record }))
    }

    /// Ends the session of a token.
    pub(crate) async fn close(&self, token: &SessionToken) -> Result<(), JournalError> {
        self.erase(&token.store_key()).await
    }

    /// The record of an open session, and when it ends if it is not used.
    async fn read(
        &self,
        token: &SessionToken,
        now: Timestamp,
    ) -> Result<Option<(SessionRecord, Timestamp)>, JournalError> {
        let key = token.store_key();
        let Some(found) = self.notebook.read(NoteKind::ConsoleSession, &key, now).await? else { return Ok(None) };
        let Some(used) = self.notebook.read(NoteKind::ConsoleSession, &used_key(&key), now).await? else {
            return Ok(None);
        };
        // Fail closed: a session that cannot be read is none.
        let record = serde_json::from_str::<SessionRecord>(&found.value).ok();
        let record = record.filter(|record| record.version == SessionRecord::VERSION && now < record.ends_at);
        Ok(record.map(|record| (record, used.expires_at.unwrap_or(now))))
    }

    async fn note_use(&self, token: &SessionToken, record: &SessionRecord, now: Timestamp) -> Result<(), JournalError> {
        let until = later(now, IDLE_MS_MAX).min(record.ends_at);
        self.notebook.write(note(used_key(&token.store_key()), &now, until)?).await
    }

    /// Ends the oldest sessions of a person that has too many.
    async fn end_oldest(&self, mark: &str, now: Timestamp) -> Result<(), JournalError> {
        let notes = self.notebook.list(NoteKind::ConsoleSession, mark, NOTES_MAX, now).await?;
        let own = notes.iter().filter(|note| note.key.starts_with(mark) && !note.key.ends_with(USED));
        let mut sessions: Vec<(Timestamp, &str)> = own
            .map(|note| {
                let record = serde_json::from_str::<SessionRecord>(&note.value);
                // One that cannot be read goes first.
                (record.map_or(Timestamp::from_unix_ms(0), |record| record.created_at), note.key.as_str())
            })
            .collect();
        sessions.sort_unstable();
        let too_many = sessions.len().saturating_sub(SESSIONS_PER_PERSON_MAX);
        for (_, key) in sessions.into_iter().take(too_many) {
            self.erase(key).await?;
        }
        Ok(())
    }

    async fn erase(&self, key: &str) -> Result<(), JournalError> {
        // The record first, because it is what counts.
        self.notebook.erase(NoteKind::ConsoleSession, key).await?;
        self.notebook.erase(NoteKind::ConsoleSession, &used_key(key)).await
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sessions").finish_non_exhaustive()
    }
}

fn used_key(key: &str) -> String {
    format!("{key}{USED}")
}

fn note(key: String, value: &impl serde::Serialize, expires_at: Timestamp) -> Result<Note, JournalError> {
    let value = serde_json::to_string(value).map_err(|error| JournalError::new(error.to_string()))?;
    Ok(Note { kind: NoteKind::ConsoleSession, key, value, expires_at: Some(expires_at) })
}

fn later(now: Timestamp, ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(now.unix_ms().saturating_add(ms))
}

#[cfg(test)]
mod tests;
