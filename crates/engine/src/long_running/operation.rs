//! Operations whose contract says how to ask about them. The tool answers at once with an id, and a read-only tool of the same upstream
//! reports the state. The final state becomes the result that the contract promises, which is checked like any other.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use servanda_contract::{Caller, tool::PollPlan};
use servanda_gates::CompiledContract;
use servanda_mcp::{Era, RawObject};
use servanda_upstream::{Answer, PerformFailure};
use tokio::time::Instant;

use super::{follow::FollowedWork, note::SubmittedWorkId, poll_backoff::PollBackoff};
use crate::{
    answers::upstream_failure,
    internal_call::{self, InternalCall},
    random::random,
    world::WorldSnapshot,
};

/// How long one question to the status tool may take.
const ASK_MS_MAX: u64 = 30_000;

/// An operation, and how to ask about it.
pub(crate) struct PolledOperation<'a> {
    pub(crate) plan: &'a PollPlan,
    pub(crate) id: &'a Value,
    pub(crate) snapshot: &'a WorldSnapshot,
    /// The caller on whose behalf the status tool is asked.
    pub(crate) caller: &'a Arc<Caller>,
}

/// The state of an operation, as its status tool reports it.
#[derive(Debug, Clone, PartialEq)]
enum PolledOperationStatus {
    /// The operation is running; the state's name, if there is one.
    Running(Option<String>),
    Done(Value),
    Failed(String),
}

/// The contract's plan for asking, if it has one.
pub(crate) fn poll_plan(contract: &CompiledContract) -> Option<&PollPlan> {
    contract.contract().execution.as_ref()?.poll.as_ref()
}

/// Follows the operation that an upstream's answer names, until there is a result. An answer that reports a tool error is the end.
pub(crate) async fn follow_operation(
    followed: &FollowedWork<'_>,
    plan: &PollPlan,
    snapshot: &WorldSnapshot,
    caller: &Arc<Caller>,
    answer: Answer,
) -> Result<Answer, PerformFailure> {
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).unwrap_or_default();
    if members.get("isError").is_some_and(|raw| raw.get() == "true") {
        return Ok(answer);
    }
    let structured: Option<Value> =
        members.get("structuredContent").and_then(|raw| serde_json::from_str(raw.get()).ok());
    let id = structured.as_ref().and_then(|structured| structured.pointer(&plan.operation_pointer));
    let Some(id) = id.filter(|id| id.is_string() || id.is_number()) else {
        let why = format!("its answer names no operation at `{}`", plan.operation_pointer);
        return Err(PerformFailure::Malformed { why });
    };
    followed.submit(SubmittedWorkId::Operation { id: id.clone() }).await;
    let operation = PolledOperation { plan, id, snapshot, caller };
    followed.follow_polled(&operation).await.map_err(upstream_failure::after_sending)
}

impl FollowedWork<'_> {
    /// Asks until the operation has ended or its time is over. A cancellation changes nothing, because no contract says how to cancel an
    /// operation.
    pub(super) async fn follow_polled(&self, operation: &PolledOperation<'_>) -> Result<Answer, PerformFailure> {
        let PolledOperation { plan, id, snapshot, caller } = operation;
        let arguments = Map::from_iter([(plan.operation_argument.clone(), (*id).clone())]);
        let arguments = Bytes::from(Value::Object(arguments).to_string());
        let (mut pace, core) = (PollBackoff::default(), &self.progress_recorder.core);
        loop {
            self.pause(pace.next_ms(plan.interval_ms, random()), true).await?;
            let asking = InternalCall { tool: &plan.tool, arguments: arguments.clone(), caller: Arc::clone(caller) };
            let until = self.deadline.min(Instant::now() + Duration::from_millis(ASK_MS_MAX));
            // If the tool cannot be asked or its answer is unusable, the next question may succeed.
            let Ok(said) = internal_call::ask(core, snapshot, asking, until).await else { continue };
            match judge(plan, &said) {
                PolledOperationStatus::Running(Some(state)) => self.report_message(&state),
                PolledOperationStatus::Running(None) => {}
                PolledOperationStatus::Done(result) => return Ok(done(&result)),
                PolledOperationStatus::Failed(text) => return Ok(failed(&text)),
            }
        }
    }
}

fn judge(plan: &PollPlan, said: &Value) -> PolledOperationStatus {
    let state = said.pointer(&plan.state_pointer).map(|state| match state {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    match state {
        Some(state) if plan.done_states.contains(&state) => {
            let result = plan.result_pointer.as_deref().map_or(Some(said), |pointer| said.pointer(pointer));
            PolledOperationStatus::Done(result.cloned().unwrap_or_default())
        }
        Some(state) if plan.failed_states.contains(&state) => PolledOperationStatus::Failed(said.to_string()),
        state => PolledOperationStatus::Running(state),
    }
}

fn done(result: &Value) -> Answer {
    let content = json!([{ "type": "text", "text": result.to_string() }]);
    let answer = if result.is_object() {
        json!({ "content": content, "structuredContent": result })
    } else {
        json!({ "content": content })
    };
    Answer { result: Bytes::from(answer.to_string()), era: Era::Legacy }
}

fn failed(text: &str) -> Answer {
    let answer = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    Answer { result: Bytes::from(answer.to_string()), era: Era::Legacy }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use servanda_contract::tool::PollPlan;

    use super::{PolledOperationStatus, judge};

    fn plan(result_pointer: Option<&str>) -> PollPlan {
        serde_json::from_value(json!({
            "tool": "up.status", "operation_pointer": "/id", "operation_argument": "id", "state_pointer": "/job/state",
            "done_states": ["done", "7"], "failed_states": ["failed"], "result_pointer": result_pointer,
        }))
        .unwrap()
    }

    #[test]
    fn how_an_operation_stands_is_told_from_its_state_alone() {
        let whole = json!({"job": {"state": "done"}, "out": {"a": 1}});
        let goes_on = |state: Option<&str>| PolledOperationStatus::Running(state.map(str::to_owned));
        let table = [
            (None, whole.clone(), PolledOperationStatus::Done(whole.clone())),
            (Some("/out"), whole, PolledOperationStatus::Done(json!({"a": 1}))),
            (Some("/out"), json!({"job": {"state": 7}}), PolledOperationStatus::Done(Value::Null)),
            (
                None,
                json!({"job": {"state": "failed"}}),
                PolledOperationStatus::Failed(r#"{"job":{"state":"failed"}}"#.to_owned()),
            ),
            (None, json!({"job": {"state": "queued"}}), goes_on(Some("queued"))),
            (None, json!({"state": "done"}), goes_on(None)),
        ];
        for (pointer, said, expected) in table {
            assert_eq!(judge(&plan(pointer), &said), expected, "{said}");
        }
    }
}
