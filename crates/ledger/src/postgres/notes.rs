//! Notes in the shared database. Keys and values are bytes there: a client may have had a say in them.

use servanda_contract::Timestamp;
use servanda_gates::{Note, NoteKind};
use tokio_postgres::Client;

use crate::{
    LedgerError,
    codec::{signed, unsigned},
    queue::Write,
};

/// Puts one note down or takes it away, inside the writer's transaction. Notes are few: a round trip each.
pub(super) async fn put(client: &Client, write: &Write) -> Result<(), LedgerError> {
    let (statement, note) = match write {
        Write::Erasure { kind, key } => {
            let erase = include_str!("../../sql/postgres/erase_note.sql");
            client.execute(erase, &[&kind.as_str(), &key.as_bytes()]).await?;
            return Ok(());
        }
        Write::Forgetting { now } => {
            client.execute(include_str!("../../sql/postgres/forget_notes.sql"), &[&signed(now.unix_ms())]).await?;
            return Ok(());
        }
        // Records are written with the batch, beats by the desk.
        Write::Call(_) | Write::Beat(_) => return Ok(()),
        Write::Note(note) => (include_str!("../../sql/postgres/put_note.sql"), note),
        Write::FirstNote(note) => (include_str!("../../sql/postgres/put_first_note.sql"), note),
    };
    let expires_ms = note.expires_at.map(|at| signed(at.unix_ms()));
    client
        .execute(statement, &[&note.kind.as_str(), &note.key.as_bytes(), &note.value.as_bytes(), &expires_ms])
        .await?;
    Ok(())
}

/// The note of that kind and key, expired or not.
pub(super) async fn find(client: &Client, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
    let sql = "select value, expires_ms from notes where kind = $1 and key = $2";
    let Some(row) = client.query_opt(sql, &[&kind.as_str(), &key.as_bytes()]).await? else { return Ok(None) };
    let reason = |_| LedgerError::Record { call_id: key.to_owned(), reason: "the note is not text".to_owned() };
    let value = String::from_utf8(row.try_get(0)?).map_err(reason)?;
    let expires_ms: Option<i64> = row.try_get(1)?;
    let expires_at = expires_ms.map(|ms| Timestamp::from_unix_ms(unsigned(ms)));
    Ok(Some(Note { kind, key: key.to_owned(), value, expires_at }))
}
