//! Records of calls in memory, for tests and examples: nothing outlives the process, and every list looks at every record.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use servanda_contract::{CallRecord, record::Outcome};

use super::{CallCount, CallCountKey, CallHistory, CountsQuery, HistoryPage, HistoryPosition, HistoryQuery, counted};
use crate::{Journal, JournalError, PortFuture};

/// Records in memory, by the place of their calls in the list.
#[derive(Debug, Default)]
pub struct InMemoryCallHistory {
    records: Mutex<BTreeMap<HistoryPosition, CallRecord>>,
}

impl InMemoryCallHistory {
    fn records(&self) -> MutexGuard<'_, BTreeMap<HistoryPosition, CallRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self, query: &HistoryQuery) -> HistoryPage {
        let records = self.records();
        let is_over = |record: &&CallRecord| record.outcome != Outcome::Dispatching;
        let mut found = records.values().rev().filter(is_over).filter(|record| query.is_on_page(record));
        let calls: Vec<CallRecord> = found.by_ref().take(query.page_max()).cloned().collect();
        let next = found.next().and(calls.last()).map(HistoryPosition::of);
        HistoryPage { calls, next, stopped_early: false }
    }

    fn counts(&self, query: &CountsQuery) -> Vec<CallCount> {
        let mut sums: BTreeMap<CallCountKey, u64> = BTreeMap::new();
        for (key, amount) in self.records().values().flat_map(counted) {
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(amount);
        }
        let is_asked = |key: &CallCountKey| {
            key.tenant == query.tenant
                && key.width == query.width
                && (query.from_ms..query.until_ms).contains(&key.start_ms)
        };
        let asked = sums.into_iter().filter(|(key, _)| is_asked(key));
        asked.map(|(key, amount)| CallCount { start_ms: key.start_ms, measure: key.measure, amount }).collect()
    }
}

impl Journal for InMemoryCallHistory {
    fn record_finished(
        &self,
        record: CallRecord,
        _: Option<Bytes>,
        _: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        self.records().insert(HistoryPosition::of(&record), record);
        Box::pin(async { Ok(()) })
    }

    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        let found = self.records().values().find(|record| record.call_id.as_str() == call_id).cloned();
        Box::pin(async { Ok(found) })
    }
}

impl CallHistory for InMemoryCallHistory {
    fn list_calls(&self, query: HistoryQuery) -> PortFuture<'_, Result<HistoryPage, JournalError>> {
        Box::pin(async move { Ok(self.page(&query)) })
    }

    fn calls_under_way(&self, query: HistoryQuery) -> PortFuture<'_, Result<Vec<CallRecord>, JournalError>> {
        let records = self.records();
        let under_way = records.values().rev().filter(|record| record.outcome == Outcome::Dispatching);
        let found: Vec<CallRecord> =
            under_way.filter(|record| query.matches(record)).take(query.page_max()).cloned().collect();
        Box::pin(async { Ok(found) })
    }

    fn find_call(&self, tenant: String, call_id: String) -> PortFuture<'_, Result<Option<CallRecord>, JournalError>> {
        let records = self.records();
        let mut found = records.values().filter(|record| record.call_id.as_str() == call_id);
        let found = found.find(|record| record.caller.tenant == tenant).cloned();
        Box::pin(async { Ok(found) })
    }

    fn call_counts(&self, query: CountsQuery) -> PortFuture<'_, Result<Vec<CallCount>, JournalError>> {
        Box::pin(async move { Ok(self.counts(&query)) })
    }
}
