//! Admits a call before anything is known of its tool: limits, strict JSON beside its arguments, and the `requestState` that it brings.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_contract::{
    CallId, CallRecord, Digest, GateName, Proposal, Refusal, TaxonomyClass,
    digest::Domain,
    observation::{Observation, Verification},
    record::Outcome,
};
use servanda_effects::effect::{ClientKey, EffectKey};
use servanda_mcp::{Era, RpcError, fields::method};
use tokio::time::Instant;

use super::{
    Calls,
    context::{BroughtState, CallContext},
};
use crate::{
    answers::{refusals, tool_result},
    bridge::{Brought, Claim, Opening},
    client::{CallAnswer, CallRequest, strict},
    records, trace,
    world::Scene,
};

/// A call that may be judged.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) scene: Arc<Scene>,
    pub(super) proposal: Box<Proposal>,
    pub(super) record: CallRecord,
    pub(super) context: Box<CallContext>,
}

/// What a request is to a gateway that may know it already.
#[derive(Debug)]
pub(super) enum Admission {
    /// A call.
    Call(Box<Admitted>),
    /// A client that comes back to its parked call, with what it was asked for.
    Return { id: String, first_call: Option<CallId>, answers: Option<Box<RawValue>>, context: Box<CallContext> },
}

/// Admits a call. The error is the answer of a call that is not admitted.
pub(super) async fn admit(calls: &Calls, request: CallRequest) -> Result<Admission, CallAnswer> {
    let (proposal, context) = propose(calls, request);
    let record = CallRecord::new(&proposal);
    let admitted = Box::new(Admitted { scene: calls.core.scene(), proposal, record, context });
    if let Some(wait_ms) = calls.core.refused_calls.wait_ms(&admitted.proposal.caller) {
        return Err(admitted.refuse_for_now(calls, wait_ms));
    }
    let CallContext { task, terms, guest, .. } = &*admitted.context;
    let task = task.as_deref().map_or(Ok(()), |task| strict::check("task", task, calls.core.gate_limits));
    if let Err(error) = task.and_then(|()| strict::check_terms(terms, calls.core.gate_limits)) {
        return Err(admitted
            .refuse(calls, error, "make the call anew, with strict JSON beside its arguments too")
            .await);
    }
    match guest.era {
        Era::Legacy => Ok(Admission::Call(admitted)),
        Era::Modern => admitted.open_state(calls).await,
    }
}

/// The key of the effect of a call whose client gave an idempotency key. It is known before the gates judge the call, because an earlier
/// call may have done something under this key, and a refusal must not claim otherwise.
pub(super) fn given_key(scene: &Scene, proposal: &Proposal) -> Option<EffectKey> {
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

impl Admitted {
    /// Opens the sealed `requestState` that a modern client brings, and binds the next one to this request.
    async fn open_state(mut self: Box<Self>, calls: &Calls) -> Result<Admission, CallAnswer> {
        let request = [method::TOOLS_CALL.as_bytes(), self.record.arguments_digest.as_bytes()];
        let mut binding = Claim {
            caller: self.proposal.caller.clone(),
            request: Digest::of(Domain::Request, &request),
            first_call: Some(self.proposal.call_id.clone()),
            key: None,
        };
        let terms = &mut self.context.terms;
        let answers = terms.input_responses.take();
        let brought = Brought { input_responses: answers.clone(), request_state: terms.request_state.take() };
        match calls.bridge.open(brought, &binding).await {
            Ok(Opening::Fresh(continuation)) => self.context.continuation = continuation,
            Ok(Opening::Round { upstream, nonce, continuation, first_call, key }) => {
                (self.context.continuation, self.context.continues) = (continuation, first_call);
                self.context.state = Some(BroughtState { upstream, nonce, key });
            }
            Ok(Opening::Parked { id, first_call }) => {
                return Ok(Admission::Return { id, first_call, answers, context: self.context });
            }
            Err(error) => return Err(self.refuse(calls, error, "make the call anew, without `requestState`").await),
        }
        binding.first_call = self.context.continues.clone().or(binding.first_call);
        self.context.binding = Some(binding);
        Ok(Admission::Call(self))
    }

    /// Answers a call whose principal had too many calls refused. This call gets no record.
    fn refuse_for_now(mut self: Box<Self>, calls: &Calls, wait_ms: u64) -> CallAnswer {
        let mut refusal = refusals::too_many_refused(&self.record.call_id, wait_ms);
        if given_key(&self.scene, &self.proposal).is_some() {
            refusal.mark_unknown_before();
        }
        self.record.finished_at = Some(calls.core.clock.now());
        let observation = Observation::of_refusal(&tool_result::occasion(&self.record), &refusal, Verification::none());
        CallAnswer::Result(tool_result::of_refusal(refusal, observation))
    }

    /// Refuses a call whose state or terms cannot be taken. It did nothing, and is on record like other refused calls.
    async fn refuse(self: Box<Self>, calls: &Calls, error: RpcError, hint: &str) -> CallAnswer {
        let mut record = self.record;
        let call_id = record.call_id.clone();
        let class = TaxonomyClass::StructuralViolation;
        let mut refusal = Refusal::new(call_id, GateName::Resolve, class, error.message.clone(), hint.to_owned());
        refusal.repairable = false;
        record.outcome = Outcome::Refused;
        record.class = Some(class);
        record.refusal = Some(refusal);
        record.finished_at = Some(calls.core.clock.now());
        records::put_down(&calls.core, record, false, None).await;
        CallAnswer::Failed(error)
    }
}

fn propose(calls: &Calls, request: CallRequest) -> (Box<Proposal>, Box<CallContext>) {
    let CallRequest { guest, tool, arguments, chain, keys, aims, task, terms } = request;
    let caller = guest.caller.clone();
    let trace_parent = terms.trace_parent.as_deref();
    let trace_id = trace_parent.and_then(trace::trace_id).map_or_else(trace::new_trace_id, str::to_owned);
    // Unless the caller says otherwise, one session (or one trace, where there are no sessions) is one chain.
    let chain = chain.or_else(|| caller.session.clone()).unwrap_or_else(|| match trace_parent {
        Some(_) => trace_id.clone(),
        None => caller.client.clone().unwrap_or_default(),
    });
    let proposal = Box::new(Proposal {
        call_id: CallId::new(),
        caller,
        tool,
        arguments,
        received_at: calls.core.clock.now(),
        trace_id,
        chain,
        caller_wait_ms: terms.caller_wait_ms,
        keys,
        aims,
    });
    (proposal, Box::new(CallContext::new(guest, terms, task, Instant::now())))
}
