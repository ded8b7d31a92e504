//! Calls that upstreams turn into tasks. Requesters know these tasks by our own ids, which outlive the process. The end of a task is
//! checked against the contract like any answer, and recorded when a requester or a notification brings it.
//!
//! If a requester does not take tasks and a legacy server insists on one, the engine makes the task and waits for it ([`gateway_tasks`]).
//! The record of a call that became a task says `task_created` until its end is seen. Then it says, once, how the task ended.

mod gateway_tasks;
mod index;
mod note;
mod presentation;
mod settle;

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_contract::{CallRecord, Timestamp, tool::QuestionKind};
use servanda_effects::{JournalError, effect::Claim};
use servanda_mcp::{ClientCapabilities, Era, capabilities::TASKS_EXTENSION, envelope::to_json, fields::meta};
use servanda_upstream::Answer;
use tokio::time::Instant;

pub(crate) use self::{
    gateway_tasks::{drive, is_known_not_required, is_required, plain_request, task_era},
    index::TaskIndex,
    note::{TaskNote, find},
    presentation::{change_event, present, with_status},
    settle::TaskSettlement,
};
use super::DeferredContext;
use crate::{
    client::Requester,
    clock::within_ms,
    long_running,
    questions::QuestionRules,
    task_shape::{CreatedTask, render_created},
    world::UpstreamMember,
};

/// How long a server may take to agree to announce a task's changes.
const WATCH_MS_MAX: u64 = 10_000;

/// The call that became a task: what its record does not say.
#[derive(Debug)]
pub(crate) struct TaskOrigin {
    /// The claim by which the task's end settles the call's effect.
    pub(crate) claim: Option<Claim>,
    /// The resources that the call changes and reads, by name.
    pub(crate) touches: Vec<String>,
    /// The kinds of questions that the server may not ask the caller.
    pub(crate) refused_questions: Vec<QuestionKind>,
}

/// A task that an upstream made, with the answer that announced it.
#[derive(Debug)]
pub(crate) struct NewTask<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) created: &'a CreatedTask,
    pub(crate) requester_era: Era,
}

/// A task that is stored.
#[derive(Debug)]
pub(crate) struct StoredTask {
    /// Our id of the task.
    pub(crate) id: String,
    /// The answer to the call that made it.
    pub(crate) json: String,
    /// When the stored task expires.
    pub(crate) expires_at: Timestamp,
}

/// Stores a task that an upstream made, before the client learns of it. The questions that come with it are recorded.
pub(crate) async fn keep(
    deferred: &Arc<DeferredContext>,
    member: &Arc<UpstreamMember>,
    task: NewTask<'_>,
    rules: &QuestionRules,
    record: &mut CallRecord,
    began: TaskOrigin,
) -> Result<StoredTask, JournalError> {
    let NewTask { answer, created, requester_era } = task;
    let id = uuid::Uuid::new_v4().to_string();
    let json = render_created(answer, requester_era, &id, rules, &mut record.questions)
        .ok_or_else(|| JournalError::new("the task cannot be read"))?;
    let record = CallRecord { task_id: Some(id.clone()), ..record.clone() };
    let note = TaskNote::new(&member.id, created, requester_era, record, deferred.core.clock.now());
    let note = note.settling(began.claim).touching(began.touches).refusing(began.refused_questions);
    note::write(deferred, &id, &note).await?;
    let lists = &deferred.long_running.lists;
    lists.add(&deferred.core, &note.record.caller, &id, note.expires_at).await?;
    listen(deferred, member, created, id.clone());
    Ok(StoredTask { id, json, expires_at: note.expires_at })
}

/// Asks the server to announce changes of a modern task until its end is seen. Requesters that get no announcements ask for the task's
/// state.
fn listen(deferred: &Arc<DeferredContext>, member: &Arc<UpstreamMember>, created: &CreatedTask, ours: String) {
    if created.era == Era::Legacy {
        return;
    }
    let (deferred, member, theirs) = (Arc::clone(deferred), Arc::clone(member), created.theirs.clone());
    tokio::spawn(async move {
        if let Err(error) = member.server.watch_task(&theirs, within_ms(WATCH_MS_MAX)).await {
            tracing::debug!(upstream = %member.id, %error, "the upstream does not announce the changes of a task");
        } else if note::read(&deferred, &ours).await.is_none_or(|note| note.settled) {
            // The task's end was seen while the server was being asked.
            member.server.unwatch_task(&theirs);
        }
    });
}

/// The capabilities that a server is told a requester has. They include tasks only if the requester takes tasks or the engine follows the
/// task itself.
pub(crate) async fn capabilities(
    requester: &Requester,
    member: &UpstreamMember,
    wants_task: bool,
    deadline: Instant,
) -> ClientCapabilities {
    let upstream_requester = requester.upstream_requester();
    if wants_task && !upstream_requester.capabilities.has_extension(TASKS_EXTENSION) {
        // Only a modern server gets the extension: a legacy server would take a requester with it for another client.
        let offer = member.server.offer_to(&upstream_requester, deadline).await;
        if offer.is_ok_and(|offer| offer.era == Era::Modern) {
            return upstream_requester.capabilities.with_extension(TASKS_EXTENSION);
        }
    }
    upstream_requester.capabilities
}

/// The tasks among these that a requester may ask about.
pub(crate) async fn visible_to(
    deferred: &DeferredContext,
    requester: &Requester,
    task_ids: Vec<String>,
) -> Vec<String> {
    let mut known = Vec::new();
    for task_id in task_ids {
        let is_known = note::find(deferred, requester, &task_id).await.is_ok()
            || long_running::find(&deferred.core, requester, &task_id).await.is_some()
            || long_running::held::find(&deferred.core, requester, &task_id).await.is_some();
        if is_known {
            known.push(task_id);
        }
    }
    known
}

/// A requester's `_meta` with our id in `related-task` replaced by the upstream's id. A `related-task` that is not one of the requester's
/// tasks is left out.
pub(crate) async fn with_their_id(
    deferred: &DeferredContext,
    requester: &Requester,
    members: Vec<(String, Box<RawValue>)>,
) -> Vec<(String, Box<RawValue>)> {
    let Some(place) = members.iter().position(|(name, _)| name == meta::RELATED_TASK) else { return members };
    let mut members = members;
    let (name, raw) = members.remove(place);
    let ours = serde_json::from_str::<RelatedTaskMeta>(raw.get()).ok();
    if let Some(RelatedTaskMeta { task_id }) = ours
        && let Ok(note) = note::find(deferred, requester, &task_id).await
        && let Ok(theirs) = RawValue::from_string(format!(r#"{{"taskId":{}}}"#, to_json(&note.theirs)))
    {
        members.insert(place, (name, theirs));
    }
    members
}

#[derive(serde::Deserialize)]
struct RelatedTaskMeta {
    #[serde(rename = "taskId")]
    task_id: String,
}
