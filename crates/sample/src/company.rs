//! The company's records: opening them, seeding them, and the two ways to use them.
//!
//! Responsible for the database file and for recording every effect in the transaction that causes it. The tools in
//! `catalogue` decide what the records mean, and which changes are allowed.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::failure::SampleToolFailure;

/// Increased when the tables or the seed change. SQLite refuses a file of another version with "table already exists";
/// it is not migrated, because it contains nothing of value.
const TABLES_VERSION: i64 = 1;
/// How long one server waits for another that locks the same database file.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(5);

const TABLES: &str = include_str!("company/tables.sql");
const SEED: &str = include_str!("company/seed.sql");

pub(crate) struct Company {
    connection: Mutex<Connection>,
}

/// The kinds of effect a tool can have, as `count_effects` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompanyEffect {
    Payment,
    Mail,
    Meeting,
    InvoiceDraft,
    InvoiceVoid,
    EmailUpdate,
    FileWrite,
    FileDelete,
    SqlChange,
}

impl CompanyEffect {
    pub(crate) const ALL: [Self; 9] = [
        Self::Payment,
        Self::Mail,
        Self::Meeting,
        Self::InvoiceDraft,
        Self::InvoiceVoid,
        Self::EmailUpdate,
        Self::FileWrite,
        Self::FileDelete,
        Self::SqlChange,
    ];

    /// The plural under which `count_effects` reports it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Payment => "payments",
            Self::Mail => "mails",
            Self::Meeting => "meetings",
            Self::InvoiceDraft => "invoice_drafts",
            Self::InvoiceVoid => "invoice_voids",
            Self::EmailUpdate => "email_updates",
            Self::FileWrite => "file_writes",
            Self::FileDelete => "file_deletes",
            Self::SqlChange => "sql_changes",
        }
    }
}

impl Company {
    /// Opens the records, seeding them the first time.
    pub(crate) fn open(database: Option<&Path>) -> rusqlite::Result<Self> {
        let mut connection = match database {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        connection.busy_timeout(BUSY_WAIT_MAX)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // Immediate, so that of two servers opening one new file only one seeds it.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != TABLES_VERSION {
            transaction.execute_batch(TABLES)?;
            transaction.execute_batch(SEED)?;
            transaction.pragma_update(None, "user_version", TABLES_VERSION)?;
        }
        transaction.commit()?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    pub(crate) fn read<T>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, SampleToolFailure>,
    ) -> Result<T, SampleToolFailure> {
        question(&self.connection())
    }

    /// Runs a change completely or not at all: a failure rolls everything back.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, SampleToolFailure>,
    ) -> Result<T, SampleToolFailure> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let changed = change(&transaction)?;
        transaction.commit()?;
        Ok(changed)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A transaction that a panic cut short was rolled back, so the connection is still usable.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records that an effect really happened to `subject`.
pub(crate) fn record_effect(
    transaction: &Transaction<'_>,
    effect: CompanyEffect,
    subject: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO effects (kind, subject) VALUES (?1, ?2)")?
        .execute(params![effect.as_str(), subject])?;
    Ok(())
}

/// The number of the next record of a table; identifiers end in it.
pub(crate) fn next_number(
    transaction: &Transaction<'_>,
    table: &'static str,
    column: &'static str,
) -> rusqlite::Result<i64> {
    // Both names are constants of this crate, never arguments of a call.
    let query = format!(
        "SELECT COALESCE(MAX(CAST(SUBSTR({column}, INSTR({column}, '_') + 1) AS INTEGER)), 0) + 1 FROM {table}"
    );
    transaction.query_row(&query, [], |row| row.get(0))
}
