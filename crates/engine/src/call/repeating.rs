//! Goes on with calls that wait for people as tasks: when people have decided about such a call, the gateway makes the same call again, for
//! the client that made it, and the task ends as this repetition does.
//!
//! The repetition is a call of its own with a record of its own. It is judged again from the first gate, by the contract, the policies and
//! the credential of now. Deliberately not here: the client's requests about the task (`long_running::held`).

use std::{sync::Arc, time::Duration};

use servanda_approval::{Ticket, TicketId, TicketReply, TicketState};
use servanda_contract::{
    CallId, CallRecord, GateName, Proposal, Refusal, TaxonomyClass,
    trace::{ParentSpan, TraceStanding},
};
use servanda_effects::ticket_store::TicketTarget;
use servanda_mcp::ClientCapabilities;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Calls, admission::AdmittedCall, context::CallContext, revocation, state::CallPipeline};
use crate::{
    answers::approvals as words,
    client::{CallAnswer, RequestTerms, Requester},
    long_running::{
        LongWork,
        held::{self, HeldTask, HeldTaskEnding, HeldTaskStanding, HeldTaskView},
    },
};

/// How often the tickets of tasks are looked at: another gateway may have changed them.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The shortest time between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// The most tickets of one look.
const LOOKED_AT_MAX: usize = 64;
/// How long a task rests that could not go on.
const REST: Duration = Duration::from_secs(5);
/// The longest answer that is kept with a task; the answer of an effect is kept with the effect.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Goes on with held tasks until told to stop. Only meanwhile do calls become such tasks.
pub(crate) async fn repeat_held(calls: &Arc<Calls>, stop: CancellationToken) {
    let held = &calls.deferred.long_running.held;
    let _service = held.serve();
    let mut changes = calls.core.approvals.changes();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = held.entered() => {}
            _ = changes.changed() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        for task in held.next(LOOKED_AT_MAX) {
            if is_decided(calls, &task).await && task.begin_repetition() {
                let inside = Arc::clone(calls);
                calls.core.in_flight.spawn(async move { repeat(&inside, &task).await });
            }
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Whether people have decided about the call, or will not any more.
async fn is_decided(calls: &Calls, task: &HeldTask) -> bool {
    match calls.core.approvals.latest(&TicketTarget::Id(task.ticket())).await {
        Ok(ticket) => ticket.is_none_or(|ticket| ticket.state != TicketState::Pending),
        // A store that is away is asked again.
        Err(_) => false,
    }
}

/// Makes the call of a task again, and ends the task as that call ends.
async fn repeat(calls: &Arc<Calls>, task: &HeldTask) {
    let _in_flight = calls.core.in_flight.token();
    let (core, held) = (&calls.core, &calls.deferred.long_running.held);
    let Some(seen) = held::view_by_id(core, &task.id).await else {
        held.leave(&task.id);
        return;
    };
    let ticket = match &seen.standing {
        HeldTaskStanding::Waiting(Some(ticket)) => ticket,
        HeldTaskStanding::Waiting(None) => return task.rest(REST),
        HeldTaskStanding::Begun(_) | HeldTaskStanding::Ended(_) => {
            held.leave(&task.id);
            return;
        }
    };
    if !ticket.is_intact() {
        tracing::error!(task = task.id, ticket = %ticket.id, "the stored ticket of a task is not what was asked for");
        let refusal = words::unreachable(&seen.note.call_id);
        return end(calls, task, &seen, HeldTaskEnding::Refused(refusal)).await;
    }
    // Without a good credential nobody makes the call. The client's next request about the task brings one.
    if revocation::recheck(core, &task.requester().authority, &seen.note.call_id).await.is_err() {
        return task.rest(REST);
    }
    let admitted = again(calls, task, &seen, ticket);
    let call_id = admitted.proposal.call_id.clone();
    if let Err(error) = held::note_repetition(core, &seen, &call_id).await {
        tracing::warn!(task = task.id, %error, "a call that people decided about cannot go on yet");
        return task.rest(REST);
    }
    let answer = CallPipeline::take(calls, admitted).await;
    conclude(calls, task, &seen, answer).await;
}

/// The same call once more. Nobody who could be asked something waits for it.
fn again(calls: &Calls, task: &HeldTask, seen: &HeldTaskView, ticket: &Ticket) -> Box<AdmittedCall> {
    let note = &seen.note;
    let requester = Requester { capabilities: ClientCapabilities::none(), ..task.requester() };
    let proposal = Box::new(Proposal {
        call_id: CallId::new(),
        caller: Arc::clone(&requester.caller),
        tool: note.tool.clone(),
        arguments: ticket.subject.arguments.clone(),
        received_at: calls.core.clock.now(),
        trace_id: note.trace_id.clone(),
        chain: note.chain.clone(),
        caller_wait_ms: None,
        keys: note.keys(),
        aims: note.aims(),
    });
    let terms = RequestTerms { cancel: task.cancel.clone(), ..RequestTerms::default() };
    let mut context = Box::new(CallContext::new(requester, terms, None, Instant::now()));
    context.continues = Some(note.call_id.clone());
    context.takes_up = Some(ticket.id.clone());
    context.work = Some(LongWork::of_held_task(&calls.deferred.long_running.works, task.cancel.clone()));
    let trace = TraceStanding { parent: Some(ParentSpan::of_call(&note.call_id)), ..TraceStanding::default() };
    let record = CallRecord { trace, ..CallRecord::new(&proposal) };
    Box::new(AdmittedCall { snapshot: calls.core.snapshot(), proposal, record, context })
}

async fn conclude(calls: &Arc<Calls>, task: &HeldTask, before: &HeldTaskView, answer: CallAnswer) {
    let core = &calls.core;
    let Some(seen) = held::view_by_id(core, &task.id).await else { return task.rest(REST) };
    let HeldTaskStanding::Waiting(ticket) = &seen.standing else {
        calls.deferred.long_running.held.leave(&task.id);
        held::announce(core, &task.id).await;
        return;
    };
    let used = ticket.as_ref().filter(|ticket| ticket.state == TicketState::Consumed);
    let how = match answer {
        CallAnswer::Result(result) => match result.rest.and_then(|rest| rest.refusal) {
            Some(refusal) if is_store_away(&refusal) => return task.rest(REST),
            // Another call used the approval between the question and the dispatch.
            Some(refusal) if used.is_some() && refusal.gate == GateName::Confirmation => {
                let ended = |ticket| words::ended(&refusal.call_id, &seen.note.tool, ticket, &TicketReply::NotNow);
                HeldTaskEnding::Refused(used.map_or_else(|| Box::new(refusal.clone()), |ticket| ended(ticket)))
            }
            Some(refusal) => match still_waits_for(calls, before, &refusal).await {
                Some(ticket) => {
                    held::wait_for(core, task, &seen, ticket).await;
                    return task.rest(Duration::ZERO);
                }
                None => HeldTaskEnding::Refused(Box::new(refusal)),
            },
            None if result.json.len() <= ANSWER_BYTES_MAX => HeldTaskEnding::Answered(result.json),
            None => HeldTaskEnding::Refused(words::answer_too_long(&seen.note.call_id)),
        },
        CallAnswer::UnknownTool(refusal) => HeldTaskEnding::Refused(refusal),
        CallAnswer::Failed(error) => {
            HeldTaskEnding::Refused(words::not_repeated(&seen.note.call_id, &seen.note.tool, &error.message))
        }
        // A call without a client that can be asked, or that takes tasks, is answered with neither.
        CallAnswer::Task(_) | CallAnswer::InputRequired(_) => {
            HeldTaskEnding::Refused(words::unreachable(&seen.note.call_id))
        }
    };
    end(calls, task, &seen, how).await;
}

async fn end(calls: &Calls, task: &HeldTask, seen: &HeldTaskView, how: HeldTaskEnding) {
    if held::end(&calls.core, seen, how).await {
        calls.deferred.long_running.held.leave(&task.id);
    } else {
        task.rest(REST);
    }
}

/// The store of approvals did not answer, so nothing is decided about the call.
fn is_store_away(refusal: &Refusal) -> bool {
    refusal.gate == GateName::Confirmation && refusal.error_code == TaxonomyClass::DependencyUnavailable
}

/// The ticket that the call waits for now, if people have to decide again.
async fn still_waits_for(calls: &Calls, seen: &HeldTaskView, refusal: &Refusal) -> Option<TicketId> {
    if refusal.gate != GateName::Confirmation {
        return None;
    }
    let latest = calls.core.approvals.latest(&TicketTarget::Key(seen.note.ticket_key)).await.ok()??;
    let is_named = refusal.handle.as_deref() == Some(latest.id.as_str());
    (is_named && latest.state.is_open()).then_some(latest.id)
}
