//! Lists of calls, for every store alike: which calls a filter matches, what a list contains, and how far back
//! a list looks.
//!
//! The conditions are judged here, on the record. Most of them have a term in the index that pages use, which finds the records
//! (`reader/indexed`). A list by the others reads records newest first, by the index of their times. Either stops after
//! [`LOOKED_AT_MAX`] records and says so.

use std::{collections::BTreeSet, ops::ControlFlow};

use servanda_contract::{
    CallId, CallRecord, GateName, TaxonomyClass,
    record::{CallSummary, Outcome},
};

use servanda_effects::call_history::{HISTORY_PAGE_MAX, HistoryQuery};

use crate::{call_index::has_term, codec::signed};

/// Records that one list looks at.
pub const LOOKED_AT_MAX: u32 = 50_000;
/// Records that a store reads at once.
pub(crate) const PAGE_MAX: u32 = 500;
/// Calls under way that a list looks at.
pub(crate) const UNDER_WAY_MAX: u32 = 10_000;

/// Which calls to list. Every condition that is set has to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// `principal`, `tenant/principal`, the name of an agent that acted, or the id of a credential.
    pub caller: Option<String>,
    /// The exposed name as called, or the contract's name.
    pub tool: Option<String>,
    /// How the call ended.
    pub outcome: Option<Outcome>,
    /// The taxonomy class of its end.
    pub class: Option<TaxonomyClass>,
    /// The stage that refused it.
    pub gate: Option<GateName>,
    /// The session that it belongs to, as its record names it.
    pub run: Option<String>,
    /// Its W3C trace id.
    pub trace: Option<String>,
    /// Not received before this time, in milliseconds since the epoch.
    pub since_ms: Option<u64>,
    /// Not received after this time.
    pub until_ms: Option<u64>,
}

/// The calls that a filter matches, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallList {
    /// The calls.
    pub calls: Vec<CallSummary>,
    /// Set if the list stopped at [`LOOKED_AT_MAX`] before it was complete: when the oldest record it looked at
    /// was received.
    pub stopped_at_ms: Option<u64>,
}

/// A time range, both ends included, as stores count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedRange {
    pub(crate) since_ms: i64,
    pub(crate) until_ms: i64,
}

/// Where the next page begins: after this call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallListCursor {
    pub(crate) received_ms: i64,
    pub(crate) call_id: String,
}

impl CallFilter {
    /// Whether a call matches the filter.
    pub fn matches(&self, record: &CallRecord) -> bool {
        let received_ms = record.received_at.unix_ms();
        let tool = |name: &String| {
            *name == record.tool || record.contract.as_ref().is_some_and(|contract| contract.name == *name)
        };
        self.since_ms.is_none_or(|since| received_ms >= since)
            && self.until_ms.is_none_or(|until| received_ms <= until)
            && self.outcome.is_none_or(|outcome| record.outcome == outcome)
            && self.class.is_none_or(|class| record.class == Some(class))
            && self.gate.is_none_or(|gate| record.refused_at() == Some(gate))
            && self.tool.as_ref().is_none_or(tool)
            && self.run.as_ref().is_none_or(|run| record.caller.session.as_ref() == Some(run))
            && self.trace.as_ref().is_none_or(|trace| record.trace_id == *trace)
            && self.caller.as_ref().is_none_or(|caller| is_caller(record, caller))
    }

    /// Whether the index has a term for one of the conditions. It has none for a credential, a run, a trace and a contract's name.
    pub(crate) fn has_terms(&self) -> bool {
        self.caller.is_some()
            || self.tool.is_some()
            || self.outcome.is_some()
            || self.gate.is_some()
            || self.class.is_some_and(has_term)
    }

    /// What the index is asked to find every call that matches. A caller with a slash is a name, or a tenant and its user.
    pub(crate) fn queries(&self, tenants: &[String]) -> Vec<HistoryQuery> {
        let mut queries = Vec::new();
        for tenant in tenants {
            let of_tenant = HistoryQuery {
                tenant: tenant.clone(),
                tool: self.tool.clone(),
                outcome: self.outcome,
                class: self.class,
                gate: self.gate,
                since_ms: self.since_ms,
                until_ms: self.until_ms,
                limit: HISTORY_PAGE_MAX,
                ..HistoryQuery::default()
            };
            let Some(caller) = &self.caller else {
                queries.push(of_tenant);
                continue;
            };
            let user = caller.split_once('/').filter(|(of, _)| of == tenant);
            queries
                .extend(user.map(|(_, user)| HistoryQuery { principal: Some(user.to_owned()), ..of_tenant.clone() }));
            queries.push(HistoryQuery { caller: Some(caller.clone()), ..of_tenant });
        }
        queries
    }

    pub(crate) fn span(&self) -> ReceivedRange {
        ReceivedRange {
            since_ms: self.since_ms.map_or(i64::MIN, signed),
            until_ms: self.until_ms.map_or(i64::MAX - 1, signed).min(i64::MAX - 1),
        }
    }
}

impl CallListCursor {
    /// Starts before the newest call of a range.
    pub(crate) fn start(span: ReceivedRange) -> Self {
        Self { received_ms: span.until_ms.saturating_add(1), call_id: String::new() }
    }

    /// Starts after a call.
    pub(crate) fn after_call(record: &CallRecord) -> Self {
        Self { received_ms: signed(record.received_at.unix_ms()), call_id: record.call_id.to_string() }
    }
}

/// The newest of the calls under way and the calls that have ended. Those under way were read first, so a call
/// that ended in between is in both lists.
pub(crate) fn newest(under_way: Vec<CallRecord>, ended: Vec<CallRecord>, limit: u32) -> Vec<CallRecord> {
    let over: BTreeSet<CallId> = ended.iter().map(|record| record.call_id.clone()).collect();
    let mut calls = ended;
    calls.extend(under_way.into_iter().filter(|record| !over.contains(&record.call_id)));
    calls.sort_by(|one, two| (two.received_at, &two.call_id).cmp(&(one.received_at, &one.call_id)));
    calls.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    calls
}

/// Collects a list from records that come newest first.
#[derive(Debug)]
pub(crate) struct CallCollector<'a> {
    filter: &'a CallFilter,
    limit: usize,
    calls: Vec<CallSummary>,
    under_way: BTreeSet<String>,
}

impl<'a> CallCollector<'a> {
    /// Begins with the calls under way. They were read first, so a call that has ended since is found again
    /// among the ended ones.
    pub(crate) fn new(filter: &'a CallFilter, limit: u32, under_way: &[CallRecord]) -> Self {
        let calls: Vec<_> =
            under_way.iter().filter(|record| filter.matches(record)).map(CallSummary::from_record).collect();
        let ids = calls.iter().map(|call| call.call_id.clone()).collect();
        Self { filter, limit: usize::try_from(limit).unwrap_or(usize::MAX), calls, under_way: ids }
    }

    /// Takes a record that comes after all newer ones; breaks when the list is full.
    pub(crate) fn take(&mut self, record: &CallRecord) -> ControlFlow<()> {
        self.add(record);
        // Calls under way may be older than all others; then they are the ones cut off below.
        let ended = self.calls.len().saturating_sub(self.under_way.len());
        if ended < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Takes a record in any order. Returns whether it matches.
    pub(crate) fn add(&mut self, record: &CallRecord) -> bool {
        if self.under_way.remove(record.call_id.as_str()) {
            self.calls.retain(|call| call.call_id != record.call_id.as_str());
        }
        let matches = self.filter.matches(record);
        if matches {
            self.calls.push(CallSummary::from_record(record));
        }
        matches
    }

    /// How many calls that have ended are still wanted.
    pub(crate) fn wanted(&self) -> usize {
        self.limit.saturating_sub(self.calls.len().saturating_sub(self.under_way.len()))
    }

    /// Leaves out calls that have ended and were received before this: not all of them were looked for.
    pub(crate) fn leave_out_before(&mut self, received_ms: u64) {
        let Self { calls, under_way, .. } = self;
        calls.retain(|call| call.received_ms >= received_ms || under_way.contains(&call.call_id));
    }

    pub(crate) fn finish(self, stopped_at_ms: Option<u64>) -> CallList {
        let Self { limit, mut calls, .. } = self;
        calls.sort_by(|one, two| (two.received_ms, &two.call_id).cmp(&(one.received_ms, &one.call_id)));
        // Two readings of a caller's name may find the same call.
        calls.dedup_by(|one, two| one.call_id == two.call_id);
        calls.truncate(limit);
        CallList { calls, stopped_at_ms }
    }
}

fn is_caller(record: &CallRecord, wanted: &str) -> bool {
    let caller = &record.caller;
    caller.principal == wanted
        || wanted.split_once('/').is_some_and(|(tenant, name)| caller.tenant == tenant && caller.principal == name)
        || caller.actors.iter().any(|actor| actor.name == wanted)
        // A call that the operator made on behalf of a key counts as a call of that key.
        || caller.credential.as_deref().is_some_and(|id| id.strip_prefix("operator:").unwrap_or(id) == wanted)
}
