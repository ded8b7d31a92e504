//! The spans of a finished call: the call, each of its stages, and the call at its upstream, which is the stage `perform`.
//!
//! A record has the moments of its call in milliseconds and the stages' durations in microseconds. Stages follow each other from the moment
//! the call was received.

use servanda_contract::{
    CallRecord, GateName, Timestamp,
    record::{Decision, Verdict},
    trace::{CallSpan, SpanId},
};

use super::{
    attributes::{self, short},
    names,
    otlp::{OtlpSpan, OtlpSpanKind, OtlpStatus, OtlpStatusCode},
};

const NS_A_MS: u64 = 1_000_000;
const NS_A_US: u64 = 1_000;

/// When something began and ended, in nanoseconds of Unix time.
#[derive(Debug, Clone, Copy)]
struct SpanTime {
    start: u64,
    end: u64,
}

/// The spans of a call, the whole call first.
pub(super) fn spans_of(record: &CallRecord) -> Vec<OtlpSpan> {
    let Some(trace_id) = trace_id_bytes(&record.trace_id) else { return Vec::new() };
    let of_trace = |span: OtlpSpan| OtlpSpan { trace_id: trace_id.to_vec(), ..span };
    if record.trace.is_sequel {
        return vec![of_trace(sequel(record))];
    }
    let server = SpanId::of_call(&record.call_id, CallSpan::Server);
    let mut spans = vec![whole_call(record)];
    let mut at = ns(record.received_at);
    for (position, verdict) in record.verdicts.iter().enumerate() {
        let time = SpanTime { start: at, end: at.saturating_add(verdict.took_us.saturating_mul(NS_A_US)) };
        at = time.end;
        spans.push(match verdict.gate {
            GateName::Perform => at_upstream(record, server, time),
            _ => stage(record, verdict, position, server, time),
        });
    }
    spans.extend(unjudged_dispatch(record).map(|time| at_upstream(record, server, time)));
    spans.into_iter().map(of_trace).collect()
}

/// How many spans a call has, without making them.
pub(super) fn span_count(record: &CallRecord) -> usize {
    if record.trace.is_sequel {
        return 1;
    }
    1 + record.verdicts.len() + usize::from(unjudged_dispatch(record).is_some())
}

fn whole_call(record: &CallRecord) -> OtlpSpan {
    // An answer that came late is reported by the gateway itself, below the call that it answers.
    let is_late = record.is_late_answer();
    let first = record.continues.as_ref().filter(|_| is_late);
    let parent = match first {
        Some(first) => Some(SpanId::of_call(first, CallSpan::Server)),
        None => record.trace.parent.map(|parent| parent.id),
    };
    OtlpSpan {
        kind: if is_late { OtlpSpanKind::Internal } else { OtlpSpanKind::Server }.into(),
        ..of_record(record, SpanId::of_call(&record.call_id, CallSpan::Server), parent)
    }
}

/// The end of a task, below the call that became the task.
fn sequel(record: &CallRecord) -> OtlpSpan {
    let parent = SpanId::of_call(&record.call_id, CallSpan::Server);
    OtlpSpan {
        kind: OtlpSpanKind::Internal.into(),
        ..of_record(record, SpanId::of_call(&record.call_id, CallSpan::Sequel), Some(parent))
    }
}

fn of_record(record: &CallRecord, id: SpanId, parent: Option<SpanId>) -> OtlpSpan {
    let start = ns(record.received_at);
    let judged = record.verdicts.iter().map(|verdict| verdict.took_us.saturating_mul(NS_A_US));
    let judged = judged.fold(start, u64::saturating_add);
    // The moments are cut to milliseconds, and no stage ends after its call.
    let end = record.finished_at.map_or(start, ns).max(judged);
    OtlpSpan {
        attributes: attributes::of_call(record),
        status: attributes::status(record, attributes::is_error(record)),
        ..span(id, parent, call_name(&record.tool), SpanTime { start, end })
    }
}

fn stage(record: &CallRecord, verdict: &Verdict, position: usize, server: SpanId, time: SpanTime) -> OtlpSpan {
    let id = SpanId::of_call(&record.call_id, CallSpan::Stage(position));
    let word = match verdict.decision {
        Decision::Passed => "passed",
        Decision::Refused => "refused",
        Decision::Skipped => "skipped",
    };
    let is_refused = verdict.decision == Decision::Refused;
    OtlpSpan {
        kind: OtlpSpanKind::Internal.into(),
        attributes: attributes::of_stage(verdict, word),
        status: is_refused.then(|| OtlpStatus { message: String::new(), code: OtlpStatusCode::Error.into() }),
        ..span(id, Some(server), format!("servanda {}", verdict.gate), time)
    }
}

fn at_upstream(record: &CallRecord, server: SpanId, time: SpanTime) -> OtlpSpan {
    let id = SpanId::of_call(&record.call_id, CallSpan::Client);
    OtlpSpan {
        kind: OtlpSpanKind::Client.into(),
        attributes: attributes::at_upstream(record),
        status: attributes::status(record, attributes::is_upstream_error(record)),
        ..span(id, Some(server), call_name(attributes::upstream_tool(record)), time)
    }
}

/// When a call was at its upstream that was sent and has no verdict of that: one that is sent again after a crash. An answer that came late
/// was waited for by the call that it answers.
fn unjudged_dispatch(record: &CallRecord) -> Option<SpanTime> {
    let is_judged = record.verdicts.iter().any(|verdict| verdict.gate == GateName::Perform);
    let (start, end) = (record.dispatched_at.map(ns)?, record.finished_at.map(ns)?);
    (!is_judged && !record.is_late_answer()).then_some(SpanTime { start, end: end.max(start) })
}

fn span(id: SpanId, parent: Option<SpanId>, name: String, time: SpanTime) -> OtlpSpan {
    OtlpSpan {
        trace_id: Vec::new(),
        span_id: id.as_bytes().to_vec(),
        parent_span_id: parent.map(|parent| parent.as_bytes().to_vec()).unwrap_or_default(),
        name,
        kind: OtlpSpanKind::Unspecified.into(),
        start_time_unix_nano: time.start,
        end_time_unix_nano: time.end,
        attributes: Vec::new(),
        status: None,
    }
}

fn call_name(tool: &str) -> String {
    format!("{} {}", names::TOOLS_CALL, short(tool))
}

fn ns(moment: Timestamp) -> u64 {
    moment.unix_ms().saturating_mul(NS_A_MS)
}

fn trace_id_bytes(trace_id: &str) -> Option<[u8; 16]> {
    let number = (trace_id.len() == 32).then(|| u128::from_str_radix(trace_id, 16).ok())??;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests;
