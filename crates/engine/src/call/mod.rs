//! A tool call, from the door to its answer: what its state says it is, who waits for it, and the way through the gates.

mod blocked;
mod caching;
mod ending;
mod errand;
mod fencing;
mod fetching;
pub(crate) mod headers;
mod passage;
mod paying;
mod questions;
mod replay;
mod way;
mod working;

use std::sync::Arc;

use servanda_contract::{
    CallId, CallRecord, Digest, GateName, Proposal, Refusal, TaxonomyClass,
    digest::Domain,
    observation::{Observation, Verification},
    record::Outcome,
};
use servanda_gates::effect::{ClientKey, EffectKey};
use servanda_mcp::{Era, RpcError, fields::method};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    passage::Passage,
    way::{Round, Way},
};
use crate::{
    answer,
    bridge::{Brought, Claim, Final, Opening, Reception, Turn},
    core::{Core, lost},
    gateway::{CallAnswer, CallRequest},
    records, refusals,
    scene::Scene,
    strict, trace,
    works::{self, Work},
};

/// Takes a call through to its answer, or to the next question.
pub(crate) async fn call(core: &Arc<Core>, request: CallRequest) -> CallAnswer {
    let started = Instant::now();
    let scene = core.scene();
    let (proposal, mut way) = propose(core, request, started);
    let record = CallRecord::new(&proposal);
    if let Some(wait_ms) = core.refused_calls.wait_ms(&proposal.caller) {
        let is_keyed = given_key(&scene, &proposal).is_some();
        return too_many_refused(core, record, is_keyed, wait_ms);
    }
    let task = way.task.as_deref().map_or(Ok(()), |task| strict::check("task", task, core.gate_limits));
    if let Err(error) = task.and_then(|()| strict::check_terms(&way.terms, core.gate_limits)) {
        return refuse_early(core, record, error, "make the call anew, with strict JSON beside its arguments too")
            .await;
    }
    if way.guest.era == Era::Legacy {
        return go(core, &scene, proposal, record, way).await;
    }
    let claim = Claim {
        caller: proposal.caller.clone(),
        request: Digest::of(Domain::Request, &[method::TOOLS_CALL.as_bytes(), record.arguments_digest.as_bytes()]),
        first_call: Some(proposal.call_id.clone()),
        key: None,
    };
    let brought =
        Brought { input_responses: way.terms.input_responses.take(), request_state: way.terms.request_state.take() };
    let answers = brought.input_responses.clone();
    match core.bridge.open(brought, &claim).await {
        Ok(Opening::Fresh(continuation)) => way.continuation = continuation,
        Ok(Opening::Round { upstream, nonce, continuation, first_call, key }) => {
            (way.continuation, way.continues) = (continuation, first_call);
            way.round = Some(Round { upstream, nonce, key });
        }
        Ok(Opening::Parked { id, first_call }) => {
            let hearer = way.hearer(core);
            let visit = core.bridge.visit(&id, first_call.as_ref(), answers.as_deref(), hearer, &way.terms.cancel);
            let Some((reception, work)) = core.bridge.waiting_work(&id) else { return answer(visit.await) };
            return until_left(core, visit, &reception, &work).await;
        }
        Err(error) => return refuse_early(core, record, error, "make the call anew, without `requestState`").await,
    }
    let claim = Claim { first_call: way.continues.clone().or(claim.first_call), ..claim };
    way.claim = Some(claim.clone());
    if !way.guest.capabilities.answers_anything() {
        return go(core, &scene, proposal, record, way).await;
    }
    let gives_up = way.terms.cancel.clone();
    let (reception, turns) = Reception::open(claim, way.hearer(core));
    way.reception = Some(Arc::clone(&reception));
    let inside = Arc::clone(core);
    let Some(work) = long(core, &scene, &proposal, &mut way, reception.cancel.clone()) else {
        let underway = Box::pin(async move { Final::Call(pass(&inside, &scene, proposal, record, way).await) });
        return answer(core.bridge.host(reception, turns, underway, &gives_up).await);
    };
    reception.is_work(&work);
    let running = core.in_flight.spawn(async move { pass(&inside, &scene, proposal, record, way).await });
    let underway =
        Box::pin(async move { Final::Call(running.await.unwrap_or_else(|error| CallAnswer::Failed(lost(&error)))) });
    let hosting = core.bridge.host(Arc::clone(&reception), turns, underway, &gives_up);
    until_left(core, hosting, &reception, &work).await
}

/// Takes a call of which nobody is asked anything by its answer. Long work goes on in a task of its own, so that its caller
/// can be answered before its end.
async fn go(core: &Arc<Core>, scene: &Arc<Scene>, proposal: Proposal, record: CallRecord, mut way: Way) -> CallAnswer {
    let gives_up = way.terms.cancel.clone();
    let Some(work) = long(core, scene, &proposal, &mut way, CancellationToken::new()) else {
        return pass(core, scene, proposal, record, way).await;
    };
    let (inside, scene) = (Arc::clone(core), Arc::clone(scene));
    let running = core.in_flight.spawn(async move { pass(&inside, &scene, proposal, record, way).await });
    work.attend(core, running, &gives_up).await
}

/// The long work that a call is, by its contract. From then on the work's own token cancels it, and no longer the caller's.
fn long(
    core: &Core,
    scene: &Scene,
    proposal: &Proposal,
    way: &mut Way,
    cancel: CancellationToken,
) -> Option<Arc<Work>> {
    if scene.is_foreign_tool(&proposal.tool, &proposal.caller) {
        return None;
    }
    let contract = scene.catalog.entry(&proposal.tool)?.contract.contract();
    let terms = works::Terms {
        guest: &way.guest,
        asks_for_task: way.task.is_some(),
        caller_wait_ms: proposal.caller_wait_ms,
        started: way.started,
        trace_id: &proposal.trace_id,
        cancel: cancel.clone(),
    };
    let work = Work::of(core, contract, terms)?;
    way.terms.cancel = cancel;
    way.work = Some(Arc::clone(&work));
    Some(work)
}

/// Waits with a guest that can be asked something, until it need not wait any longer.
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

/// The way through the gates and back. It can be left alone: what was dispatched is read to its end and recorded.
async fn pass(core: &Arc<Core>, scene: &Arc<Scene>, proposal: Proposal, record: CallRecord, way: Way) -> CallAnswer {
    let _in_flight = core.in_flight.token();
    Passage::take(core, scene, proposal, record, way).await
}

fn propose(core: &Core, request: CallRequest, started: Instant) -> (Proposal, Way) {
    let CallRequest { guest, tool, arguments, chain, keys, aims, task, terms } = request;
    let caller = guest.caller.clone();
    let trace_parent = terms.trace_parent.as_deref();
    let trace_id = trace_parent.and_then(trace::trace_id).map_or_else(trace::new_trace_id, str::to_owned);
    // Without a word from the caller, one session (or one trace, where there are no sessions) is one chain.
    let chain = chain.or_else(|| caller.session.clone()).unwrap_or_else(|| match trace_parent {
        Some(_) => trace_id.clone(),
        None => caller.client.clone().unwrap_or_default(),
    });
    let proposal = Proposal {
        call_id: CallId::new(),
        caller,
        tool,
        arguments,
        received_at: core.clock.now(),
        trace_id,
        chain,
        caller_wait_ms: terms.caller_wait_ms,
        keys,
        aims,
    };
    (proposal, Way::new(guest, terms, task, started))
}

fn answer(turn: Turn) -> CallAnswer {
    match turn {
        Turn::Input(json) => CallAnswer::InputRequired(json),
        Turn::Done(Final::Call(answer)) => answer,
        Turn::Refused(error) => CallAnswer::Failed(error),
        // A state is bound to its method, so that a call never waits for an inquiry.
        Turn::Done(Final::Inquiry(_)) => CallAnswer::Failed(RpcError::new(
            servanda_mcp::envelope::code::INTERNAL_ERROR,
            "the request waited for another kind of answer",
        )),
    }
}

/// The key of the effect of a call whose client gave an idempotency key. It is known before the gates judge the call, because an earlier
/// call may have done something under this key, and a refusal must not claim otherwise.
fn given_key(scene: &Scene, proposal: &Proposal) -> Option<EffectKey> {
    let keys = &proposal.keys;
    let key = keys.idempotency_key.as_ref().or(keys.header_key.as_ref())?;
    let contract = scene.catalog.entry(&proposal.tool)?.contract.contract();
    contract.effect_class().mutates().then(|| EffectKey {
        tenant: proposal.caller.tenant.clone(),
        principal: proposal.caller.principal.clone(),
        tool: contract.identity.name.clone(),
        contract_major: contract.identity.major(),
        client_key: ClientKey::Given(key.clone()),
    })
}

/// Answers a call whose principal had too many calls refused. This call gets no record.
fn too_many_refused(core: &Core, mut record: CallRecord, is_keyed: bool, wait_ms: u64) -> CallAnswer {
    let mut refusal = refusals::too_many_refused(&record.call_id, wait_ms);
    if is_keyed {
        refusal.mark_unknown_before();
    }
    record.finished_at = Some(core.clock.now());
    let observation = Observation::of_refusal(&answer::occasion(&record), &refusal, Verification::none());
    CallAnswer::Result(answer::of_refusal(refusal, observation))
}

/// Refuses a call whose state or terms are not taken. It did nothing, and is on record like other refused calls.
async fn refuse_early(core: &Core, mut record: CallRecord, error: RpcError, hint: &str) -> CallAnswer {
    let call_id = record.call_id.clone();
    let class = TaxonomyClass::StructuralViolation;
    let mut refusal = Refusal::new(call_id, GateName::Resolve, class, error.message.clone(), hint.to_owned());
    refusal.repairable = false;
    record.outcome = Outcome::Refused;
    record.class = Some(class);
    record.refusal = Some(refusal);
    record.finished_at = Some(core.clock.now());
    records::put_down(core, record, false, None).await;
    CallAnswer::Failed(error)
}
