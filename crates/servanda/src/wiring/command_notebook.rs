//! The notebook of commands: what they learn is forgotten when they end. Logins are the exception: a renewed token that is not stored would
//! end the login, so notes about logins go to the gateway's ledger.

use std::sync::Arc;

use servanda_config::ledger_place::LedgerPlace;
use servanda_contract::Timestamp;
use servanda_effects::{InMemoryNotebook, JournalError, Note, NoteKind, Notebook, PortFuture};
use servanda_ledger::Ledger;
use tokio::sync::OnceCell;

/// Opens the ledger only when a note about a login is needed.
#[derive(Debug)]
pub(crate) struct CommandNotebook {
    fleeting: InMemoryNotebook,
    place: LedgerPlace,
    ledger: OnceCell<Arc<Ledger>>,
}

impl CommandNotebook {
    pub(crate) fn new(place: LedgerPlace) -> Self {
        Self { fleeting: InMemoryNotebook::default(), place, ledger: OnceCell::new() }
    }

    async fn notebook_for(&self, kind: NoteKind) -> Result<&dyn Notebook, JournalError> {
        if !is_about_logins(kind) {
            return Ok(&self.fleeting);
        }
        let opened = self.ledger.get_or_try_init(|| self.place.open()).await;
        opened.map(|ledger| ledger.as_ref() as &dyn Notebook).map_err(|error| JournalError::new(error.to_string()))
    }
}

const fn is_about_logins(kind: NoteKind) -> bool {
    matches!(kind, NoteKind::Login | NoteKind::Demand | NoteKind::Issuer | NoteKind::Refreshing)
}

impl Notebook for CommandNotebook {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.notebook_for(note.kind).await?.write(note).await })
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async move { self.notebook_for(note.kind).await?.write_first(note).await })
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move { self.notebook_for(note.kind).await?.write_if(note, found, now).await })
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            // Reading does not create a ledger.
            if is_about_logins(kind) && self.ledger.get().is_none() && self.place.is_missing() {
                return Ok(None);
            }
            self.notebook_for(kind).await?.read(kind, &key, now).await
        })
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        let after = after.to_owned();
        Box::pin(async move { self.notebook_for(kind).await?.list(kind, &after, limit, now).await })
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        let key = key.to_owned();
        Box::pin(async move { self.notebook_for(kind).await?.erase(kind, &key).await })
    }
}
