//! The port through which pages read the records of calls: a page of a list, one call, and counts by minute and hour.
//!
//! A list goes by the time at which calls were received, newest first, and continues from a position instead of counting rows. Every list
//! is of one tenant. A store looks at a bounded number of records for a page; when it stops there, the page says so and where to go on.
//!
//! Deliberately not here: writing records, which is the [`Journal`](crate::Journal)'s, and how a store finds what it lists.

mod counts;
mod in_memory;
mod query;

use std::fmt;

use servanda_contract::CallRecord;

use crate::{JournalError, PortFuture};

pub use counts::{CallCount, CallCountKey, CallMeasure, CountWidth, CountsQuery, LatencyBucket, counted, measured};
pub use in_memory::InMemoryCallHistory;
pub use query::{HISTORY_PAGE_MAX, HistoryPage, HistoryPosition, HistoryQuery, has_searched_text};

/// Reads the records of calls. Implemented by the ledger.
pub trait CallHistory: Send + Sync + fmt::Debug {
    /// Calls that have ended, newest first.
    fn list_calls(&self, query: HistoryQuery) -> PortFuture<'_, Result<HistoryPage, JournalError>>;

    /// Calls that are under way and match, newest first; at most the query's limit. Its position does not count.
    fn calls_under_way(&self, query: HistoryQuery) -> PortFuture<'_, Result<Vec<CallRecord>, JournalError>>;

    /// One call of a tenant, ended or under way.
    fn find_call(&self, tenant: String, call_id: String) -> PortFuture<'_, Result<Option<CallRecord>, JournalError>>;

    /// Counts of a tenant's calls, in the order of their times.
    fn call_counts(&self, query: CountsQuery) -> PortFuture<'_, Result<Vec<CallCount>, JournalError>>;
}
