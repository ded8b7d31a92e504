//! Admits a call before its tool is resolved: limits, strict JSON beside its arguments, and the `requestState` that it brings.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_contract::{
    CallId, CallRecord, Digest, GateName, Proposal, Refusal, TaxonomyClass,
    digest::DigestDomain,
    observation::{Observation, Verification},
    record::Outcome,
};
use servanda_effects::{
    RecordsRefused,
    effect::{ClientKey, EffectKey},
};
use servanda_mcp::{Era, RpcError, fields::method};
use tokio::time::Instant;

use super::{
    Calls,
    context::{CallContext, ResumedState},
};
use crate::{
    answers::{refusals, tool_result},
    bridge::{ClientContinuation, OpenedRequest, RequestBinding},
    client::{CallAnswer, CallRequest, strict_json},
    records, trace,
    world::WorldSnapshot,
};

/// A call that may be judged.
#[derive(Debug)]
pub(super) struct AdmittedCall {
    pub(super) snapshot: Arc<WorldSnapshot>,
    pub(super) proposal: Box<Proposal>,
    pub(super) record: CallRecord,
    pub(super) context: Box<CallContext>,
}

/// Whether a request is a new call or the return to a parked one.
#[derive(Debug)]
pub(super) enum CallAdmission {
    /// A call.
    Call(Box<AdmittedCall>),
    /// A client returns to its parked call with the answers that it was asked for.
    Return { id: String, first_call: Option<CallId>, answers: Option<Box<RawValue>>, context: Box<CallContext> },
}

/// Admits a call. The error is the answer of a call that is not admitted.
pub(super) async fn admit(calls: &Calls, request: CallRequest) -> Result<CallAdmission, CallAnswer> {
    let (proposal, context) = propose(calls, request);
    let trace = trace::standing(context.terms.trace_parent.as_deref());
    let record = CallRecord { trace, ..CallRecord::new(&proposal) };
    let admitted = Box::new(AdmittedCall { snapshot: calls.core.snapshot(), proposal, record, context });
    if let Some(wait_ms) = calls.core.refused_calls.wait_ms(&admitted.proposal.caller) {
        let refusal = refusals::too_many_refused(&admitted.record.call_id, wait_ms);
        return Err(admitted.refuse_unread(calls, refusal));
    }
    // No call without a record.
    if let Some(refused) = calls.core.journal.refuses_records() {
        if admitted.needs_room_that_is_gone(&refused) {
            let (RecordsRefused::Waiting(reason) | RecordsRefused::NoRoom(reason)) = refused;
            calls.core.outages.call_is_unread(&reason);
            let refusal = refusals::no_record_possible(&admitted.record.call_id, &reason);
            return Err(admitted.refuse_unread(calls, refusal));
        }
    } else {
        calls.core.outages.call_is_read();
    }
    let CallContext { task, terms, requester, .. } = &*admitted.context;
    let task = task.as_deref().map_or(Ok(()), |task| strict_json::check("task", task, calls.core.gate_limits));
    if let Err(error) = task.and_then(|()| strict_json::check_terms(terms, calls.core.gate_limits)) {
        return Err(admitted
            .refuse(calls, error, "make the call again; the members beside its arguments must be strict JSON too")
            .await);
    }
    match requester.era {
        Era::Legacy => Ok(CallAdmission::Call(admitted)),
        Era::Modern => admitted.open_state(calls).await,
    }
}

/// The key of the effect of a call whose client gave an idempotency key. It is known before the gates judge the call, because an earlier
/// call may have done something under this key, and a refusal must not claim otherwise.
pub(super) fn given_key(snapshot: &WorldSnapshot, proposal: &Proposal) -> Option<EffectKey> {
    let keys = &proposal.keys;
    let key = keys.idempotency_key.as_ref().or(keys.header_key.as_ref())?;
    let contract = snapshot.catalog.entry(&proposal.tool)?.contract.contract();
    contract.effect_class().mutates().then(|| EffectKey {
        tenant: proposal.caller.tenant.clone(),
        principal: proposal.caller.principal.clone(),
        tool: contract.identity.name.clone(),
        contract_major: contract.identity.major(),
        client_key: ClientKey::Given(key.clone()),
    })
}

impl AdmittedCall {
    /// Opens the sealed `requestState` that a modern client brings, and binds the next one to this request.
    async fn open_state(mut self: Box<Self>, calls: &Calls) -> Result<CallAdmission, CallAnswer> {
        let request = [method::TOOLS_CALL.as_bytes(), self.record.arguments_digest.as_bytes()];
        let mut binding = RequestBinding {
            caller: self.proposal.caller.clone(),
            request: Digest::compute(DigestDomain::Request, &request),
            first_call: Some(self.proposal.call_id.clone()),
            key: None,
        };
        let terms = &mut self.context.terms;
        let answers = terms.input_responses.take();
        let brought =
            ClientContinuation { input_responses: answers.clone(), request_state: terms.request_state.take() };
        match calls.bridge.open(brought, &binding).await {
            Ok(OpenedRequest::Fresh(continuation)) => self.context.continuation = continuation,
            Ok(OpenedRequest::Round { upstream, nonce, continuation, first_call, key }) => {
                (self.context.continuation, self.context.continues) = (continuation, first_call);
                self.context.state = Some(ResumedState { upstream, nonce, key });
            }
            // What the client answered is dropped: only people decide, and the ticket says what they decided.
            Ok(OpenedRequest::ApprovalPage) => self.context.was_sent_to_page = true,
            Ok(OpenedRequest::Parked { id, first_call }) => {
                return Ok(CallAdmission::Return { id, first_call, answers, context: self.context });
            }
            Err(error) => return Err(self.refuse(calls, error, "make the call again without `requestState`").await),
        }
        binding.first_call = self.context.continues.clone().or(binding.first_call);
        self.context.binding = Some(binding);
        Ok(CallAdmission::Call(self))
    }

    /// Whether this call would get no record. A ledger whose last room is for calls that change something still takes those, and what is
    /// known about them; it refuses new ones at the fence.
    fn needs_room_that_is_gone(&self, refused: &RecordsRefused) -> bool {
        let is_change = || {
            let entry = self.snapshot.catalog.entry(&self.proposal.tool);
            entry.is_some_and(|entry| entry.contract.contract().effect_class().mutates())
        };
        matches!(refused, RecordsRefused::Waiting(_)) || !is_change()
    }

    /// Answers a call that is not read: its principal had too many calls refused, or the ledger takes no records. It gets no record.
    fn refuse_unread(mut self: Box<Self>, calls: &Calls, mut refusal: Refusal) -> CallAnswer {
        if given_key(&self.snapshot, &self.proposal).is_some() {
            refusal.mark_unknown_before();
        }
        self.record.finished_at = Some(calls.core.clock.now());
        let observation =
            Observation::from_refusal(&tool_result::occasion(&self.record), &refusal, Verification::none());
        CallAnswer::Result(tool_result::from_refusal(refusal, observation))
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
        records::write_record(&calls.core, record, false, None).await;
        CallAnswer::Failed(error)
    }
}

fn propose(calls: &Calls, request: CallRequest) -> (Box<Proposal>, Box<CallContext>) {
    let CallRequest { requester, tool, arguments, chain, keys, aims, task, terms } = request;
    let caller = requester.caller.clone();
    let trace_parent = terms.trace_parent.as_deref();
    let trace_id = trace::trace_id(trace_parent);
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
    (proposal, Box::new(CallContext::new(requester, terms, task, Instant::now())))
}
