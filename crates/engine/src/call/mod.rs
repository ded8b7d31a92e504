//! A tool call, from the door to its answer. `pipeline` has its life, stage by stage; this file has what surrounds it: a client that can be
//! asked something while the call runs, and long work, whose caller need not wait for its end.

mod admission;
mod blocked;
mod caching;
mod context;
mod dispatch;
mod ending;
mod errand;
mod exits;
mod fencing;
mod fetching;
pub(crate) mod headers;
mod operation;
mod paying;
mod pipeline;
mod questions;
mod queueing;
mod replay;
mod resolution;
mod working;

use std::sync::Arc;

use servanda_mcp::RpcError;
use tokio_util::sync::CancellationToken;

use self::{
    admission::{Admission, Admitted, admit},
    pipeline::CallPipeline,
};
use crate::{
    bridge::{Final, Reception, Turn},
    core::{Core, lost},
    gateway::{CallAnswer, CallRequest},
    works::{self, Work},
};

/// Takes a call through to its answer, or to the next question.
pub(crate) async fn call(core: &Arc<Core>, request: CallRequest) -> CallAnswer {
    match admit(core, request).await {
        Ok(Admission::Call(admitted)) if admitted.can_be_asked() => host(core, admitted).await,
        Ok(Admission::Call(admitted)) => run(core, admitted).await,
        Ok(Admission::Return { id, first_call, answers, context }) => {
            let hearer = context.hearer(core);
            let cancel = &context.terms.cancel;
            let visit = core.bridge.visit(&id, first_call.as_ref(), answers.as_deref(), hearer, cancel);
            match core.bridge.waiting_work(&id) {
                Some((reception, work)) => until_left(core, visit, &reception, &work).await,
                None => answer(visit.await),
            }
        }
        Err(answer) => answer,
    }
}

/// Runs a call whose client is asked nothing before its answer. Long work runs in a task of its own, so that its caller can be answered
/// before its end.
async fn run(core: &Arc<Core>, mut admitted: Box<Admitted>) -> CallAnswer {
    let gives_up = admitted.context.terms.cancel.clone();
    let Some(work) = admitted.long_work(core, CancellationToken::new()) else { return admitted.pass(core).await };
    let inside = Arc::clone(core);
    let running = core.in_flight.spawn(async move { admitted.pass(&inside).await });
    work.attend(core, running, &gives_up).await
}

/// Runs a call whose modern client can be asked something while it runs: the client is answered with a question, and comes back.
async fn host(core: &Arc<Core>, mut admitted: Box<Admitted>) -> CallAnswer {
    let context = &mut admitted.context;
    let Some(binding) = context.binding.clone() else { return run(core, admitted).await };
    let gives_up = context.terms.cancel.clone();
    let (reception, turns) = Reception::open(binding, context.hearer(core));
    context.reception = Some(Arc::clone(&reception));
    let inside = Arc::clone(core);
    let Some(work) = admitted.long_work(core, reception.cancel.clone()) else {
        let underway = Box::pin(async move { Final::Call(admitted.pass(&inside).await) });
        return answer(core.bridge.host(reception, turns, underway, &gives_up).await);
    };
    reception.is_work(&work);
    let running = core.in_flight.spawn(async move { admitted.pass(&inside).await });
    let underway =
        Box::pin(async move { Final::Call(running.await.unwrap_or_else(|error| CallAnswer::Failed(lost(&error)))) });
    let hosting = core.bridge.host(Arc::clone(&reception), turns, underway, &gives_up);
    until_left(core, hosting, &reception, &work).await
}

impl Admitted {
    /// Whether its client is modern and can be asked something while the call runs.
    fn can_be_asked(&self) -> bool {
        self.context.binding.is_some() && self.context.guest.capabilities.answers_anything()
    }

    /// The long work that the call is, by its contract. From then on `cancel` cancels the call, and no longer its caller's token.
    fn long_work(&mut self, core: &Core, cancel: CancellationToken) -> Option<Arc<Work>> {
        let Self { scene, proposal, context, .. } = self;
        if scene.is_foreign_tool(&proposal.tool, &proposal.caller) {
            return None;
        }
        let contract = scene.catalog.entry(&proposal.tool)?.contract.contract();
        let terms = works::Terms {
            guest: &context.guest,
            asks_for_task: context.task.is_some(),
            caller_wait_ms: proposal.caller_wait_ms,
            started: context.started,
            trace_id: &proposal.trace_id,
            cancel: cancel.clone(),
        };
        let work = Work::of(core, contract, terms)?;
        context.terms.cancel = cancel;
        context.work = Some(Arc::clone(&work));
        Some(work)
    }

    /// Takes the call through its stages. If its caller leaves, it goes on: what was dispatched is read to its end and recorded.
    async fn pass(self: Box<Self>, core: &Arc<Core>) -> CallAnswer {
        let _in_flight = core.in_flight.token();
        CallPipeline::take(core, self).await
    }
}

/// Waits with a client that can be asked something, until it need not wait any longer.
async fn until_left(
    core: &Arc<Core>,
    waiting: impl Future<Output = Turn>,
    reception: &Reception,
    work: &Work,
) -> CallAnswer {
    tokio::select! {
        biased;
        turn = waiting => answer(turn),
        told = work.told(core) => {
            reception.desert();
            told
        }
    }
}

fn answer(turn: Turn) -> CallAnswer {
    match turn {
        Turn::Input(json) => CallAnswer::InputRequired(json),
        Turn::Done(Final::Call(answer)) => answer,
        Turn::Refused(error) => CallAnswer::Failed(error),
        // A state is bound to its method, so a call never waits for an inquiry.
        Turn::Done(Final::Inquiry(_)) => CallAnswer::Failed(RpcError::new(
            servanda_mcp::envelope::code::INTERNAL_ERROR,
            "the request waited for another kind of answer",
        )),
    }
}
