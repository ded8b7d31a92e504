//! Tasks that the engine makes for a requester that does not support tasks, because a legacy server takes some tools only as tasks.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_mcp::{Era, RawObject, capabilities::TASKS_EXTENSION, fields::method};
use servanda_upstream::{Answer, Continuation, PerformFailure, RequestOptions, UpstreamOffer, UpstreamRequester};
use tokio::time::Instant;

use crate::{
    answers::upstream_failure,
    clock::within_ms,
    delivery_template::DeliveryAttempt,
    task_shape::{CreatedTask, TaskStatus, task_question, with_related_task},
    world::{ToolTaskSupport, UpstreamMember, has},
};

/// How often the engine asks about a task: the interval that the server suggests, within these limits.
const POLL_MS: (u64, u64) = (100, 5_000);
const POLL_MS_DEFAULT: u64 = 500;
/// How long a server may take to accept a cancellation.
const CANCEL_MS_MAX: u64 = 5_000;

/// The `task` parameter of a call that asks for a task without options.
pub(crate) fn plain_request() -> Box<RawValue> {
    serde_json::value::to_raw_value(&serde_json::Map::new()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Whether a server takes a tool only as a task, by its capabilities and the tool's definition. The server is asked once; if it cannot be
/// asked, the answer is no.
pub(crate) async fn is_required(
    member: &UpstreamMember,
    upstream_requester: &UpstreamRequester,
    tool: &str,
    deadline: Instant,
) -> bool {
    support(member, upstream_requester, deadline).await.is_some_and(|support| support.required.contains(tool))
}

/// Whether it is known that a server takes a tool without a task: its list says so, and to a modern client it never insists on one.
pub(crate) fn is_known_not_required(member: &UpstreamMember, tool: &str) -> bool {
    member.task_support().is_some_and(|support| !support.required.contains(tool))
}

/// The era in which a server offers to run a tool as a task, if it does. A legacy server says so in the tool's definition, a modern one
/// in its capabilities.
pub(crate) async fn task_era(
    member: &UpstreamMember,
    upstream_requester: &UpstreamRequester,
    tool: &str,
    deadline: Instant,
) -> Option<Era> {
    let offer = member.server.offer_to(upstream_requester, deadline).await.ok()?;
    if offer.era == Era::Modern {
        return has(&offer.capabilities, &["extensions", TASKS_EXTENSION]).then_some(Era::Modern);
    }
    let support = support(member, upstream_requester, deadline).await?;
    (support.required.contains(tool) || support.optional.contains(tool)).then_some(Era::Legacy)
}

async fn support(
    member: &UpstreamMember,
    upstream_requester: &UpstreamRequester,
    deadline: Instant,
) -> Option<Arc<ToolTaskSupport>> {
    // A modern server decides itself when it makes a task. A server of both eras is modern to some clients only.
    let offer = member.server.offer_to(upstream_requester, deadline).await.ok()?;
    if offer.era == Era::Modern {
        return Some(Arc::default());
    }
    if let Some(known) = member.task_support() {
        return Some(known);
    }
    let known = Arc::new(ask_support(member, upstream_requester, &offer, deadline).await?);
    member.learn_task_support(Arc::clone(&known));
    Some(known)
}

async fn ask_support(
    member: &UpstreamMember,
    upstream_requester: &UpstreamRequester,
    offer: &UpstreamOffer,
    deadline: Instant,
) -> Option<ToolTaskSupport> {
    #[derive(Deserialize)]
    struct LegacyToolDefinition {
        #[serde(default)]
        execution: Option<LegacyToolExecution>,
    }
    #[derive(Deserialize)]
    struct LegacyToolExecution {
        #[serde(default, rename = "taskSupport")]
        task_support: Option<String>,
    }
    let mut support = ToolTaskSupport::default();
    if !has(&offer.capabilities, &["tasks", "requests", "tools", "call"]) {
        return Some(support);
    }
    let list = tokio::time::timeout_at(deadline, member.server.tools(upstream_requester)).await.ok()?.ok()?;
    for tool in list.tools {
        let definition = serde_json::from_str::<LegacyToolDefinition>(tool.definition.get()).ok();
        let execution = definition.and_then(|definition| definition.execution);
        match execution.and_then(|execution| execution.task_support).as_deref() {
            Some("required") => support.required.insert(tool.name),
            Some("optional") => support.optional.insert(tool.name),
            _ => false,
        };
    }
    Some(support)
}

/// Waits for a task's end and fetches its result, as if the call had been an ordinary one.
pub(crate) async fn drive(
    member: &Arc<UpstreamMember>,
    created: &CreatedTask,
    attempt: &DeliveryAttempt,
    delivery: impl Fn(DeliveryAttempt) -> RequestOptions,
) -> Result<Answer, PerformFailure> {
    let terms = || DeliveryAttempt { continuation: Continuation::default(), ..attempt.clone() };
    let ended = async {
        await_end(member, created, || delivery(terms())).await?;
        let answer = member.server.ask(task_question(method::TASKS_RESULT, &created.theirs), delivery(terms())).await?;
        // The requester does not know that there is a task.
        let result = with_related_task(&answer.result, None).map_or_else(|| answer.result.clone(), Bytes::from);
        Ok(Answer { result, era: answer.era })
    };
    ended.await.map_err(|failure| {
        if !matches!(failure, PerformFailure::Rejected { .. }) {
            let delivery = RequestOptions {
                requester: delivery(terms()).requester,
                ..RequestOptions::for_gateway(within_ms(CANCEL_MS_MAX))
            };
            cancel(Arc::clone(member), created.theirs.clone(), delivery);
        }
        // Once there is a task, nothing can prove that the call was not executed.
        upstream_failure::after_sending(failure)
    })
}

async fn await_end(
    member: &UpstreamMember,
    created: &CreatedTask,
    delivery: impl Fn() -> RequestOptions,
) -> Result<(), PerformFailure> {
    let mut poll_ms = created.poll_ms;
    loop {
        let RequestOptions { deadline, cancel, .. } = delivery();
        let pause = poll_ms.unwrap_or(POLL_MS_DEFAULT).clamp(POLL_MS.0, POLL_MS.1);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            () = cancel.cancelled() => return Err(PerformFailure::Cancelled { sent: true }),
            () = tokio::time::sleep_until(deadline) => return Err(PerformFailure::TimedOut { note: None }),
        }
        let answer = match member.server.ask(task_question(method::TASKS_GET, &created.theirs), delivery()).await {
            Ok(answer) => answer,
            // The task continues without us; the next round of the loop asks again.
            Err(PerformFailure::Busy { .. } | PerformFailure::Unavailable { .. }) => continue,
            Err(failure) => return Err(failure),
        };
        let task: RawObject<'_> = serde_json::from_slice(&answer.result)
            .map_err(|error| PerformFailure::Malformed { why: error.to_string() })?;
        // A task that requires input asks for it while the engine waits for its result.
        if TaskStatus::from_task(&task).is_none_or(|status| status.is_terminal() || status == TaskStatus::InputRequired)
        {
            return Ok(());
        }
        poll_ms = task.get("pollInterval").and_then(|raw| serde_json::from_str(raw.get()).ok()).or(poll_ms);
    }
}

fn cancel(member: Arc<UpstreamMember>, theirs: String, delivery: RequestOptions) {
    tokio::spawn(async move {
        if let Err(error) = member.server.ask(task_question(method::TASKS_CANCEL, &theirs), delivery).await {
            tracing::debug!(upstream = %member.id, %error, "the cancellation of a task did not reach its upstream");
        }
    });
}
