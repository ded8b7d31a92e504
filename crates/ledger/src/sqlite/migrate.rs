//! Versioned, forward-only migrations. A database written by a newer version is refused, never guessed at.

use rusqlite::{Connection, TransactionBehavior};

use crate::LedgerError;

/// In order; the position counted from one is the schema version.
const MIGRATIONS: [&str; 17] = [
    include_str!("../../sql/sqlite/0001_calls.sql"),
    include_str!("../../sql/sqlite/0002_notes.sql"),
    include_str!("../../sql/sqlite/0003_effects.sql"),
    include_str!("../../sql/sqlite/0004_open_records.sql"),
    include_str!("../../sql/sqlite/0005_turns.sql"),
    include_str!("../../sql/sqlite/0006_settled.sql"),
    include_str!("../../sql/sqlite/0007_budgets.sql"),
    include_str!("../../sql/sqlite/0008_ledger_time.sql"),
    include_str!("../../sql/sqlite/0009_unknown_latest.sql"),
    include_str!("../../sql/sqlite/0010_identity.sql"),
    include_str!("../../sql/sqlite/0011_growth.sql"),
    include_str!("../../sql/sqlite/0012_compact_records.sql"),
    include_str!("../../sql/sqlite/0013_tickets.sql"),
    include_str!("../../sql/sqlite/0014_call_index.sql"),
    include_str!("../../sql/sqlite/0015_gathered_index.sql"),
    include_str!("../../sql/sqlite/0016_effects_of_tenant.sql"),
    include_str!("../../sql/sqlite/0017_audit_log.sql"),
];

/// Brings a database up to date.
pub(super) fn to_newest(connection: &mut Connection) -> Result<(), LedgerError> {
    // Immediate: two processes that start at once must not both migrate.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = check(&transaction)?;
    for (version, migration) in (1u32..).zip(MIGRATIONS).skip_while(|(version, _)| *version <= found) {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Makes a database of an earlier version, or brings one to a later version that is not the newest.
#[cfg(test)]
pub(crate) fn to_version(connection: &Connection, version: u32) -> Result<(), LedgerError> {
    let found = check(connection)?;
    for (version, migration) in (1u32..=version).zip(MIGRATIONS).skip_while(|(version, _)| *version <= found) {
        connection.execute_batch(migration)?;
        connection.pragma_update(None, "user_version", version)?;
    }
    Ok(())
}

/// The schema version of a database, if this version can bring it up to date.
pub(super) fn check(connection: &Connection) -> Result<u32, LedgerError> {
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = newest();
    if found > known { Err(LedgerError::Newer { found, known }) } else { Ok(found) }
}

/// Refuses a database that is not up to date.
pub(super) fn require(connection: &Connection) -> Result<(), LedgerError> {
    let (found, needed) = (check(connection)?, newest());
    if found < needed { Err(LedgerError::Older { found, needed }) } else { Ok(()) }
}

/// The version that this servanda needs.
pub(crate) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}
