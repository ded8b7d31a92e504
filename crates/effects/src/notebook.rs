//! Small facts that outlive the process: which sessions there are, whose a task is, the key that seals what clients carry
//! for us, which era a server spoke, what names meant. A port: the ledger keeps them; what they mean is their writers' business.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use servanda_contract::Timestamp;

use crate::{JournalError, PortFuture};

/// What a note is about. Keys of different kinds never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// A legacy session, by its id.
    Session,
    /// A task, by the id we gave it.
    Task,
    /// A secret of ours, by its purpose.
    Secret,
    /// The era a server spoke, by the digest of its configuration.
    Era,
    /// A request state that was used up, by its nonce: the call that used it.
    Spent,
    /// The end of a call that somebody outside is to be told of, by the callback and the event.
    Delivery,
    /// What is known about a long work under way, by its handle and what it is about.
    Work,
    /// Which tools the names that agents heard mean, by what the names are of.
    Names,
    /// What was seen around a call, by its id.
    Observed,
    /// Who holds a tool back and who let it go, by upstream and the tool's own name.
    Quarantine,
    /// What a user agreed to at an upstream's authorization server, sealed, by upstream, tenant and principal.
    Login,
    /// What an upstream wanted a user to agree to besides, by the same.
    Demand,
    /// The authorization server that a client of ours belongs to, by upstream and client.
    Issuer,
    /// Who asks for the next token of a login, by login and generation.
    Refreshing,
    /// What is kept of an API key, by its id.
    ApiKey,
    /// That a credential was revoked, by what it is revoked by.
    Revoked,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// Which one.
    pub key: String,
    /// JSON, in a form that only its writer knows.
    pub value: String,
    /// When it may be forgotten; never if none.
    pub expires_at: Option<Timestamp>,
}

/// Where notes are kept. A note that was written is still there after a crash.
pub trait Notebook: Send + Sync + fmt::Debug {
    /// Writes a note down, durably, in place of one of the same kind and key.
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>>;

    /// Writes a note down unless there is one of that kind and key, and returns the one that is there afterwards.
    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>>;

    /// The note of that kind and key. One that has expired by `now` is as good as none.
    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>>;

    /// Notes of that kind in the order of their keys, behind the key `after`: at most so many. Those that
    /// have expired by `now` are left out.
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

/// A notebook that lasts as long as the process: for one-off commands and for tests.
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
    /// Keeps a note unless there is one, and returns the one that is there afterwards.
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
