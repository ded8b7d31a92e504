//! Versioned, forward-only migrations of the shared database. A database written by a newer version is refused,
//! never guessed at.

use tokio_postgres::Client;

use crate::{LedgerError, LedgerSchemaPolicy, store::Migration};

/// In order; the position counted from one is the schema version.
const MIGRATIONS: [&str; 15] = [
    include_str!("../../sql/postgres/0001_calls.sql"),
    include_str!("../../sql/postgres/0002_notes.sql"),
    include_str!("../../sql/postgres/0003_effects.sql"),
    include_str!("../../sql/postgres/0004_open_records.sql"),
    include_str!("../../sql/postgres/0005_turns.sql"),
    include_str!("../../sql/postgres/0006_budgets.sql"),
    include_str!("../../sql/postgres/0007_ledger_time.sql"),
    include_str!("../../sql/postgres/0008_unknown_latest.sql"),
    include_str!("../../sql/postgres/0009_identity.sql"),
    include_str!("../../sql/postgres/0010_growth.sql"),
    include_str!("../../sql/postgres/0011_compact_records.sql"),
    include_str!("../../sql/postgres/0012_tickets.sql"),
    include_str!("../../sql/postgres/0013_call_index.sql"),
    include_str!("../../sql/postgres/0014_effects_of_tenant.sql"),
    include_str!("../../sql/postgres/0015_audit_log.sql"),
];
/// Gateways that start at the same time migrate one after the other, by this lock.
const LOCK: &str = "begin; set local lock_timeout = '60s'; set local statement_timeout = '300s'; \
    select pg_advisory_xact_lock(hashtextextended('servanda/schema', 0)); \
    create table if not exists servanda_schema (version integer primary key, applied_at timestamptz not null default now())";

/// Every migration, in order.
#[cfg(test)]
pub(crate) const fn all() -> [&'static str; 15] {
    MIGRATIONS
}

/// Brings a database of an earlier version up to date if the policy says so, and an empty one always.
pub(super) async fn bring_up_to_date(
    client: &Client,
    found: u32,
    schema: LedgerSchemaPolicy,
) -> Result<Option<Migration>, LedgerError> {
    let newest = newest();
    if found == newest {
        return Ok(None);
    }
    if found > 0 && schema == LedgerSchemaPolicy::Require {
        return Err(LedgerError::Older { found, needed: newest });
    }
    to_newest(client).await?;
    Ok((found > 0).then_some(Migration { found, newest, backup: None }))
}

/// Refuses a database that is not up to date.
pub(super) async fn require(client: &Client) -> Result<(), LedgerError> {
    let (found, needed) = (check(client).await?, newest());
    if found < needed { Err(LedgerError::Older { found, needed }) } else { Ok(()) }
}

/// Brings a database up to date. If it already is, this needs no right but to read.
async fn to_newest(client: &Client) -> Result<(), LedgerError> {
    if check(client).await? == newest() {
        return Ok(());
    }
    // If anything fails from here on, the connection is dropped, and the transaction with it.
    client.batch_execute(LOCK).await?;
    let found = refuse_newer(version(client).await?)?;
    for (version, migration) in (1i32..).zip(MIGRATIONS).skip_while(|(version, _)| version.unsigned_abs() <= found) {
        client.batch_execute(migration).await?;
        client.execute("insert into servanda_schema (version) values ($1)", &[&version]).await?;
    }
    client.batch_execute("commit").await?;
    Ok(())
}

/// The schema version of a database, if this version can read it.
pub(super) async fn check(client: &Client) -> Result<u32, LedgerError> {
    let there = client.query_one("select to_regclass('servanda_schema') is not null", &[]).await?;
    if there.try_get(0)? { refuse_newer(version(client).await?) } else { Ok(0) }
}

async fn version(client: &Client) -> Result<u32, LedgerError> {
    let newest = client.query_one("select coalesce(max(version), 0) from servanda_schema", &[]).await?;
    Ok(u32::try_from(newest.try_get::<_, i32>(0)?).unwrap_or_default())
}

fn refuse_newer(found: u32) -> Result<u32, LedgerError> {
    let known = newest();
    if found > known { Err(LedgerError::Newer { found, known }) } else { Ok(found) }
}

pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}
