//! People's passkeys in the notebook, stored by person and passkey. People register and remove their own; operators list and revoke them.
//!
//! A passkey has one note, which is written once and erased when it ends. That it ended is a revocation, which is kept for ever, so that a
//! request under way cannot bring it back. Counters have notes of their own, one for each value: of two requests that show the same value,
//! one succeeds.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use servanda_authority::{Secret, passkey::StoredPasskey};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

use crate::revocation::{self, Revocation};

/// The most passkeys of one person.
pub const PASSKEYS_PER_PERSON_MAX: usize = 8;
/// Notes that are read from the store at once.
const PAGE: u32 = 500;
/// Bytes that tell apart who wrote a note first.
const WRITER_BYTES: usize = 16;

/// The passkeys of the person with that handle that were not revoked, the oldest first.
pub async fn of_person(
    notebook: &dyn Notebook,
    handle: &str,
    now: Timestamp,
) -> Result<Vec<StoredPasskey>, JournalError> {
    let notes = notes_below(notebook, NoteKind::Passkey, &format!("{handle}."), now).await?;
    let mut passkeys = unrevoked(notebook, notes, now).await?;
    passkeys.sort_by(|one, two| (one.created_at, &one.name).cmp(&(two.created_at, &two.name)));
    Ok(passkeys)
}

/// All passkeys that were not revoked.
pub async fn list(notebook: &dyn Notebook, now: Timestamp) -> Result<Vec<StoredPasskey>, JournalError> {
    let notes = notes_below(notebook, NoteKind::Passkey, "", now).await?;
    unrevoked(notebook, notes, now).await
}

/// The passkey of the person with that handle that has that `WebAuthn` id, unless it was revoked.
pub async fn find(
    notebook: &dyn Notebook,
    handle: &str,
    credential_id: &str,
    now: Timestamp,
) -> Result<Option<StoredPasskey>, JournalError> {
    let key = StoredPasskey::store_key_of(handle, credential_id);
    let Some(note) = notebook.read(NoteKind::Passkey, &key, now).await? else { return Ok(None) };
    Ok(unrevoked(notebook, vec![note], now).await?.pop())
}

/// Writes a new passkey. False if the person has one of this id, or had.
pub async fn register(notebook: &dyn Notebook, passkey: &StoredPasskey, now: Timestamp) -> Result<bool, JournalError> {
    if revocation::find(notebook, &passkey.credential(), now).await?.is_some() {
        return Ok(false);
    }
    let value = serde_json::to_string(passkey).map_err(|error| JournalError::new(error.to_string()))?;
    let note = Note { kind: NoteKind::Passkey, key: passkey.store_key(), value, expires_at: None };
    let kept = notebook.write_first(note.clone()).await?;
    Ok(kept.value == note.value)
}

/// Ends a passkey: it signs nothing more, and the sessions that it opened end.
pub async fn revoke(
    notebook: &dyn Notebook,
    passkey: &StoredPasskey,
    by: &str,
    now: Timestamp,
) -> Result<Revocation, JournalError> {
    // The revocation is written first, because it is what counts.
    let revocation = Revocation { at: now, by: by.to_owned() };
    let revocation = revocation::revoke(notebook, &passkey.credential(), &revocation).await?;
    forget(notebook, passkey, now).await?;
    Ok(revocation)
}

/// Erases a passkey that ended by itself.
pub async fn forget(notebook: &dyn Notebook, passkey: &StoredPasskey, now: Timestamp) -> Result<(), JournalError> {
    notebook.erase(NoteKind::Passkey, &passkey.store_key()).await?;
    for note in counters(notebook, passkey, now).await? {
        notebook.erase(NoteKind::PasskeyUse, &note.key).await?;
    }
    Ok(())
}

/// The greatest counter that a passkey has shown.
pub async fn sign_count(notebook: &dyn Notebook, passkey: &StoredPasskey, now: Timestamp) -> Result<u32, JournalError> {
    let notes = counters(notebook, passkey, now).await?;
    let latest: Option<u32> = notes.last().and_then(|note| note.key.rsplit('.').next()?.parse().ok());
    Ok(latest.unwrap_or_default().max(passkey.passkey.sign_count))
}

/// Remembers a counter that was shown. False if it was shown before. A passkey without a counter shows zero each time, which is no fault.
pub async fn note_count(
    notebook: &dyn Notebook,
    passkey: &StoredPasskey,
    count: u32,
    now: Timestamp,
) -> Result<bool, JournalError> {
    if count == 0 {
        return Ok(true);
    }
    // Ten digits hold every counter, so that the order of the keys is that of the counters.
    let own = format!("{}{count:010}", counter_prefix(passkey));
    if !is_first(notebook, own.clone(), None).await? {
        return Ok(false);
    }
    for earlier in counters(notebook, passkey, now).await?.into_iter().filter(|note| note.key < own) {
        notebook.erase(NoteKind::PasskeyUse, &earlier.key).await?;
    }
    Ok(true)
}

/// Whether a challenge is answered for the first time. It is remembered until it can no longer be answered.
pub async fn is_first_answer(
    notebook: &dyn Notebook,
    challenge: &str,
    expires_at: Timestamp,
) -> Result<bool, JournalError> {
    is_first(notebook, format!("challenge.{challenge}"), Some(expires_at)).await
}

/// Whether this process is the first to write a note. Another writer has another value.
async fn is_first(notebook: &dyn Notebook, key: String, expires_at: Option<Timestamp>) -> Result<bool, JournalError> {
    let writer = Secret::random(WRITER_BYTES).map_err(|error| JournalError::new(error.to_string()))?;
    let value = format!("\"{}\"", URL_SAFE_NO_PAD.encode(writer.expose()));
    let note = Note { kind: NoteKind::PasskeyUse, key, value, expires_at };
    Ok(notebook.write_first(note.clone()).await?.value == note.value)
}

async fn counters(notebook: &dyn Notebook, passkey: &StoredPasskey, now: Timestamp) -> Result<Vec<Note>, JournalError> {
    notes_below(notebook, NoteKind::PasskeyUse, &counter_prefix(passkey), now).await
}

fn counter_prefix(passkey: &StoredPasskey) -> String {
    format!("count.{}.", passkey.store_key())
}

async fn unrevoked(
    notebook: &dyn Notebook,
    notes: Vec<Note>,
    now: Timestamp,
) -> Result<Vec<StoredPasskey>, JournalError> {
    let mut passkeys = Vec::with_capacity(notes.len());
    for passkey in notes.iter().filter_map(read) {
        if revocation::find(notebook, &passkey.credential(), now).await?.is_none() {
            passkeys.push(passkey);
        }
    }
    Ok(passkeys)
}

/// The notes whose keys begin so, in the order of their keys.
async fn notes_below(
    notebook: &dyn Notebook,
    kind: NoteKind,
    prefix: &str,
    now: Timestamp,
) -> Result<Vec<Note>, JournalError> {
    let (mut found, mut after) = (Vec::new(), prefix.to_owned());
    loop {
        let notes = notebook.list(kind, &after, PAGE, now).await?;
        let Some(last) = notes.last() else { return Ok(found) };
        after.clone_from(&last.key);
        let is_over = !last.key.starts_with(prefix);
        found.extend(notes.into_iter().filter(|note| note.key.starts_with(prefix)));
        if is_over {
            return Ok(found);
        }
    }
}

fn read(note: &Note) -> Option<StoredPasskey> {
    let passkey = serde_json::from_str::<StoredPasskey>(&note.value);
    match passkey {
        Ok(passkey) if passkey.version == StoredPasskey::VERSION && passkey.store_key() == note.key => Some(passkey),
        // Fail closed: a passkey that cannot be read, or that stands under another's key, proves nothing.
        Ok(_) => {
            tracing::warn!(key = note.key, "a stored passkey does not belong under its key");
            None
        }
        Err(error) => {
            tracing::warn!(key = note.key, %error, "a stored passkey cannot be read");
            None
        }
    }
}
