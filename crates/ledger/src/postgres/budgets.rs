//! Budgets in the shared database: a batch of entries is one transaction. It locks holds first and then
//! accounts, each in a fixed order, so that gateways wait for each other but never deadlock. Each gateway sees
//! what the others have entered.

use std::collections::{BTreeMap, BTreeSet};

use servanda_contract::{Digest, faults};
use servanda_effects::budget::{
    Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, ChunkLease, EntryReply, OPEN_MS_MAX, Reservation,
    SweepReport,
};
use tokio_postgres::{Client, Row};

use super::{
    audit_log,
    rows::clock_reading,
    statements::{BudgetStatements, PreparedStatements},
};
use crate::{
    LedgerError,
    budget_rows::{AbandonedHoldRow, BalanceRow, BudgetPage, count_swept, decode_balance, decode_hold},
    codec::signed,
    job::Job,
    leaves::{LeafWriter, Leaves},
    retention::{HOLDS_EXAMINED_MAX, UpkeepProgress},
    time::StoreTime,
};

/// Makes the entries of a batch, all or none. Jobs that are not entries are skipped.
pub(super) async fn apply_entries(
    client: &Client,
    statements: &PreparedStatements,
    time: &StoreTime,
    (jobs, log): (&[Job], Option<&LeafWriter>),
) -> Result<Vec<Option<EntryReply>>, LedgerError> {
    let done = async {
        let books = statements.budgets(client).await?;
        client.batch_execute("begin").await?;
        let now_ms = time.now(clock_reading(&client.query_one(&statements.clock, &[]).await?)?).now_ms;
        let entries: Vec<&AccountEntry> = jobs.iter().filter_map(entry).collect();
        let (mut page, known) = read_holds(client, books, &entries).await?;
        read_balances(client, books, &mut page, &entries, now_ms).await?;
        let booked = jobs.iter().map(|job| entry(job).map(|entry| page.apply_entry(entry, now_ms))).collect();
        write(client, books, &page, &known).await?;
        write_leaves(client, &page, log).await?;
        commit(client).await?;
        Ok(booked)
    };
    or_roll_back(client, done.await).await
}

/// Closes abandoned reservations, and forgets finished ones.
pub(super) async fn sweep(
    client: &Client,
    (statements, log): (&PreparedStatements, Option<&LeafWriter>),
    time: &StoreTime,
    progress: &mut UpkeepProgress,
    limit: u32,
) -> Result<SweepReport, LedgerError> {
    let done = async {
        let books = statements.budgets(client).await?;
        client.batch_execute("begin").await?;
        let now_ms = time.now(clock_reading(&client.query_one(&statements.clock, &[]).await?)?).now_ms;
        let (swept, page) = close_left(client, books, progress, now_ms, limit).await?;
        write_leaves(client, &page, log).await?;
        for sql in [
            include_str!("../../sql/postgres/forget_holds.sql"),
            include_str!("../../sql/postgres/forget_standings.sql"),
        ] {
            client.execute(sql, &[&signed(now_ms), &i64::from(limit)]).await?;
        }
        commit(client).await?;
        Ok(swept)
    };
    or_roll_back(client, done.await).await
}

/// Reservations that were opened until then and are still open, oldest first.
pub(super) async fn open_reservations(
    client: &Client,
    until_ms: u64,
    limit: u32,
) -> Result<Vec<BudgetHold>, LedgerError> {
    let sql = "select hold_id, stage, body from holds \
               where stage = 'open' and kind = 'reservation' and opened_ms <= $1 order by opened_ms limit $2";
    let rows = client.query(sql, &[&signed(until_ms), &i64::from(limit)]).await?;
    rows.iter().map(hold).collect()
}

/// The current balances of accounts, latest changed first.
pub(super) async fn balances(
    client: &Client,
    query: &BalanceQuery,
    now_ms: u64,
) -> Result<Vec<AccountBalance>, LedgerError> {
    let limit = i64::from(query.limit);
    let rows = match &query.tenant {
        Some(tenant) => {
            let sql = "select account, body from standings where tenant = $1 order by changed_ms desc limit $2";
            client.query(sql, &[&tenant.as_bytes(), &limit]).await?
        }
        None => {
            client.query("select account, body from standings order by changed_ms desc limit $1", &[&limit]).await?
        }
    };
    rows.iter().map(|row| Ok(balance(row)?.at(now_ms))).collect()
}

pub(super) async fn find_balances(
    client: &Client,
    accounts: &[Account],
    now_ms: u64,
) -> Result<Vec<AccountBalance>, LedgerError> {
    let digests: Vec<Digest> = accounts.iter().map(Account::digest).collect();
    let digests: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    let sql = "select account, body from standings where account = any ($1::bytea[])";
    let rows = client.query(sql, &[&digests]).await?;
    rows.iter().map(|row| Ok(balance(row)?.at(now_ms))).collect()
}

async fn close_left(
    client: &Client,
    books: &BudgetStatements,
    progress: &mut UpkeepProgress,
    now_ms: u64,
    limit: u32,
) -> Result<(SweepReport, BudgetPage), LedgerError> {
    let from_ms = signed(progress.holds_from_ms);
    let until = include_str!("../../sql/postgres/open_holds_until.sql");
    let until = client.query_opt(until, &[&from_ms, &i64::from(HOLDS_EXAMINED_MAX)]).await?;
    let until_ms: Option<i64> = until.map(|row| row.try_get(0)).transpose()?;
    let sql = include_str!("../../sql/postgres/left_holds.sql");
    let open_since_ms = signed(now_ms.saturating_sub(OPEN_MS_MAX));
    let stretch = (from_ms, until_ms.unwrap_or(i64::MAX));
    let rows = client.query(sql, &[&open_since_ms, &i64::from(limit), &stretch.0, &stretch.1]).await?;
    progress.after_holds(rows.len(), limit, until_ms);
    let (mut page, mut entries, mut known) = (BudgetPage::default(), Vec::new(), BTreeSet::new());
    let mut swept = SweepReport::default();
    for row in &rows {
        let Some((hold, entry)) = left(row)?.judge(now_ms) else { continue };
        known.insert(hold.id.as_str().to_owned());
        page.read_hold(hold);
        entries.extend(entry.inspect(|entry| count_swept(&mut swept, entry)));
    }
    let entries: Vec<&AccountEntry> = entries.iter().collect();
    read_balances(client, books, &mut page, &entries, now_ms).await?;
    for entry in entries {
        page.apply_entry(entry, now_ms);
    }
    write(client, books, &page, &known).await?;
    Ok((swept, page))
}

/// Reads the holds of the entries, and returns their ids as well.
async fn read_holds(
    client: &Client,
    books: &BudgetStatements,
    entries: &[&AccountEntry],
) -> Result<(BudgetPage, BTreeSet<String>), LedgerError> {
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id().as_str()).collect();
    let (mut page, mut known) = (BudgetPage::default(), BTreeSet::new());
    for row in client.query(&books.lock_holds, &[&ids]).await? {
        known.insert(row.try_get(0)?);
        page.read_hold(hold(&row)?);
    }
    Ok((page, known))
}

/// Reads the balances of the accounts that the entries change. Accounts that are drawn on for the first time
/// are made first.
async fn read_balances(
    client: &Client,
    books: &BudgetStatements,
    page: &mut BudgetPage,
    entries: &[&AccountEntry],
    now_ms: u64,
) -> Result<(), LedgerError> {
    let mut digests: BTreeSet<Digest> = BTreeSet::new();
    for entry in entries {
        digests.extend(page.accounts(entry).iter().map(|account| account.digest()));
    }
    if digests.is_empty() {
        return Ok(());
    }
    make_balances(client, books, entries, now_ms).await?;
    let keys: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    for row in client.query(&books.lock_standings, &[&keys]).await? {
        page.read_balance(balance(&row)?);
    }
    Ok(())
}

async fn make_balances(
    client: &Client,
    books: &BudgetStatements,
    entries: &[&AccountEntry],
    now_ms: u64,
) -> Result<(), LedgerError> {
    let drawn = entries.iter().flat_map(|entry| drawn(entry));
    let opened = drawn.map(|(account, limit)| AccountBalance::new(account.clone(), limit, now_ms));
    let opened: BTreeMap<Digest, AccountBalance> =
        opened.map(|standing| (standing.account.digest(), standing)).collect();
    if opened.is_empty() {
        return Ok(());
    }
    let rows = opened.values().map(BalanceRow::new).collect::<Result<Vec<_>, _>>()?;
    let accounts: Vec<&[u8]> = rows.iter().map(|row| &row.account.as_bytes()[..]).collect();
    let tenants: Vec<&[u8]> = rows.iter().map(|row| row.tenant.as_bytes()).collect();
    let changed: Vec<i64> = rows.iter().map(|row| row.changed_ms).collect();
    let expires: Vec<Option<i64>> = rows.iter().map(|row| row.expires_ms).collect();
    let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
    client.execute(&books.make_standings, &[&accounts, &tenants, &changed, &expires, &bodies]).await?;
    Ok(())
}

/// The accounts that an entry draws on, and their limits.
fn drawn(entry: &AccountEntry) -> Vec<(&Account, u64)> {
    match entry {
        AccountEntry::Reserve(Reservation { draws, .. }) => {
            draws.iter().map(|draw| (&draw.account, draw.limit)).collect()
        }
        AccountEntry::Lease(ChunkLease { account, limit, .. }) => vec![(account, *limit)],
        AccountEntry::Settle { .. } | AccountEntry::Refund { .. } | AccountEntry::ReturnLease(_) => Vec::new(),
    }
}

async fn write(
    client: &Client,
    books: &BudgetStatements,
    page: &BudgetPage,
    known: &BTreeSet<String>,
) -> Result<(), LedgerError> {
    let rows = page.changed_balances()?;
    if !rows.is_empty() {
        let accounts: Vec<&[u8]> = rows.iter().map(|row| &row.account.as_bytes()[..]).collect();
        let changed: Vec<i64> = rows.iter().map(|row| row.changed_ms).collect();
        let expires: Vec<Option<i64>> = rows.iter().map(|row| row.expires_ms).collect();
        let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
        client.execute(&books.change_standings, &[&accounts, &changed, &expires, &bodies]).await?;
    }
    let rows = page.changed_holds()?;
    if !rows.is_empty() {
        let ids: Vec<&str> = rows.iter().map(|row| row.hold_id).collect();
        let kinds: Vec<&str> = rows.iter().map(|row| row.kind).collect();
        let effects: Vec<Option<&str>> = rows.iter().map(|row| row.effect_id).collect();
        let stages: Vec<&str> = rows.iter().map(|row| row.stage).collect();
        let opened: Vec<i64> = rows.iter().map(|row| row.opened_ms).collect();
        let expires: Vec<Option<i64>> = rows.iter().map(|row| row.expires_ms).collect();
        let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
        let new: Vec<bool> = rows.iter().map(|row| !known.contains(row.hold_id)).collect();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
            [&ids, &kinds, &effects, &stages, &opened, &expires, &bodies, &new];
        client.execute(&books.put_holds, &parameters).await?;
    }
    Ok(())
}

/// Puts what became of holds into the outbox of the verifiable log.
async fn write_leaves(client: &Client, page: &BudgetPage, log: Option<&LeafWriter>) -> Result<(), LedgerError> {
    let Some(log) = log else { return Ok(()) };
    let mut leaves = Leaves::default();
    page.hold_changes().iter().try_for_each(|hold| log.budget_hold(hold, &mut leaves))?;
    audit_log::put(client, &leaves).await
}

async fn commit(client: &Client) -> Result<(), LedgerError> {
    faults::at("ledger.before_commit")?;
    client.batch_execute("commit").await?;
    faults::at("ledger.after_commit")?;
    Ok(())
}

/// Rolls back after a failure. If the rollback does not reach the server, the connection is gone and the
/// transaction with it.
async fn or_roll_back<T>(client: &Client, done: Result<T, LedgerError>) -> Result<T, LedgerError> {
    if done.is_err() && !client.is_closed() {
        let _ = client.batch_execute("rollback").await;
    }
    done
}

fn entry(job: &Job) -> Option<&AccountEntry> {
    match job {
        Job::Book { entry, .. } => Some(entry),
        _ => None,
    }
}

fn left(row: &Row) -> Result<AbandonedHoldRow, LedgerError> {
    Ok(AbandonedHoldRow {
        hold_id: row.try_get(0)?,
        stage: row.try_get(1)?,
        body: row.try_get(2)?,
        effect_state: row.try_get(3)?,
        effect_body: row.try_get(4)?,
        others: row.try_get(5)?,
    })
}

fn hold(row: &Row) -> Result<BudgetHold, LedgerError> {
    decode_hold(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)
}

fn balance(row: &Row) -> Result<AccountBalance, LedgerError> {
    decode_balance(row.try_get(0)?, row.try_get(1)?)
}
