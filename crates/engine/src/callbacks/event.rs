//! The events: that a call ended, and how. They never contain the call's arguments or its answer. Golden files fix their shape.

use serde::Serialize;
use servanda_contract::{
    CallRecord, TaxonomyClass, Timestamp,
    record::{ContractReference, Outcome},
};
use servanda_effects::effect::{Effect, EffectEnding, EffectWaitReason};

/// An event that is not sent yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallbackEvent {
    /// The same for every attempt. It contains no full stop.
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) at: Timestamp,
    pub(super) body: String,
}

#[derive(Serialize)]
struct CallbackEventBody<'a> {
    r#type: &'a str,
    timestamp: String,
    data: CallbackEventData<'a>,
}

/// The members in the order in which they are written.
#[derive(Serialize)]
struct CallbackEventData<'a> {
    call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    tool: &'a str,
    contract: Option<CallbackEventContract<'a>>,
    outcome: &'a str,
    class: Option<&'a str>,
    received_at: String,
    finished_at: String,
    answer_digest: Option<String>,
}

#[derive(Serialize)]
struct CallbackEventContract<'a> {
    name: &'a str,
    version: &'a str,
}

/// The name of an end, as configurations write it.
pub(super) const fn ending_word(ending: EffectEnding) -> &'static str {
    match ending {
        EffectEnding::Completed => "completed",
        EffectEnding::Failed => "failed",
        EffectEnding::Unknown => "unknown",
    }
}

const fn event_type(ending: EffectEnding) -> &'static str {
    match ending {
        EffectEnding::Completed => "call.completed",
        EffectEnding::Failed => "call.failed",
        EffectEnding::Unknown => "call.outcome_unknown",
    }
}

/// Which end an outcome is for the receivers of callbacks; none if the call has not ended or never began.
pub(super) const fn ending_of_outcome(outcome: Outcome) -> Option<EffectEnding> {
    match outcome {
        Outcome::Completed => Some(EffectEnding::Completed),
        Outcome::ToolError | Outcome::NotExecuted | Outcome::Quarantined => Some(EffectEnding::Failed),
        Outcome::Unknown => Some(EffectEnding::Unknown),
        Outcome::Refused
        | Outcome::Dispatching
        | Outcome::InputRequired
        | Outcome::TaskCreated
        | Outcome::Replayed
        | Outcome::Previewed => None,
    }
}

/// The event for a call whose end is being recorded. The ending may be unknown although the record says otherwise, because the store
/// knows more.
pub(super) fn from_record(record: &CallRecord, ending: EffectEnding, now: Timestamp) -> CallbackEvent {
    let at = record.finished_at.unwrap_or(now);
    let own = self::ending_of_outcome(record.outcome) == Some(ending);
    let data = CallbackEventData {
        call_id: record.call_id.as_str(),
        continues: record.continues.as_ref().map(servanda_contract::CallId::as_str),
        effect_id: record.effect_id.as_deref(),
        task_id: record.task_id.as_deref(),
        tool: &record.tool,
        contract: record
            .contract
            .as_deref()
            .map(|ContractReference { name, version, .. }| CallbackEventContract { name, version }),
        outcome: if own { record.outcome.name() } else { Outcome::Unknown.name() },
        class: record.class.map(TaxonomyClass::name),
        received_at: record.received_at.to_string(),
        finished_at: at.to_string(),
        answer_digest: record.answer_digest.as_ref().map(ToString::to_string),
    };
    build_event(ending, at, data)
}

/// The event for an end that only the effect tells, because recovery or a person settled it.
pub(super) fn from_effect(effect: &Effect, ending: EffectEnding, now: Timestamp) -> CallbackEvent {
    let outcome = match ending {
        EffectEnding::Completed => Outcome::Completed,
        EffectEnding::Failed => Outcome::NotExecuted,
        EffectEnding::Unknown => Outcome::Unknown,
    };
    let data = CallbackEventData {
        call_id: effect.call_id.as_str(),
        continues: None,
        effect_id: Some(effect.id.as_str()),
        task_id: match &effect.awaits {
            Some(EffectWaitReason::Task(id)) => Some(id),
            _ => None,
        },
        tool: &effect.order.exposed_tool,
        contract: Some(CallbackEventContract { name: &effect.key.tool, version: &effect.order.contract_version }),
        outcome: outcome.name(),
        class: None,
        received_at: Timestamp::from_unix_ms(effect.created_ms).to_string(),
        finished_at: now.to_string(),
        answer_digest: None,
    };
    build_event(ending, now, data)
}

fn build_event(ending: EffectEnding, at: Timestamp, data: CallbackEventData<'_>) -> CallbackEvent {
    let id = format!("msg_{}_{}", data.call_id, ending_word(ending));
    let kind = event_type(ending);
    let body = CallbackEventBody { r#type: kind, timestamp: at.to_string(), data };
    CallbackEvent { id, kind, at, body: servanda_mcp::envelope::to_json(&body) }
}

/// The body of an event that only says that it is a test.
pub(super) fn test_body(now: Timestamp) -> String {
    let body = serde_json::json!({ "type": "servanda.test", "timestamp": now.to_string(), "data": {} });
    body.to_string()
}
