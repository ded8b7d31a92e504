//! A task of an upstream as a requester reads it, in the requester's era: the answer to `tasks/get` and the content of a notification.
//! The end of a task is judged and recorded before a requester reads it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_mcp::{Era, RawObject, envelope::to_json};

use super::{note, settle::TaskSettlement};
use crate::{
    client::ChangeEvent,
    deferred::DeferredContext,
    task_shape::{TaskStatus, task_error, to_legacy, to_modern, with_id, with_members, with_questions},
    world::UpstreamMember,
};

/// The change event for an upstream's notification about a task; none if the task does not belong to one of our requesters.
pub(crate) async fn change_event(
    deferred: &Arc<DeferredContext>,
    member: &Arc<UpstreamMember>,
    theirs: &str,
    params: &RawValue,
) -> Option<ChangeEvent> {
    let ours = deferred.tasks.our_id(&member.id, theirs)?;
    let note = note::read(deferred, &ours).await?;
    let (owner, requester_era) = (Arc::clone(&note.record.caller), note.requester_era);
    let snapshot = deferred.core.snapshot();
    let ended = TaskSettlement { deferred, snapshot: &snapshot, member, ours: &ours, note };
    let json = present(ended, params.get().as_bytes(), requester_era).await?;
    Some(ChangeEvent::Task { owner, task_id: ours, params: RawValue::from_string(json).ok()?.into() })
}

/// A task's state in the requester's era, with our id. If the task has ended or asks something, that is judged and recorded first.
pub(crate) async fn present(mut ended: TaskSettlement<'_>, state: &[u8], requester_era: Era) -> Option<String> {
    let task: RawObject<'_> = serde_json::from_slice(state).ok()?;
    let ours = ended.ours;
    let status = TaskStatus::from_task(&task)?;
    if ended.note.upstream_era == Era::Legacy {
        let json = if requester_era == Era::Legacy { with_id(task, ours) } else { to_modern(&task, ours) };
        if status == TaskStatus::Cancelled {
            ended.cancelled().await;
        }
        return Some(json);
    }
    let legacy = (requester_era == Era::Legacy).then(|| to_legacy(&task, ours));
    let (rules, mut asked) = (ended.question_rules(), Vec::new());
    let modern = match status {
        TaskStatus::Working => with_id(task, ours),
        TaskStatus::InputRequired => {
            let json = with_questions(task, ours, &rules, &mut asked);
            ended.add_questions(asked).await;
            json
        }
        TaskStatus::Cancelled => {
            ended.cancelled().await;
            with_id(task, ours)
        }
        TaskStatus::Failed => {
            let error = rules.error_for_client(task_error(task.get("error")), &mut asked);
            ended.add_questions(asked).await;
            ended.with_error(&error).await;
            with_members(&with_id(task, ours), &format!(r#""error":{}"#, to_json(&error)))
        }
        TaskStatus::Completed => {
            let result = Bytes::copy_from_slice(task.get("result")?.get().as_bytes());
            let base = with_id(task, ours);
            match ended.with_result(&result).await {
                Ok(result) => with_members(&base, &format!(r#""result":{result}"#)),
                Err(error) => with_members(&with_status(&base, "failed"), &format!(r#""error":{}"#, to_json(&error))),
            }
        }
    };
    Some(legacy.unwrap_or(modern))
}

/// The task with another status.
pub(crate) fn with_status(task: &str, status: &str) -> String {
    let members: RawObject<'_> = serde_json::from_str(task).unwrap_or_default();
    members.to_json_with(|name, _| (name == "status").then(|| to_json(status)))
}
