//! Long work as a task, in the form of either era.

use std::sync::Arc;

use serde_json::{Map, Value, json, value::RawValue};
use servanda_contract::{
    Observation, Timestamp,
    observation::{ObservationContext, Verification},
};
use servanda_effects::effect::{EffectId, EffectState};
use servanda_mcp::{
    Era, RpcError,
    envelope::{code, to_json},
    fields::{member as field, result_type},
};

use super::{
    LongWorkView,
    view::{self, LongWorkEnd},
};
use crate::{
    answers::{observe, tool_result},
    client::ChangeEvent,
    core::Core,
    task_shape::{add_related_task, with_members},
    trace,
    world::{Exposure, WorldSnapshot},
};

/// The limits of the interval at which a requester should ask.
const POLL_MS: (u64, u64) = (500, 5_000);

/// The answer to the call that began the work, without `resultType`.
pub(super) fn created(seen: &LongWorkView, era: Era) -> String {
    let task = Value::Object(members(seen, era, "working", None));
    match era {
        Era::Modern => task.to_string(),
        Era::Legacy => json!({ field::TASK: task }).to_string(),
    }
}

/// The state of the work, as `tasks/get` answers it.
pub(crate) fn state(snapshot: &WorldSnapshot, seen: &LongWorkView, era: Era) -> String {
    let Some(ended) = seen.end(snapshot) else {
        return Value::Object(members(seen, era, "working", working(seen))).to_string();
    };
    let message = after_cancellation(seen);
    match (ended, era) {
        _ if seen.is_cancelled() => {
            let why = seen.effect.reason.clone();
            Value::Object(members(seen, era, "cancelled", why)).to_string()
        }
        (LongWorkEnd::Result(result), Era::Legacy) => {
            let failed = seen.effect.state == EffectState::FailedFinal || is_error(&result);
            Value::Object(members(seen, era, if failed { "failed" } else { "completed" }, message)).to_string()
        }
        (LongWorkEnd::Result(result), Era::Modern) => {
            let task = Value::Object(members(seen, era, "completed", message)).to_string();
            let result = with_type(&rendered(seen, snapshot, &result));
            with_members(&task, &format!(r#""result":{result}"#))
        }
        (LongWorkEnd::Refused(refusal), Era::Legacy) => {
            Value::Object(members(seen, era, "failed", Some(refusal.message))).to_string()
        }
        (LongWorkEnd::Refused(refusal), Era::Modern) => {
            let task = Value::Object(members(seen, era, "failed", Some(refusal.message.clone()))).to_string();
            let error = RpcError::new(code::INTERNAL_ERROR, refusal.message.clone()).with_data(&refusal);
            with_members(&task, &format!(r#""error":{}"#, to_json(&error)))
        }
    }
}

/// The answer that the call would have got, as `tasks/result` answers it; none while the work is under way.
pub(super) fn result(seen: &LongWorkView, snapshot: &WorldSnapshot) -> Option<String> {
    let json = match seen.end(snapshot)? {
        LongWorkEnd::Result(result) => rendered(seen, snapshot, &result),
        LongWorkEnd::Refused(refusal) => {
            let trace_id = trace::new_trace_id();
            let observation = Observation::from_refusal(&seen.occasion(&trace_id), &refusal, Verification::none());
            tool_result::from_refusal(*refusal, observation).json
        }
    };
    Some(add_related_task(&json, seen.task_id()))
}

/// Announces the state of the work to its listeners, to each in the form of its era.
pub(super) async fn announce(core: &Arc<Core>, id: &EffectId) {
    if core.change_events.receiver_count() == 0 {
        return;
    }
    let Some(seen) = view::view_by_id(core, id).await else { return };
    let (snapshot, owner) = (core.snapshot(), Arc::new(seen.effect.caller()));
    for era in [Era::Modern, Era::Legacy] {
        let Ok(params) = RawValue::from_string(state(&snapshot, &seen, era)) else { continue };
        core.announce(ChangeEvent::Task {
            owner: Arc::clone(&owner),
            task_id: id.as_str().into(),
            params: params.into(),
        });
    }
}

fn members(seen: &LongWorkView, era: Era, status: &str, message: Option<String>) -> Map<String, Value> {
    let (effect, order) = (&seen.effect, &seen.effect.order);
    let updated_ms = seen.progress.as_ref().map_or(0, |said| said.at_ms).max(effect.changed_ms);
    let (least, most) = POLL_MS;
    let (ttl, poll) = match era {
        Era::Modern => ("ttlMs", "pollIntervalMs"),
        Era::Legacy => ("ttl", "pollInterval"),
    };
    let mut task = Map::new();
    task.insert(field::TASK_ID.to_owned(), json!(seen.task_id()));
    task.insert("status".to_owned(), json!(status));
    task.extend(message.map(|message| ("statusMessage".to_owned(), json!(message))));
    task.insert("createdAt".to_owned(), json!(Timestamp::from_unix_ms(effect.created_ms).to_string()));
    task.insert("lastUpdatedAt".to_owned(), json!(Timestamp::from_unix_ms(updated_ms).to_string()));
    task.insert(ttl.to_owned(), json!(order.timeout_ms.saturating_add(order.dedup_window_ms)));
    task.insert(poll.to_owned(), json!((order.timeout_ms / 100).clamp(least, most)));
    task
}

fn working(seen: &LongWorkView) -> Option<String> {
    let said = seen.progress.as_ref().map(super::WorkProgress::in_words).filter(|words| !words.is_empty());
    let asked = seen.cancel_asked.then(|| {
        "a cancellation was asked for and passed on; the work may still be done, and its end will be reported"
            .to_owned()
    });
    let parts: Vec<String> = asked.into_iter().chain(said).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn after_cancellation(seen: &LongWorkView) -> Option<String> {
    seen.cancel_asked.then(|| "a cancellation was asked for; this is how the work ended".to_owned())
}

/// The result as the caller would have got it.
fn rendered(seen: &LongWorkView, snapshot: &WorldSnapshot, result: &bytes::Bytes) -> String {
    let plain = || String::from_utf8_lossy(result).into_owned();
    let Some(contract) = seen.contract(snapshot) else { return plain() };
    let Ok(observed) = observe::observe(&contract, result) else { return plain() };
    let trace_id = trace::new_trace_id();
    let occasion: ObservationContext<'_> = seen.occasion(&trace_id);
    let mut observation =
        tool_result::observation(&occasion, &observed, tool_result::verification(contract.contract()));
    observation.status.retryable &= !seen.effect.class.mutates();
    let exposure = Exposure { naming: snapshot.naming, upstream: &seen.effect.order.upstream };
    tool_result::from_answer(&observed, observation, exposure, result.len()).json
}

pub(super) fn with_type(json: &str) -> String {
    with_members(json, &format!(r#""{}":"{}""#, field::RESULT_TYPE, result_type::COMPLETE))
}

pub(super) fn is_error(result: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct IsErrorFlag {
        #[serde(default)]
        is_error: bool,
    }
    serde_json::from_slice::<IsErrorFlag>(result).is_ok_and(|flag| flag.is_error)
}
