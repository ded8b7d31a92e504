//! Calls that upstreams make tasks of. Requesters know tasks by ids of ours, which outlive the process. What a task ends with is held
//! against the contract like any answer, and put on record when a requester or a notification brings it.
//!
//! Where a requester does not take tasks and a legacy server insists on one, the engine makes it and waits ([`driven`]).
//! The record of a call that became a task says `task_created` until its end is seen, and then how it ended, once.

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
    gateway_tasks::{drive, is_required, plain_request, task_era},
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

/// How long a server has to agree to announce a task's changes.
const WATCH_MS_MAX: u64 = 10_000;

/// The call that became a task, as far as its record does not say.
#[derive(Debug)]
pub(crate) struct TaskOrigin {
    /// The evidence by which its end settles its effect.
    pub(crate) claim: Option<Claim>,
    /// What it changes and reads, by name.
    pub(crate) touches: Vec<String>,
    /// What its server may not ask of the caller.
    pub(crate) refused_questions: Vec<QuestionKind>,
}

/// A task that an upstream made, with the answer that says so.
#[derive(Debug)]
pub(crate) struct NewTask<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) created: &'a CreatedTask,
    pub(crate) requester_era: Era,
}

/// A task that is kept.
#[derive(Debug)]
pub(crate) struct StoredTask {
    /// The id we gave it.
    pub(crate) id: String,
    /// The answer to the call that made it.
    pub(crate) json: String,
    /// Until when it is kept.
    pub(crate) expires_at: Timestamp,
}

/// Keeps a task that an upstream made, before the client is told of it. The questions that come with it go on record.
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

/// Wants to hear of a modern task until its end is seen. Whoever cannot be told of it asks.
fn listen(deferred: &Arc<DeferredContext>, member: &Arc<UpstreamMember>, created: &CreatedTask, ours: String) {
    if created.era == Era::Legacy {
        return;
    }
    let (deferred, member, theirs) = (Arc::clone(deferred), Arc::clone(member), created.theirs.clone());
    tokio::spawn(async move {
        if let Err(error) = member.server.watch_task(&theirs, within_ms(WATCH_MS_MAX)).await {
            tracing::debug!(upstream = %member.id, %error, "changes of a task are not announced");
        } else if note::read(&deferred, &ours).await.is_none_or(|note| note.settled) {
            // Its end was seen while the server was asked.
            member.server.unwatch_task(&theirs);
        }
    });
}

/// What a server may expect of a requester: tasks only where the requester can be told of them, or the engine follows them itself.
pub(crate) async fn capabilities(
    requester: &Requester,
    member: &UpstreamMember,
    wants_task: bool,
    deadline: Instant,
) -> ClientCapabilities {
    let upstream_requester = requester.upstream_requester();
    if wants_task && !upstream_requester.capabilities.has_extension(TASKS_EXTENSION) {
        // The extension only where it means something: a legacy server would take it for another client.
        let offer = member.server.offer_to(&upstream_requester, deadline).await;
        if offer.is_ok_and(|offer| offer.era == Era::Modern) {
            return upstream_requester.capabilities.with_extension(TASKS_EXTENSION);
        }
    }
    upstream_requester.capabilities
}

/// Those of some tasks that a requester may ask about.
pub(crate) async fn visible_to(
    deferred: &DeferredContext,
    requester: &Requester,
    task_ids: Vec<String>,
) -> Vec<String> {
    let mut known = Vec::new();
    for task_id in task_ids {
        let is_known = note::find(deferred, requester, &task_id).await.is_ok()
            || long_running::find(&deferred.core, requester, &task_id).await.is_some();
        if is_known {
            known.push(task_id);
        }
    }
    known
}

/// A requester's `_meta` with the upstream's id in `related-task`, where it has one of ours. Another's is left out.
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
