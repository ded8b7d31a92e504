//! Trace context of calls: the caller's trace if it sent a valid one, else a new one; and what an upstream is told.

use servanda_contract::{
    CallRecord,
    trace::{self, ParentSpan, TraceStanding},
    unique,
};

use crate::core::Core;

/// The id of the trace that the caller named, else a new one.
pub(crate) fn trace_id(trace_parent: Option<&str>) -> String {
    trace_parent.and_then(trace::trace_id).map_or_else(new_trace_id, str::to_owned)
}

pub(crate) fn new_trace_id() -> String {
    unique::random().simple().to_string()
}

/// Where a call of that caller's context stands.
pub(crate) fn standing(trace_parent: Option<&str>) -> TraceStanding {
    TraceStanding { parent: trace_parent.and_then(ParentSpan::parse), is_sequel: false }
}

/// The `traceparent` for the upstream of a call: the call's own client span if calls are traced, else what the caller sent, as W3C asks of
/// those who take no part in a trace.
pub(crate) fn trace_parent_for_upstream(core: &Core, record: &CallRecord, received: Option<String>) -> Option<String> {
    let Some(is_sampled) = core.observer.get().and_then(|observer| observer.samples_trace(&record.trace_id)) else {
        return received;
    };
    let parent = record.trace.parent;
    Some(trace::trace_parent_for_upstream(&record.trace_id, &record.call_id, parent, is_sampled))
}
