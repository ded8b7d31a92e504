//! A notebook that takes its time: a test says when it goes on, and hears of whoever did not wait.

use servanda_contract::Timestamp;
use servanda_effects::{JournalError, PortFuture};
use servanda_engine::{InMemoryNotebook, Note, NoteKind, Notebook};
use tokio::sync::watch;

use crate::fixture::within;

/// The notebook.
#[derive(Debug)]
pub(crate) struct SlowNotebook {
    notes: InMemoryNotebook,
    /// Whether notes are written; until then whoever writes one waits.
    writes: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
    /// Those who went away before their note was written.
    abandoned: watch::Sender<usize>,
    /// Where it says what is erased from it.
    events: watch::Sender<Vec<String>>,
}

/// Somebody who waits until a note is written.
struct Waiting<'a> {
    notebook: &'a SlowNotebook,
    written: bool,
}

impl SlowNotebook {
    /// One that says there what is erased from it.
    pub(crate) fn telling(events: watch::Sender<Vec<String>>) -> Self {
        Self {
            notes: InMemoryNotebook::default(),
            writes: watch::Sender::new(true),
            waiting: watch::Sender::new(0),
            abandoned: watch::Sender::new(0),
            events,
        }
    }

    /// Lets whoever writes wait, or go on.
    pub(crate) fn take_notes(&self, taken: bool) {
        self.writes.send_replace(taken);
    }

    /// Waits until somebody waits for a note to be written.
    pub(crate) async fn is_waited_for(&self) {
        within(self.waiting.subscribe().wait_for(|waiting| *waiting > 0)).await.unwrap();
    }

    /// Waits until somebody has gone away before a note was written.
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
