//! The port that stores the records of finished calls, and what all ports of a store have in common: the future
//! they return, and the error.
//!
//! Deliberately not here: the records of effects, which are written with the effect
//! ([`effect::EffectStore`](crate::effect::EffectStore)).

use std::{fmt, future::Future, pin::Pin};

use bytes::Bytes;
use servanda_contract::CallRecord;

/// A future a port returns.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Stores the records of calls that have no effect, or whose effect has ended. Implemented by the ledger.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Stores the record of a finished call: durably before returning if `durable`, else soon after. If the store is away, the record is
    /// kept and stored when it is back, also after an error, which only says that it is not durable yet.
    /// `quarantine` is an answer that broke its contract and must not be passed on.
    fn record_finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>>;

    /// Why no further call should be answered, because its record could not be stored; none if records are stored. This asks the store
    /// nothing.
    fn refuses_records(&self) -> Option<RecordsRefused> {
        None
    }

    /// The record of a finished call, if there is one.
    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>>;
}

/// Why a store takes no further records at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordsRefused {
    /// Records of answered calls wait for a store that does not take them, for too long or too many. No further call is answered.
    Waiting(String),
    /// The room that is left is for calls that change something and are under way. No further read is answered.
    NoRoom(String),
}

/// The store could not store a record.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the journal could not store the record: {reason}")]
pub struct JournalError {
    reason: String,
    leaves_doubt: bool,
    is_bad_content: bool,
}

impl JournalError {
    /// Nothing was stored.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: false, is_bad_content: false }
    }

    /// Nothing was stored, because of the content that was handed in or of the row it is about. The store
    /// itself works.
    pub fn bad_content(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: false, is_bad_content: true }
    }

    /// It is not known whether the store stored it.
    pub fn in_doubt(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: true, is_bad_content: false }
    }

    /// Whether the content is at fault and the store itself works.
    pub const fn is_bad_content(&self) -> bool {
        self.is_bad_content
    }

    /// Whether it may have been stored in spite of the error.
    pub const fn leaves_doubt(&self) -> bool {
        self.leaves_doubt
    }

    /// Why.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
