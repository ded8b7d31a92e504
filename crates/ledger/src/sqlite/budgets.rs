//! Budgets in the file: entries are made inside the writer's transaction, so that nothing can come in between.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use servanda_contract::Digest;
use servanda_effects::budget::{
    Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetHoldId, EntryReply, OPEN_MS_MAX, SweepReport,
};

use super::{additions::BatchAdditions, batch_context::BatchContext};
use crate::{
    LedgerError,
    budget_rows::{AbandonedHoldRow, BudgetPage, count_swept, decode_balance, decode_hold},
    codec::signed,
    retention::{HOLDS_EXAMINED_MAX, UpkeepProgress},
};

/// Makes one entry.
pub(super) fn apply_entry(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    entry: &AccountEntry,
    now_ms: u64,
) -> Result<EntryReply, LedgerError> {
    let mut page = BudgetPage::default();
    if let Some(hold) = find_hold(transaction, entry.id())? {
        page.read_hold(hold);
    }
    let digests: Vec<Digest> = page.accounts(entry).iter().map(|account| account.digest()).collect();
    for digest in digests {
        if let Some(standing) = find_balance(transaction, &digest)? {
            page.read_balance(standing);
        }
    }
    let booked = page.apply_entry(entry, now_ms);
    write(transaction, &page)?;
    page.hold_changes().iter().try_for_each(|hold| additions.budget_hold(hold))?;
    Ok(booked)
}

/// Closes abandoned reservations, and forgets finished ones.
pub(super) fn sweep(
    transaction: &Connection,
    BatchContext { progress, additions, now, .. }: &mut BatchContext<'_>,
    limit: u32,
) -> Result<SweepReport, LedgerError> {
    let now_ms = now.now_ms;
    let (from_ms, until_ms) = (signed(progress.holds_from_ms), open_until(transaction, progress)?);
    let mut statement = transaction.prepare_cached(include_str!("../../sql/sqlite/left_holds.sql"))?;
    let open_since_ms = signed(now_ms.saturating_sub(OPEN_MS_MAX));
    let rows = statement.query_map(params![open_since_ms, limit, from_ms, until_ms.unwrap_or(i64::MAX)], |row| {
        Ok(AbandonedHoldRow {
            hold_id: row.get(0)?,
            stage: row.get(1)?,
            body: row.get(2)?,
            effect_state: row.get(3)?,
            effect_body: row.get(4)?,
            others: row.get(5)?,
        })
    })?;
    let mut swept = SweepReport::default();
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    progress.after_holds(rows.len(), limit, until_ms);
    for row in rows {
        if let Some((_, Some(entry))) = row.judge(now_ms) {
            apply_entry(transaction, additions, &entry, now_ms)?;
            count_swept(&mut swept, &entry);
        }
    }
    for sql in
        [include_str!("../../sql/sqlite/forget_holds.sql"), include_str!("../../sql/sqlite/forget_standings.sql")]
    {
        transaction.prepare_cached(sql)?.execute(params![signed(now_ms), limit])?;
    }
    Ok(swept)
}

/// When the last open reservation that this sweep looks at was opened; none if it looks at all the rest.
fn open_until(transaction: &Connection, progress: &UpkeepProgress) -> Result<Option<i64>, LedgerError> {
    let mut statement = transaction.prepare_cached(include_str!("../../sql/sqlite/open_holds_until.sql"))?;
    let from = params![signed(progress.holds_from_ms), HOLDS_EXAMINED_MAX];
    Ok(statement.query_row(from, |row| row.get(0)).optional()?)
}

/// Reservations that were opened until then and are still open, oldest first.
pub(super) fn open_reservations(
    connection: &Connection,
    until_ms: u64,
    limit: u32,
) -> Result<Vec<BudgetHold>, LedgerError> {
    let sql = "select hold_id, stage, body from holds \
               where stage = 'open' and kind = 'reservation' and opened_ms <= ?1 order by opened_ms limit ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![signed(until_ms), limit], columns)?.collect::<Result<Vec<_>, _>>()?;
    rows.iter().map(|(hold_id, stage, body)| decode_hold(hold_id, stage, body)).collect()
}

/// The current balances of accounts, latest changed first.
pub(super) fn balances(
    connection: &Connection,
    query: &BalanceQuery,
    now_ms: u64,
) -> Result<Vec<AccountBalance>, LedgerError> {
    let read = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?));
    let rows: Vec<(Vec<u8>, String)> = if let Some(tenant) = &query.tenant {
        let sql = "select account, body from standings where tenant = ?1 order by changed_ms desc limit ?2";
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_map(params![tenant, query.limit], read)?.collect::<Result<_, _>>()?
    } else {
        let sql = "select account, body from standings order by changed_ms desc limit ?1";
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_map(params![query.limit], read)?.collect::<Result<_, _>>()?
    };
    rows.iter().map(|(account, body)| Ok(decode_balance(account, body)?.at(now_ms))).collect()
}

fn find_hold(transaction: &Connection, id: &BudgetHoldId) -> Result<Option<BudgetHold>, LedgerError> {
    let mut statement = transaction.prepare_cached("select hold_id, stage, body from holds where hold_id = ?1")?;
    let found = statement.query_row(params![id.as_str()], columns).optional()?;
    found.map(|(hold_id, stage, body)| decode_hold(&hold_id, &stage, &body)).transpose()
}

pub(super) fn find_balances(
    connection: &Connection,
    accounts: &[Account],
    now_ms: u64,
) -> Result<Vec<AccountBalance>, LedgerError> {
    let found = accounts.iter().filter_map(|account| find_balance(connection, &account.digest()).transpose());
    found.map(|balance| Ok(balance?.at(now_ms))).collect()
}

fn find_balance(transaction: &Connection, digest: &Digest) -> Result<Option<AccountBalance>, LedgerError> {
    let mut statement = transaction.prepare_cached("select body from standings where account = ?1")?;
    let body: Option<String> = statement.query_row(params![digest.as_bytes()], |row| row.get(0)).optional()?;
    body.map(|body| decode_balance(digest.as_bytes(), &body)).transpose()
}

fn write(transaction: &Connection, page: &BudgetPage) -> Result<(), LedgerError> {
    for row in page.changed_balances()? {
        let mut put = transaction.prepare_cached(include_str!("../../sql/sqlite/put_standing.sql"))?;
        put.execute(params![row.account.as_bytes(), row.tenant, row.changed_ms, row.expires_ms, row.body])?;
    }
    for row in page.changed_holds()? {
        transaction.prepare_cached(include_str!("../../sql/sqlite/put_hold.sql"))?.execute(params![
            row.hold_id,
            row.kind,
            row.effect_id,
            row.stage,
            row.opened_ms,
            row.expires_ms,
            row.body,
        ])?;
    }
    Ok(())
}

fn columns(row: &Row<'_>) -> Result<(String, String, String), rusqlite::Error> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}
