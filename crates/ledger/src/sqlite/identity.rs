//! The identity of the ledger in the file: its row, its acceptances, and the lost windows that still matter.

use rusqlite::{Connection, Row, params};
use servanda_effects::effect::LostWindow;

use crate::{
    LedgerError,
    codec::{signed, unsigned},
    identity::{Adoption, LedgerPosition, LossSettlement, UnsettledLoss},
};

/// Which ledger it is and how far it has come.
pub(super) fn position(connection: &Connection) -> Result<LedgerPosition, LedgerError> {
    let sql = "select ledger_id, position, written_ms, made_ms from ledger_identity where one = 1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([], |row| {
        Ok(LedgerPosition {
            ledger_id: row.get(0)?,
            position: unsigned(row.get(1)?),
            written_ms: unsigned(row.get(2)?),
            made_ms: unsigned(row.get(3)?),
        })
    })?)
}

/// Moves the position on, inside a writing transaction. Returns the new position.
pub(super) fn advance(transaction: &Connection, now_ms: u64) -> Result<u64, LedgerError> {
    let sql = "update ledger_identity set position = position + 1, written_ms = max(written_ms, ?1) where one = 1 \
               returning position";
    let mut statement = transaction.prepare_cached(sql)?;
    Ok(unsigned(statement.query_row(params![signed(now_ms)], |row| row.get(0))?))
}

/// A new random id.
pub(super) fn new_id(connection: &Connection) -> Result<String, LedgerError> {
    Ok(connection.query_row("select lower(hex(randomblob(16)))", [], |row| row.get(0))?)
}

/// Stores an acceptance and gives the ledger its new identity.
pub(super) fn adopt(transaction: &Connection, adoption: &Adoption) -> Result<(), LedgerError> {
    let optional = |value: Option<u64>| value.map(signed);
    transaction.execute(
        include_str!("../../sql/sqlite/put_adoption.sql"),
        params![
            signed(adoption.adopted_ms),
            adoption.adopted_by,
            adoption.evidence,
            adoption.found,
            adoption.known_id,
            optional(adoption.known_position),
            adoption.found_id,
            optional(adoption.found_position),
            adoption.ledger_id,
            signed(adoption.lost_from_ms),
            signed(adoption.lost_until_ms),
            signed(adoption.in_force_until_ms),
        ],
    )?;
    transaction.execute("update ledger_identity set ledger_id = ?1 where one = 1", params![adoption.ledger_id])?;
    Ok(())
}

/// Settles every unsettled lost window. Returns how many there were.
pub(super) fn settle(transaction: &Connection, settling: &LossSettlement, now_ms: u64) -> Result<usize, LedgerError> {
    let sql = "update adoptions set settled_ms = ?1, settled_by = ?2, settled_evidence = ?3 where settled_ms is null";
    Ok(transaction.execute(sql, params![signed(now_ms), settling.by, settling.evidence])?)
}

/// The acceptances, latest first.
pub(super) fn adoptions(connection: &Connection) -> Result<Vec<Adoption>, LedgerError> {
    let mut statement = connection.prepare(include_str!("../../sql/sqlite/list_adoptions.sql"))?;
    let rows = statement.query_map([], adoption)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The ids of the ledgers that this one replaced.
pub(super) fn former_ids(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let sql = "select known_id from adoptions where known_id is not null union \
               select found_id from adoptions where found_id is not null";
    let mut statement = connection.prepare(sql)?;
    let ids = statement.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Lost windows that no person has settled.
pub(super) fn lost(connection: &Connection) -> Result<Vec<UnsettledLoss>, LedgerError> {
    let sql = "select lost_from_ms, lost_until_ms, in_force_until_ms from adoptions where settled_ms is null";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let window = LostWindow { from_ms: unsigned(row.get(0)?), until_ms: unsigned(row.get(1)?) };
        Ok(UnsettledLoss { window, in_force_until_ms: unsigned(row.get(2)?) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn adoption(row: &Row<'_>) -> Result<Adoption, rusqlite::Error> {
    let optional = |index| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(index)?.map(unsigned));
    Ok(Adoption {
        adopted_ms: unsigned(row.get(0)?),
        adopted_by: row.get(1)?,
        evidence: row.get(2)?,
        found: row.get(3)?,
        known_id: row.get(4)?,
        known_position: optional(5)?,
        found_id: row.get(6)?,
        found_position: optional(7)?,
        ledger_id: row.get(8)?,
        lost_from_ms: unsigned(row.get(9)?),
        lost_until_ms: unsigned(row.get(10)?),
        in_force_until_ms: unsigned(row.get(11)?),
        settled_ms: optional(12)?,
        settled_by: row.get(13)?,
        settled_evidence: row.get(14)?,
    })
}
