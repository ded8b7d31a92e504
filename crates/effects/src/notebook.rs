//! Small facts that outlive the process: sessions, owners of tasks, the key that seals what clients carry for
//! us, the era a server spoke, what names meant. A port: the ledger stores notes, and only their writers know
//! what they mean.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use servanda_contract::Timestamp;

use crate::{JournalError, LoggedChange, PortFuture};

/// What a note is about. Notes of different kinds never share keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// A legacy session, by its id.
    Session,
    /// A task, by the id that the gateway gave it.
    Task,
    /// A secret of the gateway, by its purpose.
    Secret,
    /// The era a server spoke, by the digest of its configuration.
    Era,
    /// A request state that was used up, by its nonce: the call that used it.
    Spent,
    /// The end of a call that a callback outside has to be told of, by the callback and the event.
    Delivery,
    /// What is known about a long-running call under way, by its handle and topic.
    Work,
    /// Which tools the names mean that were listed to agents, by what the names belong to.
    Names,
    /// What probes observed around a call, by its id.
    Observed,
    /// Who quarantined a tool and who released it, by upstream and the tool's own name.
    Quarantine,
    /// What a user agreed to at an upstream's authorization server, sealed, by upstream, tenant and principal.
    Login,
    /// What an upstream additionally wanted a user to agree to, by the same.
    Demand,
    /// The authorization server that a client of the gateway belongs to, by upstream and client.
    Issuer,
    /// Which process refreshes the token of a login, by login and generation.
    Refreshing,
    /// What is stored about an API key, by its id.
    ApiKey,
    /// That a credential was revoked, by the id it is revoked by.
    Revoked,
    /// A person's session in the console, by the person and the hash of the session's token.
    ConsoleSession,
    /// A person's passkey, by the person and the passkey.
    Passkey,
    /// What happens once with passkeys: a counter of a passkey that was seen, a challenge that was answered.
    PasskeyUse,
    /// An attempt to sign in through an identity provider, by the hash of its token.
    SignIn,
    /// The ticket that a grant is kept with, by what its calls are looked up by and by its tenant.
    Grant,
    /// Which contracts and policies the log last told to be in force.
    RulesInForce,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// Which one of its kind.
    pub key: String,
    /// JSON in a form that only its writer knows.
    pub value: String,
    /// When it may be forgotten; none means never.
    pub expires_at: Option<Timestamp>,
}

/// Stores notes. A note that was written survives a crash.
pub trait Notebook: Send + Sync + fmt::Debug {
    /// Writes a note durably. It replaces one of the same kind and key.
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>>;

    /// Writes a note unless one of that kind and key exists, and returns the one that is there afterwards.
    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>>;

    /// Writes a note durably if the one of that kind and key still has the value `found`; without one, if there is none. Returns whether it
    /// was written. So of two that change what they read, one learns that the other was faster, and reads again. A note that has expired by
    /// `now` counts as absent.
    fn write_if(&self, note: Note, found: Option<String>, now: Timestamp)
    -> PortFuture<'_, Result<bool, JournalError>>;

    /// The same as [`Notebook::write_if`], and the verifiable log tells these changes if the note was written: in the same commit, if there
    /// is a log.
    fn write_logged(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
        _changes: Vec<LoggedChange>,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.write_if(note, found, now)
    }

    /// The note of that kind and key. One that has expired by `now` counts as absent.
    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>>;

    /// Notes of that kind after the key `after`, in the order of their keys, at most `limit`. Notes that have
    /// expired by `now` are left out.
    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>>;

    /// Forgets a note.
    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>>;
}

/// A notebook that lasts as long as the process, for one-off commands and for tests.
#[derive(Debug, Default)]
pub struct InMemoryNotebook {
    notes: Mutex<BTreeMap<(NoteKind, String), Note>>,
}

impl NoteKind {
    /// Its name in a store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Task => "task",
            Self::Secret => "secret",
            Self::Era => "era",
            Self::Spent => "spent",
            Self::Delivery => "delivery",
            Self::Work => "work",
            Self::Names => "names",
            Self::Observed => "observed",
            Self::Quarantine => "quarantine",
            Self::Login => "login",
            Self::Demand => "demand",
            Self::Issuer => "issuer",
            Self::Refreshing => "refreshing",
            Self::ApiKey => "api_key",
            Self::Revoked => "revoked",
            Self::ConsoleSession => "console_session",
            Self::Passkey => "passkey",
            Self::PasskeyUse => "passkey_use",
            Self::SignIn => "sign_in",
            Self::Grant => "grant",
            Self::RulesInForce => "rules_in_force",
        }
    }
}

impl Note {
    /// Whether it may be forgotten.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

impl InMemoryNotebook {
    /// Stores a note unless one exists, and returns the one that is there afterwards.
    pub(crate) fn put_first(&self, note: Note) -> Note {
        self.notes().entry((note.kind, note.key.clone())).or_insert(note).clone()
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<(NoteKind, String), Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notebook for InMemoryNotebook {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes().insert((note.kind, note.key.clone()), note);
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(std::future::ready(Ok(self.put_first(note))))
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        let mut notes = self.notes();
        let place = (note.kind, note.key.clone());
        let there = notes.get(&place).filter(|there| !there.is_expired(now)).map(|there| &there.value);
        let is_same = there == found.as_ref();
        if is_same {
            notes.insert(place, note);
        }
        Box::pin(std::future::ready(Ok(is_same)))
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let note = self.notes().get(&(kind, key.to_owned())).filter(|note| !note.is_expired(now)).cloned();
        Box::pin(std::future::ready(Ok(note)))
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let notes = self.notes();
        let behind = notes.range((Bound::Excluded((kind, after.to_owned())), Bound::Unbounded));
        let of_kind = behind.map(|(_, note)| note).take_while(|note| note.kind == kind);
        let listed = of_kind.filter(|note| !note.is_expired(now)).take(limit).cloned().collect();
        Box::pin(std::future::ready(Ok(listed)))
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes().remove(&(kind, key.to_owned()));
        Box::pin(std::future::ready(Ok(())))
    }
}
