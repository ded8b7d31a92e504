//! What requesters ask about long works as tasks, in either era.

use servanda_mcp::{Era, RpcError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{LongWorkContext, LongWorkView, note, submitted, task, view};
use crate::{
    answers::refusals::invalid_params,
    client::{InquirySubject, Requester},
    core::Core,
};

/// A requester that asks, and how long it waits.
#[derive(Debug)]
pub(crate) struct InquiryWait<'a> {
    pub(crate) requester: &'a Requester,
    pub(crate) deadline: Instant,
    pub(crate) cancel: &'a CancellationToken,
}

/// The long work that a requester's task is, if it is one.
pub(crate) async fn find(core: &Core, requester: &Requester, task_id: &str) -> Option<LongWorkView> {
    view::view_for(core, requester, task_id).await
}

/// Answers what a requester asks about one.
pub(crate) async fn inquire(
    long_running: &LongWorkContext,
    asker: InquiryWait<'_>,
    seen: LongWorkView,
    subject: InquirySubject,
) -> Result<String, RpcError> {
    let (snapshot, era) = (long_running.core.snapshot(), asker.requester.era);
    match subject {
        InquirySubject::TaskCancel => cancel(long_running, seen, era).await,
        // Nobody is asked anything once it is a task of ours, so that there is nothing to be told.
        InquirySubject::TaskUpdate => Ok("{}".to_owned()),
        InquirySubject::TaskResult => {
            let InquiryWait { requester, deadline, cancel } = asker;
            let seen = view::await_end(long_running, requester, seen.effect.id.as_str(), deadline, cancel).await;
            let result = seen.and_then(|seen| task::result(&seen, &snapshot));
            result.ok_or_else(|| {
                invalid_params("the task still goes on").with_hint("ask again later, or look at it with `tasks/get`")
            })
        }
        _ => Ok(task::state(&snapshot, &seen, era)),
    }
}

/// Passes on that it is not wanted any more. Nothing is called cancelled that may have been done: before anything was sent it
/// is given up, and afterwards it goes on until its end is known.
async fn cancel(long_running: &LongWorkContext, seen: LongWorkView, era: Era) -> Result<String, RpcError> {
    let core = &long_running.core;
    let id = seen.effect.id.clone();
    if !seen.is_ended() {
        let kept = note::ask_cancellation(core, &seen.effect).await;
        kept.map_err(|error| {
            tracing::error!(effect = %id, %error, "that a long work is not wanted any more could not be kept");
            RpcError::new(servanda_mcp::envelope::code::INTERNAL_ERROR, "the cancellation could not be kept")
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
    let seen = view::view_by_id(core, &id).await.unwrap_or(seen);
    Ok(task::state(&snapshot, &seen, era))
}
