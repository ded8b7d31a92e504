//! A held task in the form of either era. A client that can show a page is asked, while the task waits, to send its person to the ticket's
//! page; what it answers decides nothing.

use std::sync::Arc;

use serde_json::{Map, Value, json, value::RawValue};
use servanda_approval::{Ticket, TicketState};
use servanda_contract::{
    Observation, Refusal, Timestamp,
    observation::{ObservationContext, Verification},
};
use servanda_mcp::{
    Era, RpcError,
    envelope::{code, to_json},
    fields::{member as field, method},
};

use super::{
    super::task,
    note::{HeldTaskEnd, HeldTaskEnding},
    view::{HeldTaskStanding, HeldTaskView},
};
use crate::{
    answers::{approvals as words, tool_result},
    client::{ChangeEvent, Requester},
    core::Core,
    task_shape::{add_related_task, with_members},
    world::WorldSnapshot,
};

/// How often a client should ask while people decide.
const POLL_MS: u64 = 2_000;

/// The answer to the call that became the task, without `resultType`.
pub(super) fn created(seen: &HeldTaskView, era: Era) -> String {
    let message = words::held_as_task(&seen.note.tool, &seen.note.ticket);
    let task = Value::Object(members(seen, era, ("working", Some(message)), seen.note.created_at));
    match era {
        Era::Modern => task.to_string(),
        Era::Legacy => json!({ field::TASK: task }).to_string(),
    }
}

/// The state of the task, as `tasks/get` answers it.
pub(super) fn state(seen: &HeldTaskView, snapshot: &WorldSnapshot, requester: &Requester) -> String {
    let era = requester.era;
    match &seen.standing {
        HeldTaskStanding::Begun(work) => task::state(snapshot, work, era),
        HeldTaskStanding::Ended(end) => ended(seen, end, era),
        HeldTaskStanding::Waiting(ticket) => waiting(seen, ticket.as_deref(), snapshot, requester),
    }
}

/// The answer that the call would have got, as `tasks/result` answers it, of a task that ended without an effect.
pub(super) fn result(seen: &HeldTaskView, end: &HeldTaskEnd) -> String {
    let json = match &end.how {
        HeldTaskEnding::Answered(result) => result.clone(),
        HeldTaskEnding::Refused(refusal) => refused(seen, end.at, (**refusal).clone()),
        HeldTaskEnding::Cancelled => refused(seen, end.at, words::withdrawn(&seen.note.call_id, &seen.note.tool)),
    };
    add_related_task(&json, &seen.id)
}

/// Announces the state of the task to its listeners, to each in the form of its era.
pub(super) fn announce(core: &Arc<Core>, seen: &HeldTaskView) {
    let snapshot = core.snapshot();
    for era in [Era::Modern, Era::Legacy] {
        let anyone = Requester { era, ..Requester::local() };
        let Ok(params) = RawValue::from_string(state(seen, &snapshot, &anyone)) else { continue };
        core.announce(ChangeEvent::Task {
            owner: Arc::clone(&seen.note.caller),
            task_id: seen.id.as_str().into(),
            params: params.into(),
        });
    }
}

fn waiting(seen: &HeldTaskView, ticket: Option<&Ticket>, snapshot: &WorldSnapshot, requester: &Requester) -> String {
    let (note, era) = (&seen.note, requester.era);
    let Some(ticket) = ticket else {
        let message = words::held_as_task(&note.tool, &note.ticket);
        return Value::Object(members(seen, era, ("working", Some(message)), note.created_at)).to_string();
    };
    let changed_at = Timestamp::from_unix_ms(ticket.changed_ms);
    let console_url = snapshot.authorities.approvals().console_url.as_deref();
    let message = words::waiting_status(&note.tool, ticket, console_url);
    let is_pending = ticket.state == TicketState::Pending;
    let question = console_url.filter(|_| is_pending && era == Era::Modern && !note.was_sent_to_page);
    let question = question.and_then(|url| words::page_question(&note.tool, ticket, url));
    let question = question.filter(|params| requester.capabilities.answers(method::ELICITATION_CREATE, Some(params)));
    let status = if question.is_some() { "input_required" } else { "working" };
    let task = Value::Object(members(seen, era, (status, Some(message)), changed_at)).to_string();
    let Some(params) = question else { return task };
    let (questions, ask) = (field::INPUT_REQUESTS, method::ELICITATION_CREATE);
    with_members(&task, &format!(r#""{questions}":{{"approval":{{"method":"{ask}","params":{}}}}}"#, params.get()))
}

fn ended(seen: &HeldTaskView, end: &HeldTaskEnd, era: Era) -> String {
    let of = |status: &str, message: Option<String>| {
        Value::Object(members(seen, era, (status, message), end.at)).to_string()
    };
    match (&end.how, era) {
        (HeldTaskEnding::Cancelled, _) => of("cancelled", Some("it was cancelled, and nothing was sent".to_owned())),
        (HeldTaskEnding::Refused(refusal), Era::Legacy) => of("failed", Some(refusal.message.clone())),
        (HeldTaskEnding::Refused(refusal), Era::Modern) => {
            let error = RpcError::new(code::INTERNAL_ERROR, refusal.message.clone()).with_data(&**refusal);
            with_members(&of("failed", Some(refusal.message.clone())), &format!(r#""error":{}"#, to_json(&error)))
        }
        (HeldTaskEnding::Answered(result), Era::Legacy) => {
            of(if task::is_error(result.as_bytes()) { "failed" } else { "completed" }, None)
        }
        (HeldTaskEnding::Answered(result), Era::Modern) => {
            with_members(&of("completed", None), &format!(r#""result":{}"#, task::with_type(result)))
        }
    }
}

fn refused(seen: &HeldTaskView, at: Timestamp, refusal: Refusal) -> String {
    let note = &seen.note;
    let occasion = ObservationContext {
        tool: &note.contract,
        version: &note.contract_version,
        call_id: &note.call_id,
        received_at: note.created_at,
        finished_at: at,
        trace_id: &note.trace_id,
        attempt_number: 1,
        grant: None,
        idempotency_hit: false,
    };
    let observation = Observation::from_refusal(&occasion, &refusal, Verification::none());
    tool_result::from_refusal(refusal, observation).json
}

fn members(
    seen: &HeldTaskView,
    era: Era,
    (status, message): (&str, Option<String>),
    changed_at: Timestamp,
) -> Map<String, Value> {
    let note = &seen.note;
    let (ttl, poll) = match era {
        Era::Modern => ("ttlMs", "pollIntervalMs"),
        Era::Legacy => ("ttl", "pollInterval"),
    };
    let mut task = Map::new();
    task.insert(field::TASK_ID.to_owned(), json!(seen.id));
    task.insert("status".to_owned(), json!(status));
    task.extend(message.map(|message| ("statusMessage".to_owned(), json!(message))));
    task.insert("createdAt".to_owned(), json!(note.created_at.to_string()));
    task.insert("lastUpdatedAt".to_owned(), json!(changed_at.max(note.created_at).to_string()));
    task.insert(ttl.to_owned(), json!(note.expires_at.since_ms(note.created_at)));
    task.insert(poll.to_owned(), json!(POLL_MS));
    task
}
