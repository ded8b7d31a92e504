//! The verifiable log in the file. There is one writer at a time, so that leaves get their place in the transaction that writes them; the tree
//! takes them in later.

use rusqlite::{Connection, OptionalExtension as _, params};
use servanda_audit::{
    leaf::LeafSalts,
    tile::{TILE_HASHES, TileKind, TilePath},
};
use servanda_effects::LogHead;

use crate::{
    LedgerError,
    codec::{signed, unsigned},
    leaves::Leaves,
    log_files::{LogRow, bundle_of, hashes_of},
    log_tree::{LEAVES_PER_ROUND, LogTree, StoredTree, level_of},
};

/// The secret of the log's salts; made if there is none.
pub(super) fn salts(connection: &Connection) -> Result<LeafSalts, LedgerError> {
    if let Some(known) = known_salts(connection)? {
        return Ok(known);
    }
    let fresh = LeafSalts::random().map_err(|error| LedgerError::Log(error.to_string()))?;
    let put = "insert into log_salts (only_row, secret) values (1, ?1) on conflict (only_row) do nothing";
    connection.execute(put, params![fresh.as_bytes()])?;
    known_salts(connection)?.ok_or_else(|| LedgerError::Log("the secret of its salts is not kept".to_owned()))
}

/// The secret of the log's salts, if there is one.
pub(super) fn known_salts(connection: &Connection) -> Result<Option<LeafSalts>, LedgerError> {
    let sql = "select secret from log_salts where only_row = 1";
    let known: Option<Vec<u8>> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let read = |secret: Vec<u8>| {
        LeafSalts::from_bytes(&secret).ok_or_else(|| LedgerError::Log("the secret of its salts is damaged".to_owned()))
    };
    known.map(read).transpose()
}

/// Puts the leaves of a batch at the end of the log.
pub(super) fn append(transaction: &Connection, leaves: &Leaves) -> Result<(), LedgerError> {
    if leaves.is_empty() {
        return Ok(());
    }
    let first = written(transaction)?;
    let mut put = transaction.prepare_cached("insert into log_leaves (first, count, leaves) values (?1, ?2, ?3)")?;
    put.execute(params![signed(first), leaves.count, leaves.bytes])?;
    Ok(())
}

/// Takes leaves into the tree.
pub(super) fn extend_tree(transaction: &Connection) -> Result<LogHead, LedgerError> {
    let mut tree = LogTree::read(&stored_tree(transaction)?)?;
    let begun = tree.size();
    let mut list =
        transaction.prepare_cached("select first, count, leaves from log_leaves where first >= ?1 order by first")?;
    let mut rows = list.query(params![signed(begun)])?;
    let mut is_behind = false;
    while let Some(row) = rows.next()? {
        if tree.size() >= begun + LEAVES_PER_ROUND {
            is_behind = true;
            break;
        }
        tree.take(unsigned(row.get(0)?), row.get(1)?, row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?)?;
    }
    if tree.size() > begun {
        for (level, number, hashes) in tree.full_tiles() {
            let sql = "insert into log_tiles (level, number, hashes) values (?1, ?2, ?3)";
            transaction.prepare_cached(sql)?.execute(params![level, number, hashes])?;
        }
        let mut put = transaction.prepare_cached("update log_tree set size = ?1, edge = ?2 where only_row = 1")?;
        put.execute(params![signed(tree.size()), tree.edge()])?;
    }
    Ok(tree.head(is_behind))
}

/// Stores a signed checkpoint, unless one of a larger tree is there.
pub(super) fn put_checkpoint(transaction: &Connection, size: u64, note: &str) -> Result<(), LedgerError> {
    let sql =
        "update log_tree set signed_size = ?1, checkpoint = ?2 where only_row = 1 and signed_size <= ?1 and size >= ?1";
    transaction.prepare_cached(sql)?.execute(params![signed(size), note])?;
    Ok(())
}

/// The checkpoint that was signed last, if one was.
pub(super) fn checkpoint(connection: &Connection) -> Result<Option<String>, LedgerError> {
    let mut read =
        connection.prepare_cached("select checkpoint from log_tree where only_row = 1 and checkpoint <> ''")?;
    Ok(read.query_row([], |row| row.get(0)).optional()?)
}

/// A file of the log, if it has it.
pub(super) fn file(connection: &Connection, path: &TilePath) -> Result<Option<Vec<u8>>, LedgerError> {
    let TileKind::Hashes { level } = path.kind() else { return bundle_of(path, &rows_of(connection, path)?) };
    let sql = "select hashes from log_tiles where level = ?1 and number = ?2";
    let mut full = connection.prepare_cached(sql)?;
    let full = full.query_row(params![level_of(path), signed(path.index())], |row| row.get(0)).optional()?;
    hashes_of(path, level, full, &stored_tree(connection)?)
}

/// How many leaves there are.
fn written(connection: &Connection) -> Result<u64, LedgerError> {
    let mut last = connection
        .prepare_cached("select first + count from log_leaves where first = (select max(first) from log_leaves)")?;
    Ok(last.query_row([], |row| row.get(0)).optional()?.map_or(0, unsigned))
}

fn stored_tree(connection: &Connection) -> Result<StoredTree, LedgerError> {
    let mut read = connection.prepare_cached("select size, edge, signed_size from log_tree where only_row = 1")?;
    let read =
        read.query_row([], |row| Ok(StoredTree { size: row.get(0)?, edge: row.get(1)?, signed_size: row.get(2)? }));
    Ok(read?)
}

/// The rows that have the leaves of a bundle.
fn rows_of(connection: &Connection, path: &TilePath) -> Result<Vec<LogRow>, LedgerError> {
    let sql = "select first, count, leaves from log_leaves
        where first >= coalesce((select max(first) from log_leaves where first <= ?1), 0) and first < ?2 order by first";
    let (begin, end) = (path.first_leaf(), path.first_leaf() + u64::from(path.width().min(TILE_HASHES)));
    let mut list = connection.prepare_cached(sql)?;
    let rows = list.query_map(params![signed(begin), signed(end)], |row| {
        Ok(LogRow { first: row.get(0)?, count: row.get(1)?, leaves: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
