//! Requests about held tasks, in either era. A request also tells this process that the client still wants the call, and with which
//! credential, so that a task goes on after a restart.

use std::time::Duration;

use servanda_approval::{TicketEvent, TicketState};
use servanda_effects::ticket_store::TicketTarget;
use servanda_mcp::{Era, RpcError, envelope::code};
use tokio::time::Instant;

use super::{
    super::{
        LongWorkContext,
        inquiry::{self as work_inquiry, InquiryWait},
        task,
    },
    note::{self, HeldTaskEnding, HeldTaskNote},
    shape,
    view::{self, HeldTaskStanding, HeldTaskView},
};
use crate::{
    answers::refusals::invalid_params,
    client::{InquirySubject, Requester},
    core::Core,
};

/// How often a request that waits looks whether the task has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The held task behind a requester's task id, if there is one.
pub(crate) async fn find(core: &Core, requester: &Requester, task_id: &str) -> Option<HeldTaskView> {
    view::view_for(core, requester, task_id).await
}

/// The state of a held task, for a list.
pub(crate) fn state_for(core: &Core, requester: &Requester, seen: &HeldTaskView) -> String {
    shape::state(seen, &core.snapshot(), requester)
}

/// Answers a requester's inquiry about a held task.
pub(crate) async fn inquire(
    long_running: &LongWorkContext,
    asker: InquiryWait<'_>,
    mut seen: HeldTaskView,
    subject: InquirySubject,
) -> Result<String, RpcError> {
    let core = &long_running.core;
    loop {
        go_on(long_running, asker.requester, &seen);
        match (seen.standing, subject) {
            (HeldTaskStanding::Begun(work), _) => {
                return work_inquiry::inquire(long_running, asker, *work, subject).await;
            }
            (standing, InquirySubject::TaskCancel) => {
                return cancel(long_running, asker.requester, HeldTaskView { standing, ..seen }).await;
            }
            (standing, InquirySubject::TaskUpdate) => return update(core, HeldTaskView { standing, ..seen }).await,
            (HeldTaskStanding::Ended(end), InquirySubject::TaskResult) => {
                let standing = HeldTaskStanding::Waiting(None);
                return Ok(shape::result(&HeldTaskView { standing, ..seen }, &end));
            }
            (HeldTaskStanding::Waiting(_), InquirySubject::TaskResult) if Instant::now() < asker.deadline => {}
            (HeldTaskStanding::Waiting(_), InquirySubject::TaskResult) => {
                return Err(invalid_params("the task still waits for approval")
                    .with_hint("ask again later, or look at it with `tasks/get`"));
            }
            (standing, _) => return Ok(state_for(core, asker.requester, &HeldTaskView { standing, ..seen })),
        }
        tokio::select! {
            () = tokio::time::sleep_until(asker.deadline.min(Instant::now() + LOOK_EVERY)) => {}
            () = asker.cancel.cancelled() => return Err(invalid_params("the task still waits for approval")),
        }
        let again = find(core, asker.requester, &seen.id).await;
        seen = again.ok_or_else(|| invalid_params("there is no such task, or it has expired"))?;
    }
}

/// Lets this process go on with the task for this client. Another agent of the same user may look at the task, but the call is not theirs.
fn go_on(long_running: &LongWorkContext, requester: &Requester, seen: &HeldTaskView) {
    if seen.is_waiting() && requester.caller.actors == seen.note.caller.actors {
        long_running.held.enter(&seen.id, seen.note.ticket.clone(), requester);
    }
}

/// Takes the answer to the question that sent the client to the ticket's page. It decides nothing, and is not read.
async fn update(core: &Core, seen: HeldTaskView) -> Result<String, RpcError> {
    if seen.is_waiting() && !seen.note.was_sent_to_page {
        let mut note = seen.note;
        note.was_sent_to_page = true;
        note::write(core, &seen.id, &note).await.map_err(|error| not_stored(&seen.id, &error))?;
    }
    Ok("{}".to_owned())
}

/// Cancels a task of which nothing was sent. The ticket is withdrawn if no other call waits for it.
async fn cancel(long_running: &LongWorkContext, requester: &Requester, seen: HeldTaskView) -> Result<String, RpcError> {
    let LongWorkContext { core, held, .. } = long_running;
    let stored = note::write_end(core, &seen.id, &seen.note, HeldTaskEnding::Cancelled).await;
    let end = stored.map_err(|error| not_stored(&seen.id, &error))?;
    let is_new = seen.is_waiting() && end.how == HeldTaskEnding::Cancelled;
    if let Some(task) = held.leave(&seen.id) {
        task.cancel.cancel();
    }
    if is_new {
        withdraw(long_running, &seen).await;
        super::announce(core, &seen.id).await;
    }
    match requester.era {
        Era::Modern => Ok("{}".to_owned()),
        Era::Legacy if !is_new => Err(invalid_params("the task has ended, so there is nothing to cancel")),
        Era::Legacy => {
            let seen = view::view_by_id(core, &seen.id).await.unwrap_or(seen);
            match seen.standing {
                // The cancellation came too late: the effect says how it goes on.
                HeldTaskStanding::Begun(work) => Ok(task::state(&core.snapshot(), &work, Era::Legacy)),
                standing => Ok(state_for(core, requester, &HeldTaskView { standing, ..seen })),
            }
        }
    }
}

/// Withdraws the ticket of a cancelled task, so that people are not asked for nothing. A call that waits for it in another process asks
/// anew.
async fn withdraw(long_running: &LongWorkContext, cancelled: &HeldTaskView) {
    let core = &long_running.core;
    let HeldTaskNote { ticket, caller, .. } = &cancelled.note;
    if core.approvals.is_waited_for(ticket) {
        return;
    }
    for id in long_running.lists.task_ids(core, caller).await {
        let other = if id == cancelled.id { None } else { view::view_by_id(core, &id).await };
        if other.is_some_and(|other| other.is_waiting() && other.note.ticket == *ticket) {
            return;
        }
    }
    let found = core.approvals.latest(&TicketTarget::Id(ticket.clone())).await;
    let is_open =
        matches!(found, Ok(Some(found)) if matches!(found.state, TicketState::Pending | TicketState::Approved));
    let reason = "the client cancelled the call".to_owned();
    if is_open
        && let Err(error) =
            core.approvals.apply(TicketTarget::Id(ticket.clone()), TicketEvent::Supersede { reason }).await
    {
        tracing::warn!(%ticket, %error, "the ticket of a cancelled call could not be withdrawn; nothing comes of it");
    }
}

fn not_stored(id: &str, error: &servanda_effects::JournalError) -> RpcError {
    tracing::error!(task = id, %error, "a change of a task could not be stored");
    RpcError::new(code::INTERNAL_ERROR, "the change of the task could not be stored")
        .with_hint("try again; operators: `servanda doctor` looks at the ledger")
}
