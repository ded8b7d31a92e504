//! Notes in the shared database. Keys and values are bytes there, because a client may control some of their
//! content.

use servanda_contract::Timestamp;
use servanda_effects::{JournalError, LoggedChange, Note, NoteKind, Notebook, PortFuture};
use tokio_postgres::{Client, Row, types::ToSql};

use super::{PostgresLedger, audit_log};
use crate::{
    LedgerError,
    codec::{signed, unsigned},
    job::{LedgerWrite, NoteChange},
    leaves::{LeafWriter, Leaves},
};

impl Notebook for PostgresLedger {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.queue(&note.key)?.put(LedgerWrite::Note(note), true).await })
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async move {
            let (kind, key) = (note.kind, note.key.clone());
            self.queue(&key)?.put(LedgerWrite::FirstNote(note), true).await?;
            let kept = self.ask(async |client: &Client| find(client, kind, &key).await).await?;
            kept.ok_or_else(|| JournalError::new(format!("a {} note that was just written is gone", kind.as_str())))
        })
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.write_logged(note, found, now, Vec::new())
    }

    fn write_logged(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
        changes: Vec<LoggedChange>,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move { self.queue(&note.key)?.write_if(note, found, now, changes).await })
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            let found = self.ask(async |client: &Client| find(client, kind, &key).await).await?;
            Ok(found.filter(|note| !note.is_expired(now)))
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
        Box::pin(self.ask(async move |client: &Client| list(client, kind, &after, limit, now).await))
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        let key = key.to_owned();
        Box::pin(async move { self.queue(&key)?.put(LedgerWrite::Erasure { kind, key: key.clone() }, true).await })
    }
}

/// Writes or removes one note, inside the writer's transaction. Notes are few: each takes a round trip.
pub(super) async fn put(client: &Client, write: &LedgerWrite) -> Result<(), LedgerError> {
    let (statement, note) = match write {
        LedgerWrite::Erasure { kind, key } => {
            let erase = include_str!("../../sql/postgres/erase_note.sql");
            client.execute(erase, &[&kind.as_str(), &key.as_bytes()]).await?;
            return Ok(());
        }
        // Records are written with the batch, heartbeats and checkpoints by the pool.
        LedgerWrite::Call(_) | LedgerWrite::Beat(_) | LedgerWrite::MergedIndex | LedgerWrite::Checkpoint { .. } => {
            return Ok(());
        }
        LedgerWrite::Note(note) => (include_str!("../../sql/postgres/put_note.sql"), note),
        LedgerWrite::FirstNote(note) => return put_first(client, note).await,
    };
    put_by(client, statement, note).await
}

/// Writes a note, unless one exists.
pub(super) async fn put_first(client: &Client, note: &Note) -> Result<(), LedgerError> {
    put_by(client, include_str!("../../sql/postgres/put_first_note.sql"), note).await
}

async fn put_by(client: &Client, statement: &str, note: &Note) -> Result<(), LedgerError> {
    let expires_ms = note.expires_at.map(|at| signed(at.unix_ms()));
    client
        .execute(statement, &[&note.kind.as_str(), &note.key.as_bytes(), &note.value.as_bytes(), &expires_ms])
        .await?;
    Ok(())
}

/// Writes a note if the one that is there is the one that was found, and what the log tells of it in the same commit. Returns whether it was
/// written.
pub(super) async fn put_if(
    client: &Client,
    change: &NoteChange,
    log: Option<&LeafWriter>,
) -> Result<bool, LedgerError> {
    if log.is_none() || change.changes.is_empty() {
        return put_found(client, change).await;
    }
    let done = async {
        client.batch_execute("begin").await?;
        let written = put_found(client, change).await?;
        if written {
            let mut leaves = Leaves::default();
            leaves.changes(&change.changes)?;
            audit_log::put(client, &leaves).await?;
        }
        client.batch_execute("commit").await?;
        Ok(written)
    };
    let done = done.await;
    if done.is_err() && !client.is_closed() {
        let _ = client.batch_execute("rollback").await;
    }
    done
}

/// One statement: of two at the same moment, the second waits for the first and compares with what that wrote.
async fn put_found(client: &Client, change: &NoteChange) -> Result<bool, LedgerError> {
    let NoteChange { note, found, now, .. } = change;
    let (kind, expires_ms) = (note.kind.as_str(), note.expires_at.map(|at| signed(at.unix_ms())));
    let (key, value, now_ms) = (note.key.as_bytes(), note.value.as_bytes(), signed(now.unix_ms()));
    let found = found.as_ref().map(String::as_bytes);
    let columns: [&(dyn ToSql + Sync); 6] = [&kind, &key, &value, &expires_ms, &now_ms, &found];
    let written = match found {
        Some(_) => client.execute(include_str!("../../sql/postgres/change_note.sql"), &columns).await?,
        None => client.execute(include_str!("../../sql/postgres/put_absent_note.sql"), &columns[..5]).await?,
    };
    Ok(written > 0)
}

/// The note of this kind and key, expired or not.
pub(super) async fn find(client: &Client, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
    let sql = "select key, value, expires_ms from notes where kind = $1 and key = $2";
    let row = client.query_opt(sql, &[&kind.as_str(), &key.as_bytes()]).await?;
    row.map(|row| note(kind, &row)).transpose()
}

/// Notes of this kind after a key, in the order of their keys.
pub(super) async fn list(
    client: &Client,
    kind: NoteKind,
    after: &str,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Note>, LedgerError> {
    let sql = include_str!("../../sql/postgres/list_notes.sql");
    let now_ms = signed(now.unix_ms());
    let rows = client.query(sql, &[&kind.as_str(), &after.as_bytes(), &now_ms, &i64::from(limit)]).await?;
    rows.iter().map(|row| note(kind, row)).collect()
}

fn note(kind: NoteKind, row: &Row) -> Result<Note, LedgerError> {
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).map_err(|_| LedgerError::Record {
            call_id: format!("a {} note", kind.as_str()),
            reason: "the note is not text".to_owned(),
        })
    };
    let expires_ms: Option<i64> = row.try_get(2)?;
    let expires_at = expires_ms.map(|ms| Timestamp::from_unix_ms(unsigned(ms)));
    Ok(Note { kind, key: text(row.try_get(0)?)?, value: text(row.try_get(1)?)?, expires_at })
}
