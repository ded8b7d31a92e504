//! Requests about long work as a task, in either era.

use servanda_mcp::{Era, RpcError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{LongWorkContext, LongWorkView, note, submitted, task, view};
use crate::{
    answers::refusals::invalid_params,
    client::{InquirySubject, Requester},
    core::Core,
};

/// The requester of an inquiry, and how long it waits.
#[derive(Debug)]
pub(crate) struct InquiryWait<'a> {
    pub(crate) requester: &'a Requester,
    pub(crate) deadline: Instant,
    pub(crate) cancel: &'a CancellationToken,
}

/// The long work behind a requester's task id, if there is one.
pub(crate) async fn find(core: &Core, requester: &Requester, task_id: &str) -> Option<LongWorkView> {
    view::view_for(core, requester, task_id).await
}

/// Answers a requester's inquiry about long work.
pub(crate) async fn inquire(
    long_running: &LongWorkContext,
    asker: InquiryWait<'_>,
    seen: LongWorkView,
    subject: InquirySubject,
) -> Result<String, RpcError> {
    let (snapshot, era) = (long_running.core.snapshot(), asker.requester.era);
    match subject {
        InquirySubject::TaskCancel => cancel(long_running, seen, era).await,
        // Work that has become a task of ours asks nothing any more, so there is nothing to answer.
        InquirySubject::TaskUpdate => Ok("{}".to_owned()),
        InquirySubject::TaskResult => {
            let InquiryWait { requester, deadline, cancel } = asker;
            let LongWorkView { effect, task_id, .. } = seen;
            let seen = view::await_end(long_running, requester, effect.id.as_str(), deadline, cancel).await;
            let result = seen.and_then(|seen| task::result(&LongWorkView { task_id, ..seen }, &snapshot));
            result.ok_or_else(|| {
                invalid_params("the task is still running").with_hint("ask again later, or look at it with `tasks/get`")
            })
        }
        _ => Ok(task::state(&snapshot, &seen, era)),
    }
}

/// Cancels long work. Work that may have been done is never called cancelled: before anything is sent it is given up; afterwards it
/// continues until its end is known.
async fn cancel(long_running: &LongWorkContext, seen: LongWorkView, era: Era) -> Result<String, RpcError> {
    let core = &long_running.core;
    let id = seen.effect.id.clone();
    if !seen.is_ended() {
        let kept = note::ask_cancellation(core, &seen.effect).await;
        kept.map_err(|error| {
            tracing::error!(effect = %id, %error, "the cancellation of long work could not be stored");
            RpcError::new(servanda_mcp::envelope::code::INTERNAL_ERROR, "the cancellation could not be stored")
                .with_hint("try again; operators: `servanda doctor` looks at the ledger")
        })?;
        match long_running.works.find(&id) {
            Some(work) => work.cancel.cancel(),
            None => submitted::cancel_upstream(core, &seen.effect).await,
        }
    } else if era == Era::Legacy {
        return Err(invalid_params("the task has ended, so there is nothing to cancel"));
    }
    if era == Era::Modern {
        return Ok("{}".to_owned());
    }
    let snapshot = core.snapshot();
    let now = view::view_by_id(core, &id).await;
    let seen = now.map(|now| LongWorkView { task_id: seen.task_id.clone(), ..now }).unwrap_or(seen);
    Ok(task::state(&snapshot, &seen, era))
}
