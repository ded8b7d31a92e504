//! A slow notebook: a test decides when writes proceed, and sees which writers did not wait.

use servanda_contract::Timestamp;
use servanda_effects::{JournalError, PortFuture};
use servanda_engine::{InMemoryNotebook, Note, NoteKind, Notebook};
use tokio::sync::watch;

use crate::fixture::within;

/// The notebook.
#[derive(Debug)]
pub(crate) struct SlowNotebook {
    notes: InMemoryNotebook,
    /// Whether notes are written; until then writers wait.
    writes: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
    /// The number of writers that went away before their note was written.
    abandoned: watch::Sender<usize>,
    /// Records what is erased.
    events: watch::Sender<Vec<String>>,
}

/// A writer that waits for its note.
struct Waiting<'a> {
    notebook: &'a SlowNotebook,
    written: bool,
}

impl SlowNotebook {
    /// A notebook that records there what is erased.
    pub(crate) fn telling(events: watch::Sender<Vec<String>>) -> Self {
        Self {
            notes: InMemoryNotebook::default(),
            writes: watch::Sender::new(true),
            waiting: watch::Sender::new(0),
            abandoned: watch::Sender::new(0),
            events,
        }
    }

    /// Lets writers proceed, or makes them wait.
    pub(crate) fn take_notes(&self, taken: bool) {
        self.writes.send_replace(taken);
    }

    /// Waits until a writer waits.
    pub(crate) async fn is_waited_for(&self) {
        within(self.waiting.subscribe().wait_for(|waiting| *waiting > 0)).await.unwrap();
    }

    /// Waits until a writer has gone away before its note was written.
    pub(crate) async fn was_abandoned(&self) {
        within(self.abandoned.subscribe().wait_for(|abandoned| *abandoned > 0)).await.unwrap();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.notebook.waiting.send_modify(|waiting| *waiting -= 1);
        if !self.written {
            self.notebook.abandoned.send_modify(|abandoned| *abandoned += 1);
        }
    }
}

impl Notebook for SlowNotebook {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.waiting.send_modify(|waiting| *waiting += 1);
            let mut waiting = Waiting { notebook: self, written: false };
            self.writes.subscribe().wait_for(|taken| *taken).await.unwrap();
            waiting.written = true;
            self.notes.write(note).await
        })
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        self.notes.write_first(note)
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.notes.write_if(note, found, now)
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        self.notes.read(kind, key, now)
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        self.notes.list(kind, after, limit, now)
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.events.send_modify(|events| events.push(format!("erase {key}")));
        self.notes.erase(kind, key)
    }
}
