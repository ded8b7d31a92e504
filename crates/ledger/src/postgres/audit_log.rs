//! The verifiable log in the shared database. Gateways write leaves at the same time, so a leaf waits in the outbox until one of them gives it
//! its place. That gateway holds the row of the tree; the others do not wait for it.

use servanda_audit::{
    leaf::LeafSalts,
    tile::{TileKind, TilePath},
};
use servanda_effects::LogHead;
use tokio_postgres::{Client, Row};

use crate::{
    LedgerError,
    codec::{signed, unsigned},
    leaves::Leaves,
    log_files::{LogRow, bundle_of, hashes_of},
    log_tree::{LEAVES_PER_ROUND, LogTree, StoredTree, level_of},
};

/// Rows of the outbox that one round looks at.
const ROWS_PER_ROUND: i64 = 1_024;

/// The secret of the log's salts; made if there is none.
pub(super) async fn salts(client: &Client) -> Result<LeafSalts, LedgerError> {
    let fresh = LeafSalts::random().map_err(|error| LedgerError::Log(error.to_string()))?;
    let put = "insert into log_salts (secret) values ($1) on conflict (only_row) do nothing";
    client.execute(put, &[&&fresh.as_bytes()[..]]).await?;
    known_salts(client).await?.ok_or_else(|| LedgerError::Log("the secret of its salts is not kept".to_owned()))
}

/// The secret of the log's salts, if there is one.
pub(super) async fn known_salts(client: &Client) -> Result<Option<LeafSalts>, LedgerError> {
    let Some(row) = client.query_opt("select secret from log_salts where only_row", &[]).await? else {
        return Ok(None);
    };
    let secret = LeafSalts::from_bytes(row.try_get(0)?);
    secret.map(Some).ok_or_else(|| LedgerError::Log("the secret of its salts is damaged".to_owned()))
}

/// Puts leaves into the outbox, inside a transaction.
pub(super) async fn put(client: &Client, leaves: &Leaves) -> Result<(), LedgerError> {
    if !leaves.is_empty() {
        let count = i32::try_from(leaves.count).unwrap_or(i32::MAX);
        let sql = "insert into log_outbox (count, leaves) values ($1, $2)";
        client.execute(sql, &[&count, &leaves.bytes]).await?;
    }
    Ok(())
}

/// Gives leaves their place and takes them into the tree.
pub(super) async fn extend_tree(client: &Client) -> Result<LogHead, LedgerError> {
    let done = async {
        client.batch_execute("begin").await?;
        let sql = "select size, edge, signed_size from log_tree where only_row for update skip locked";
        let Some(row) = client.query_opt(sql, &[]).await? else {
            // Another gateway extends it.
            client.batch_execute("rollback").await?;
            return Ok(LogTree::read(&stored_tree(client).await?)?.head(false));
        };
        let mut tree = LogTree::read(&stored(&row)?)?;
        let waiting = "select number, count, leaves from log_outbox order by number limit $1";
        let waiting = client.query(waiting, &[&ROWS_PER_ROUND]).await?;
        let is_behind = place(client, &mut tree, &waiting).await?;
        client.batch_execute("commit").await?;
        Ok(tree.head(is_behind))
    };
    let done = done.await;
    if done.is_err() && !client.is_closed() {
        let _ = client.batch_execute("rollback").await;
    }
    done
}

/// Stores a signed checkpoint, unless one of a larger tree is there.
pub(super) async fn put_checkpoint(client: &Client, size: u64, note: &str) -> Result<(), LedgerError> {
    let sql =
        "update log_tree set signed_size = $1, checkpoint = $2 where only_row and signed_size <= $1 and size >= $1";
    client.execute(sql, &[&signed(size), &note]).await?;
    Ok(())
}

/// The checkpoint that was signed last, if one was.
pub(super) async fn checkpoint(client: &Client) -> Result<Option<String>, LedgerError> {
    let found = client.query_opt("select checkpoint from log_tree where only_row and checkpoint <> ''", &[]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

/// A file of the log, if it has it.
pub(super) async fn file(client: &Client, path: &TilePath) -> Result<Option<Vec<u8>>, LedgerError> {
    let TileKind::Hashes { level } = path.kind() else {
        let sql = "select first, count, leaves from log_leaves
            where first >= coalesce((select max(first) from log_leaves where first <= $1), 0) and first < $2 order by first";
        let (begin, end) = (path.first_leaf(), path.first_leaf() + u64::from(path.width()));
        let rows = client.query(sql, &[&signed(begin), &signed(end)]).await?;
        return bundle_of(path, &rows.iter().map(log_row).collect::<Result<Vec<_>, LedgerError>>()?);
    };
    let sql = "select hashes from log_tiles where level = $1 and number = $2";
    let full = client.query_opt(sql, &[&level_of(path), &signed(path.index())]).await?;
    let full = full.map(|row| row.try_get(0)).transpose()?;
    hashes_of(path, level, full, &stored_tree(client).await?)
}

/// Moves rows of the outbox behind the last leaf. Returns whether there may be more.
async fn place(client: &Client, tree: &mut LogTree, waiting: &[Row]) -> Result<bool, LedgerError> {
    let (mut numbers, begun, mut taken) = (Vec::<i64>::new(), tree.size(), Leaves::default());
    for row in waiting {
        if tree.size() >= begun + LEAVES_PER_ROUND {
            break;
        }
        let leaves = Leaves { count: counted(row.try_get(1)?), bytes: row.try_get(2)? };
        tree.take(tree.size(), leaves.count, &leaves.bytes)?;
        taken.append(&leaves);
        numbers.push(row.try_get(0)?);
    }
    if !numbers.is_empty() {
        let count = i32::try_from(taken.count).unwrap_or(i32::MAX);
        let put = "insert into log_leaves (first, count, leaves) values ($1, $2, $3)";
        client.execute(put, &[&signed(begun), &count, &taken.bytes]).await?;
        client.execute("delete from log_outbox where number = any ($1)", &[&numbers]).await?;
        for (level, number, hashes) in tree.full_tiles() {
            let put = "insert into log_tiles (level, number, hashes) values ($1, $2, $3)";
            client.execute(put, &[&level, &number, &hashes]).await?;
        }
        let put = "update log_tree set size = $1, edge = $2 where only_row";
        client.execute(put, &[&signed(tree.size()), &tree.edge()]).await?;
    }
    Ok(numbers.len() < waiting.len() || waiting.len() >= usize::try_from(ROWS_PER_ROUND).unwrap_or(usize::MAX))
}

async fn stored_tree(client: &Client) -> Result<StoredTree, LedgerError> {
    stored(&client.query_one("select size, edge, signed_size from log_tree where only_row", &[]).await?)
}

fn stored(row: &Row) -> Result<StoredTree, LedgerError> {
    Ok(StoredTree { size: row.try_get(0)?, edge: row.try_get(1)?, signed_size: row.try_get(2)? })
}

fn log_row(row: &Row) -> Result<LogRow, LedgerError> {
    Ok(LogRow { first: row.try_get(0)?, count: counted(row.try_get(1)?), leaves: row.try_get(2)? })
}

fn counted(count: i32) -> u32 {
    u32::try_from(unsigned(i64::from(count))).unwrap_or(u32::MAX)
}
