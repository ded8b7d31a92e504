//! Stores the exposed names of tools in the notebook. Agents outlive restarts, so a name that an agent still uses must mean the tool it
//! meant, or nothing. Deliberately not here: what names mean and the format of the table, which the catalog decides.

use std::time::Duration;

use servanda_catalog::{name_store, names::NameTable};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

/// The key of the note with the names of tools.
pub const TOOLS: &str = "tools";
/// How long a new world waits for the store to save its names.
const KEEPING_MS_MAX: u64 = 5_000;

/// Reads the stored names; none if there are none or they cannot be read.
pub async fn recall(notebook: &dyn Notebook, now: Timestamp) -> Result<Option<NameTable>, JournalError> {
    let note = notebook.read(NoteKind::Names, TOOLS, now).await?;
    Ok(note.and_then(|note| read(&note.value)))
}

/// Reads the names of a note.
pub fn read(value: &str) -> Option<NameTable> {
    let table = name_store::read(value);
    // A gateway that cannot read the note of a later version still serves: it refuses old names as unknown.
    table.inspect_err(|error| tracing::warn!(%error, "names from before are not understood")).ok()
}

/// Stores these names, together with those that other gateways on the same store gave to their agents meanwhile. If the store fails, the
/// gateway continues; an old name may then be unknown after a restart.
pub(crate) async fn remember(notebook: &dyn Notebook, names: &NameTable, now: Timestamp) {
    let kept = tokio::time::timeout(Duration::from_millis(KEEPING_MS_MAX), keep(notebook, names, now)).await;
    if let Err(error) = kept.unwrap_or_else(|_| Err(JournalError::new("there was no answer in time"))) {
        tracing::warn!(%error, "the names of tools could not be stored; after a restart old names may be unknown");
    }
}

async fn keep(notebook: &dyn Notebook, names: &NameTable, now: Timestamp) -> Result<(), JournalError> {
    let kept = recall(notebook, now).await?;
    let mut joined = names.clone();
    if let Some(kept) = &kept {
        joined.merge_retired(kept);
        if name_store::is_same_table(&joined, kept) {
            return Ok(());
        }
    }
    let value = name_store::write(&joined).map_err(|error| JournalError::new(error.to_string()))?;
    notebook.write(Note { kind: NoteKind::Names, key: TOOLS.to_owned(), value, expires_at: None }).await
}
