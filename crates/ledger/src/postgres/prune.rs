//! Removes finished data from the shared database, a few rows at a time, and never rows that another gateway is
//! working on.

use tokio_postgres::Client;

use super::{rows::clock_reading, statements::PreparedStatements};
use crate::{
    LedgerError,
    codec::{signed, unsigned},
    retention::{OldRecord, PRUNED_MAX, PruneReport, PruneRound, TERMS_EXAMINED_MAX, UpkeepProgress},
    time::StoreTime,
};

/// One round in one transaction.
pub(super) async fn prune(
    client: &Client,
    statements: &PreparedStatements,
    time: &StoreTime,
    progress: &mut UpkeepProgress,
    round: PruneRound,
) -> Result<PruneReport, LedgerError> {
    let done = transact(client, statements, time, progress, round).await;
    if done.is_err() && !client.is_closed() {
        let _ = client.batch_execute("rollback").await;
    }
    done
}

async fn transact(
    client: &Client,
    statements: &PreparedStatements,
    time: &StoreTime,
    progress: &mut UpkeepProgress,
    round: PruneRound,
) -> Result<PruneReport, LedgerError> {
    let mut pruned = PruneReport::default();
    let is_full = |count: u64| count >= u64::from(PRUNED_MAX);
    client.batch_execute("begin").await?;
    let now = time.now(clock_reading(&client.query_one(&statements.clock, &[]).await?)?);
    if let Some(before_ms) = round.records_before_ms() {
        let (count, is_last) = records(client, progress, before_ms).await?;
        (pruned.records, pruned.is_behind) = (count, !is_last);
        pruned.is_behind |= is_full(counts(client, before_ms).await?);
    }
    if let Some(before) = round.spans_before() {
        pruned.is_behind |= terms(client, progress, before).await?;
    }
    if let Some(kept_ms) = round.retention.tombstones_ms {
        pruned.tombstones = tombstones(client, kept_ms, now.ledger_ms).await?;
    }
    if let Some(before_ms) = round.tickets_before_ms(now.now_ms) {
        pruned.tickets = tickets(client, before_ms).await?;
    }
    pruned.notes = notes(client, round.now.unix_ms()).await?;
    client.batch_execute("commit").await?;
    pruned.is_behind |= is_full(pruned.tombstones) || is_full(pruned.tickets) || is_full(pruned.notes);
    Ok(pruned)
}

/// Removes records that were received before a moment of the wall clock, with their quarantined answers.
/// Returns how many were removed, and whether those were all.
async fn records(client: &Client, progress: &mut UpkeepProgress, before_ms: u64) -> Result<(u64, bool), LedgerError> {
    let sql = include_str!("../../sql/postgres/old_records.sql");
    let (from_ms, before_ms) = (signed(progress.records_from_ms), signed(before_ms));
    let rows = client.query(sql, &[&from_ms, &before_ms, &i64::from(PRUNED_MAX)]).await?;
    let read = |row: &tokio_postgres::Row| {
        Ok(OldRecord { call_id: row.try_get(0)?, received_ms: unsigned(row.try_get(1)?), may_go: row.try_get(2)? })
    };
    let page = rows.iter().map(read).collect::<Result<Vec<_>, LedgerError>>()?;
    let ids: Vec<&str> = page.iter().filter(|record| record.may_go).map(|record| record.call_id.as_str()).collect();
    let mut count = 0;
    if !ids.is_empty() {
        client.execute(include_str!("../../sql/postgres/erase_quarantine.sql"), &[&ids]).await?;
        count = client.execute(include_str!("../../sql/postgres/erase_calls.sql"), &[&ids]).await?;
    }
    Ok((count, progress.after_records(&page)))
}

/// Removes what records are found by, for the spans before one of them, term by term. Returns whether there is more to remove right away.
async fn terms(client: &Client, progress: &mut UpkeepProgress, before: i64) -> Result<bool, LedgerError> {
    let mut erased = 0;
    for _ in 0..TERMS_EXAMINED_MAX {
        // The smallest number is no term that is likely to exist; its rows would only stay longer.
        let after = progress.terms_after.unwrap_or(i32::MIN);
        let next = client.query_one(include_str!("../../sql/postgres/next_term.sql"), &[&after]).await?;
        let Some(term) = next.try_get::<_, Option<i32>>(0)? else {
            progress.terms_after = None;
            return Ok(false);
        };
        let erase = include_str!("../../sql/postgres/erase_terms.sql");
        erased += client.execute(erase, &[&term, &before, &i64::from(PRUNED_MAX)]).await?;
        if erased >= u64::from(PRUNED_MAX) {
            return Ok(true);
        }
        progress.terms_after = Some(term);
    }
    Ok(false)
}

/// Removes counts of times before a moment of the wall clock.
async fn counts(client: &Client, before_ms: u64) -> Result<u64, LedgerError> {
    let sql = include_str!("../../sql/postgres/erase_counts.sql");
    Ok(client.execute(sql, &[&signed(before_ms), &i64::from(PRUNED_MAX)]).await?)
}

/// Removes tombstones whose window ended that long ago, in ledger time.
async fn tombstones(client: &Client, kept_ms: u64, ledger_ms: u64) -> Result<u64, LedgerError> {
    let Some(before_ms) = ledger_ms.checked_sub(kept_ms) else { return Ok(0) };
    let sql = include_str!("../../sql/postgres/erase_tombstones.sql");
    Ok(client.execute(sql, &[&signed(before_ms), &i64::from(PRUNED_MAX)]).await?)
}

/// Removes tickets that are over and have not changed since then, by the store's clock.
async fn tickets(client: &Client, before_ms: u64) -> Result<u64, LedgerError> {
    let sql = include_str!("../../sql/postgres/erase_tickets.sql");
    Ok(client.execute(sql, &[&signed(before_ms), &i64::from(PRUNED_MAX)]).await?)
}

/// Removes notes that have expired by the wall clock.
async fn notes(client: &Client, wall_ms: u64) -> Result<u64, LedgerError> {
    let sql = include_str!("../../sql/postgres/forget_notes.sql");
    Ok(client.execute(sql, &[&signed(wall_ms), &i64::from(PRUNED_MAX)]).await?)
}
