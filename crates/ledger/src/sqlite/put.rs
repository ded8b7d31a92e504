//! Writes records, notes and heartbeats to the file, inside the writer's transaction.

use rusqlite::{Connection, params};
use servanda_effects::{Note, effect::LedgerNow};

use super::{additions::BatchAdditions, audit_log};
use crate::{
    LedgerError,
    codec::{quarantined, signed},
    job::{CallRecordWrite, LedgerWrite, NoteChange},
    leaves::DecisionTold,
};

/// Writes one thing.
pub(super) fn put(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    write: &LedgerWrite,
    now: LedgerNow,
) -> Result<(), LedgerError> {
    let (statement, note) = match write {
        LedgerWrite::Call(recorded) => {
            return put_call(transaction, additions, (recorded, DecisionTold::Now));
        }
        LedgerWrite::Erasure { kind, key } => {
            let mut erase = transaction.prepare_cached(include_str!("../../sql/sqlite/erase_note.sql"))?;
            erase.execute(params![kind.as_str(), key])?;
            return Ok(());
        }
        LedgerWrite::Beat(owner) => {
            let mut beat = transaction.prepare_cached(include_str!("../../sql/sqlite/put_beat.sql"))?;
            beat.execute(params![owner.as_str(), signed(now.ledger_ms)])?;
            return Ok(());
        }
        LedgerWrite::Note(note) => (include_str!("../../sql/sqlite/put_note.sql"), note),
        LedgerWrite::FirstNote(note) => return put_first_note(transaction, note),
        // Done at the end of the batch, with what its other jobs add.
        LedgerWrite::MergedIndex => return Ok(()),
        LedgerWrite::Checkpoint { size, note } => return audit_log::put_checkpoint(transaction, *size, note),
    };
    put_note(transaction, statement, note)
}

/// Writes a note, unless one exists.
pub(super) fn put_first_note(transaction: &Connection, note: &Note) -> Result<(), LedgerError> {
    put_note(transaction, include_str!("../../sql/sqlite/put_first_note.sql"), note)
}

fn put_note(transaction: &Connection, statement: &str, note: &Note) -> Result<(), LedgerError> {
    let expires_ms = note.expires_at.map(|at| signed(at.unix_ms()));
    transaction.prepare_cached(statement)?.execute(params![note.kind.as_str(), note.key, note.value, expires_ms])?;
    Ok(())
}

/// Writes a note if the one that is there is the one that was found. Returns whether it was written.
pub(super) fn put_note_if(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    change: &NoteChange,
) -> Result<bool, LedgerError> {
    let NoteChange { note, found, now, changes } = change;
    let (kind, expires_ms) = (note.kind.as_str(), note.expires_at.map(|at| signed(at.unix_ms())));
    let now_ms = signed(now.unix_ms());
    let written = if let Some(found) = found {
        let mut put = transaction.prepare_cached(include_str!("../../sql/sqlite/change_note.sql"))?;
        put.execute(params![kind, note.key, note.value, expires_ms, now_ms, found])?
    } else {
        let mut put = transaction.prepare_cached(include_str!("../../sql/sqlite/put_absent_note.sql"))?;
        put.execute(params![kind, note.key, note.value, expires_ms, now_ms])?
    };
    if written > 0 {
        additions.changes(changes)?;
    }
    Ok(written > 0)
}

/// Writes the record of a call, and its answer if that was quarantined. A record that was written is added to what the batch is found by.
pub(super) fn put_call(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    (recorded, told): (&CallRecordWrite, DecisionTold),
) -> Result<(), LedgerError> {
    let row = recorded.row()?;
    let written = transaction.prepare_cached(include_str!("../../sql/sqlite/put_call.sql"))?.execute(params![
        row.call_id,
        row.outcome,
        row.received_ms,
        row.body,
        row.effect_id,
    ])?;
    if written > 0 {
        additions.call(&recorded.record, told)?;
    }
    if let Some(body) = &recorded.quarantine {
        let (bytes_total, kept) = quarantined(body);
        let mut put_quarantine = transaction.prepare_cached(include_str!("../../sql/sqlite/put_quarantine.sql"))?;
        put_quarantine.execute(params![row.call_id, bytes_total, kept])?;
    }
    Ok(())
}
