//! Where the records of finished calls are kept, and what every port of a store has in common: the future it returns, and the error.
//!
//! Deliberately not here: the records of effects, which are written with the effect ([`effect::Effects`](crate::effect::Effects)).

use std::{fmt, future::Future, pin::Pin};

use bytes::Bytes;
use servanda_contract::CallRecord;

/// A future a port returns.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where calls are put on record that are no effects, or none any more. Implemented by the ledger.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Puts the record of a finished call down: durably before returning if `durable`, else soon after.
    /// `quarantine` is an answer that broke its contract and must not be passed on.
    fn record_finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>>;

    /// The record of a finished call, if there is one.
    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>>;
}

/// The journal could not keep a record.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the journal could not keep the record: {reason}")]
pub struct JournalError {
    reason: String,
    leaves_doubt: bool,
    is_bad_content: bool,
}

impl JournalError {
    /// Nothing was kept.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: false, is_bad_content: false }
    }

    /// Nothing was kept, because of what was handed in or of the one row it is about: the store itself works.
    pub fn bad_content(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: false, is_bad_content: true }
    }

    /// It is not known whether the store kept it.
    pub fn in_doubt(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: true, is_bad_content: false }
    }

    /// Whether the store itself works.
    pub const fn is_bad_content(&self) -> bool {
        self.is_bad_content
    }

    /// Whether it may have been kept all the same.
    pub const fn leaves_doubt(&self) -> bool {
        self.leaves_doubt
    }

    /// Why.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
