//! A tool call, from the door to its answer. `pipeline` has its life, stage by stage; this file has what surrounds it: a client that can be
//! asked something while the call runs, and long work, whose caller need not wait for its end.

mod admission;
mod approval_page;
mod approving;
mod blocked;
mod caching;
mod conclusion;
mod context;
mod destinations;
mod dispatch;
mod ending;
mod evidence;
mod exits;
mod expectations;
mod fencing;
mod fetching;
mod granting;
mod holding;
mod judging;
mod keys;
mod long_work;
mod operation;
mod packet_states;
mod paying;
mod pipeline;
mod planning;
mod preview;
mod probing;
mod proposing;
mod questions;
mod queueing;
mod refusing;
mod repairs;
mod repeatable_call;
mod repeating;
mod replay;
mod resolution;
mod resource_queue;
mod retry_counters;
mod revocation;
mod state;
mod ticket_subject;

use std::sync::{Arc, Mutex};

use servanda_gates::{budget::ToolRateLimiter, repair::RepairLimits};
use servanda_mcp::RpcError;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(crate) use self::repeating::repeat_held;
use self::{
    admission::{AdmittedCall, CallAdmission, admit},
    keys::ClientKeyFactory,
    repairs::RepairChains,
    resource_queue::ResourceQueue,
    retry_counters::RetryCounters,
    state::CallPipeline,
};
use crate::{
    bridge::{Bridge, ClientSessions, ParkedReply, ParkedRequest, RequestAnswer},
    client::{CallAnswer, CallRequest},
    core::Core,
    deferred::DeferredContext,
    long_running::{self, LongWork, task_lost},
};

/// How many effects are looked for at once that were not on record in time, so that they can be taken back.
const ABANDONING_MAX: usize = 64;
/// How many paths probes read at once; a file system that does not answer must not use up all threads.
const PATHS_MAX: usize = 4;
/// The most tools, of all tenants, whose dry runs are counted.
const PREVIEW_RATES_MAX: usize = 4_096;

/// What all calls share: the other parts of the engine, and the state that only calls need.
#[derive(Debug)]
pub(crate) struct Calls {
    core: Arc<Core>,
    deferred: Arc<DeferredContext>,
    bridge: Arc<Bridge>,
    sessions: Arc<ClientSessions>,
    keys: ClientKeyFactory,
    /// Orders calls that change the same resource.
    queue: Arc<ResourceQueue>,
    repairs: RepairChains,
    pub(crate) retry_counters: Arc<RetryCounters>,
    /// Limits the effects that are looked for at once because they may be on record although no call uses them.
    abandoning: Arc<Semaphore>,
    /// Limits the paths that probes read at once.
    path_places: Arc<Semaphore>,
    /// How often dry runs may ask upstreams.
    preview_rates: Mutex<ToolRateLimiter>,
    /// Whether calls that cannot be repeated may rely on a store that may lose what it acknowledged.
    accepts_lost_commits: bool,
}

impl Calls {
    pub(crate) fn new(
        deferred: Arc<DeferredContext>,
        bridge: Arc<Bridge>,
        sessions: Arc<ClientSessions>,
        repair: RepairLimits,
        accepts_lost_commits: bool,
    ) -> Self {
        let core = Arc::clone(&deferred.core);
        Self {
            keys: ClientKeyFactory::new(Arc::clone(&core.notebook)),
            core,
            deferred,
            bridge,
            sessions,
            queue: Arc::default(),
            repairs: RepairChains::new(repair),
            retry_counters: Arc::default(),
            abandoning: Arc::new(Semaphore::new(ABANDONING_MAX)),
            path_places: Arc::new(Semaphore::new(PATHS_MAX)),
            preview_rates: Mutex::new(ToolRateLimiter::new(PREVIEW_RATES_MAX)),
            accepts_lost_commits,
        }
    }
}

/// Takes a call through to its answer, or to the next question.
pub(crate) async fn call(calls: &Arc<Calls>, request: CallRequest) -> CallAnswer {
    if request.terms.dry_run {
        return Box::pin(preview::preview(calls, request)).await;
    }
    match admit(calls, request).await {
        Ok(CallAdmission::Call(admitted)) if admitted.can_be_asked() => run_askable(calls, admitted).await,
        Ok(CallAdmission::Call(admitted)) => run(calls, admitted).await,
        Ok(CallAdmission::Return { id, first_call, answers, context }) => {
            let subscriber = context.subscriber(&calls.sessions);
            let cancel = &context.terms.cancel;
            let visit = calls.bridge.rejoin(&id, first_call.as_ref(), answers.as_deref(), subscriber, cancel);
            match calls.bridge.waiting_work(&id) {
                Some((parked_request, work)) => wait_until_left(calls, visit, &parked_request, &work).await,
                None => answer(visit.await),
            }
        }
        Err(answer) => answer,
    }
}

/// Runs a call whose client cannot be asked anything before its answer. Long work runs in a task of its own, so that its caller can be
/// answered before its end.
async fn run(calls: &Arc<Calls>, mut admitted: Box<AdmittedCall>) -> CallAnswer {
    let gives_up = admitted.context.terms.cancel.clone();
    let Some(work) = admitted.long_work(calls, CancellationToken::new()) else { return admitted.pass(calls).await };
    let inside = Arc::clone(calls);
    let running = calls.core.in_flight.spawn(async move { admitted.pass(&inside).await });
    work.wait_with_caller(&calls.deferred.long_running, running, &gives_up).await
}

/// Runs a call whose modern client can be asked something while it runs: the gateway answers with a question, and the client comes back.
async fn run_askable(calls: &Arc<Calls>, mut admitted: Box<AdmittedCall>) -> CallAnswer {
    let context = &mut admitted.context;
    let Some(binding) = context.binding.clone() else { return run(calls, admitted).await };
    let gives_up = context.terms.cancel.clone();
    let (parked_request, turns) = ParkedRequest::open(binding, context.subscriber(&calls.sessions));
    context.parked_request = Some(Arc::clone(&parked_request));
    let inside = Arc::clone(calls);
    let Some(work) = admitted.long_work(calls, parked_request.cancel.clone()) else {
        let underway = Box::pin(async move { RequestAnswer::Call(admitted.pass(&inside).await) });
        return answer(calls.bridge.run_until_answer(parked_request, turns, underway, &gives_up).await);
    };
    parked_request.set_work(&work);
    let running = calls.core.in_flight.spawn(async move { admitted.pass(&inside).await });
    let underway = Box::pin(async move {
        RequestAnswer::Call(running.await.unwrap_or_else(|error| CallAnswer::Failed(task_lost(&error))))
    });
    let hosting = calls.bridge.run_until_answer(Arc::clone(&parked_request), turns, underway, &gives_up);
    wait_until_left(calls, hosting, &parked_request, &work).await
}

impl AdmittedCall {
    /// Whether its client is modern and can be asked something while the call runs.
    fn can_be_asked(&self) -> bool {
        self.context.binding.is_some() && self.context.requester.capabilities.answers_anything()
    }

    /// The call as long work, if its contract says so. From then on `cancel` cancels the call, and its caller's token no longer does.
    fn long_work(&mut self, calls: &Calls, cancel: CancellationToken) -> Option<Arc<LongWork>> {
        let Self { snapshot, proposal, context, .. } = self;
        if snapshot.is_foreign_tool(&proposal.tool, &proposal.caller) {
            return None;
        }
        let compiled = &snapshot.catalog.entry(&proposal.tool)?.contract;
        let contract = compiled.contract();
        let terms = long_running::LongWorkTerms {
            requester: &context.requester,
            asks_for_task: context.task.is_some(),
            usually_needs_approval: compiled.usually_needs_approval(),
            caller_wait_ms: proposal.caller_wait_ms,
            started: context.started,
            trace_id: &proposal.trace_id,
            cancel: cancel.clone(),
        };
        let work = LongWork::for_call(&calls.deferred.long_running, contract, terms)?;
        context.terms.cancel = cancel;
        context.work = Some(Arc::clone(&work));
        Some(work)
    }

    /// Takes the call through its stages. If its caller leaves, the call continues: what was dispatched is read to its end and recorded.
    async fn pass(self: Box<Self>, calls: &Arc<Calls>) -> CallAnswer {
        let _in_flight = calls.core.in_flight.token();
        CallPipeline::take(calls, self).await
    }
}

/// Waits with a client that can be asked something, until the client is answered or the long work is handed over.
async fn wait_until_left(
    calls: &Arc<Calls>,
    waiting: impl Future<Output = ParkedReply>,
    parked_request: &ParkedRequest,
    work: &LongWork,
) -> CallAnswer {
    tokio::select! {
        biased;
        turn = waiting => answer(turn),
        told = work.handover(&calls.deferred.long_running) => {
            parked_request.abandon();
            told
        }
    }
}

fn answer(turn: ParkedReply) -> CallAnswer {
    match turn {
        ParkedReply::Input(json) => CallAnswer::InputRequired(json),
        ParkedReply::Done(RequestAnswer::Call(answer)) => answer,
        ParkedReply::Refused(error) => CallAnswer::Failed(error),
        // A state is bound to its method, so a call never waits for an inquiry.
        ParkedReply::Done(RequestAnswer::Inquiry(_)) => CallAnswer::Failed(RpcError::new(
            servanda_mcp::envelope::code::INTERNAL_ERROR,
            "the request waited for another kind of answer",
        )),
    }
}
