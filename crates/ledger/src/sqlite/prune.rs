//! Removes finished data from the file, a few rows at a time. SQLite reuses the free pages, so that the file
//! stops growing.

use rusqlite::{Connection, params};
use servanda_effects::effect::LedgerNow;

use crate::{
    LedgerError,
    codec::{signed, unsigned},
    retention::{OldRecord, PRUNED_MAX, PruneReport, PruneRound, TERMS_EXAMINED_MAX, UpkeepProgress},
};

/// One round, inside the writer's transaction.
pub(super) fn prune(
    transaction: &Connection,
    progress: &mut UpkeepProgress,
    round: PruneRound,
    now: LedgerNow,
) -> Result<PruneReport, LedgerError> {
    let mut pruned = PruneReport::default();
    let is_full = |count: u64| count >= u64::from(PRUNED_MAX);
    if let Some(before_ms) = round.records_before_ms() {
        let (count, is_last) = records(transaction, progress, before_ms)?;
        (pruned.records, pruned.is_behind) = (count, !is_last);
        pruned.is_behind |= is_full(counts(transaction, before_ms)?);
    }
    if let Some(before) = round.spans_before() {
        pruned.is_behind |= terms(transaction, progress, before)?;
    }
    if let Some(kept_ms) = round.retention.tombstones_ms {
        pruned.tombstones = tombstones(transaction, kept_ms, now.ledger_ms)?;
    }
    if let Some(before_ms) = round.tickets_before_ms(now.now_ms) {
        pruned.tickets = tickets(transaction, before_ms)?;
    }
    pruned.notes = notes(transaction, round.now.unix_ms())?;
    pruned.is_behind |= is_full(pruned.tombstones) || is_full(pruned.tickets) || is_full(pruned.notes);
    Ok(pruned)
}

/// Removes records that were received before a moment of the wall clock, with their quarantined answers.
/// Returns how many were removed, and whether those were all.
fn records(
    transaction: &Connection,
    progress: &mut UpkeepProgress,
    before_ms: u64,
) -> Result<(u64, bool), LedgerError> {
    let mut statement = transaction.prepare_cached(include_str!("../../sql/sqlite/old_records.sql"))?;
    let bounds = params![signed(progress.records_from_ms), signed(before_ms), PRUNED_MAX];
    let read = |row: &rusqlite::Row<'_>| {
        Ok(OldRecord { call_id: row.get(0)?, received_ms: unsigned(row.get(1)?), may_go: row.get(2)? })
    };
    let page = statement.query_map(bounds, read)?.collect::<Result<Vec<_>, _>>()?;
    let mut count = 0;
    for record in page.iter().filter(|record| record.may_go) {
        for erase in
            [include_str!("../../sql/sqlite/erase_quarantine.sql"), include_str!("../../sql/sqlite/erase_call.sql")]
        {
            transaction.prepare_cached(erase)?.execute(params![record.call_id])?;
        }
        count += 1;
    }
    Ok((count, progress.after_records(&page)))
}

/// Removes what records are found by, for the spans before one of them, term by term. Returns whether there is more to remove right away.
fn terms(transaction: &Connection, progress: &mut UpkeepProgress, before: i64) -> Result<bool, LedgerError> {
    let mut next = transaction.prepare_cached(include_str!("../../sql/sqlite/next_term.sql"))?;
    let mut erase = transaction.prepare_cached(include_str!("../../sql/sqlite/erase_terms.sql"))?;
    let mut erased = 0;
    for _ in 0..TERMS_EXAMINED_MAX {
        // Terms are 32 bits wide, so that this is before all of them.
        let after = progress.terms_after.map_or(i64::MIN, i64::from);
        let Some(term) = next.query_row(params![after], |row| row.get::<_, Option<i32>>(0))? else {
            progress.terms_after = None;
            return Ok(false);
        };
        erased += erase.execute(params![term, before, PRUNED_MAX])?;
        if erased >= PRUNED_MAX as usize {
            return Ok(true);
        }
        progress.terms_after = Some(term);
    }
    Ok(false)
}

/// Removes counts of times before a moment of the wall clock.
fn counts(transaction: &Connection, before_ms: u64) -> Result<u64, LedgerError> {
    let mut erase = transaction.prepare_cached(include_str!("../../sql/sqlite/erase_counts.sql"))?;
    Ok(erase.execute(params![signed(before_ms), PRUNED_MAX])? as u64)
}

/// Removes tombstones whose window ended that long ago, in ledger time.
fn tombstones(transaction: &Connection, kept_ms: u64, ledger_ms: u64) -> Result<u64, LedgerError> {
    let Some(before_ms) = ledger_ms.checked_sub(kept_ms) else { return Ok(0) };
    let mut erase = transaction.prepare_cached(include_str!("../../sql/sqlite/erase_tombstones.sql"))?;
    Ok(erase.execute(params![signed(before_ms), PRUNED_MAX])? as u64)
}

/// Removes tickets that are over and have not changed since then, by the store's clock.
fn tickets(transaction: &Connection, before_ms: u64) -> Result<u64, LedgerError> {
    let mut erase = transaction.prepare_cached(include_str!("../../sql/sqlite/erase_tickets.sql"))?;
    Ok(erase.execute(params![signed(before_ms), PRUNED_MAX])? as u64)
}

/// Removes notes that have expired by the wall clock.
fn notes(transaction: &Connection, wall_ms: u64) -> Result<u64, LedgerError> {
    let mut forget = transaction.prepare_cached(include_str!("../../sql/sqlite/forget_notes.sql"))?;
    Ok(forget.execute(params![signed(wall_ms), PRUNED_MAX])? as u64)
}
