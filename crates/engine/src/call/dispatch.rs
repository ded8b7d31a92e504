//! Sends a fenced call to its upstream and waits for what comes back, with everything the server asks on the way.

use std::sync::Arc;

use servanda_contract::{GateName, ToolContract};
use servanda_gates::{CompiledContract, Fenced, Permit, Stopwatch as _};
use servanda_mcp::Era;
use servanda_upstream::{CallRequirements, UpstreamRequester};
use tokio::time::Instant;

use super::{
    context::CallContext,
    evidence::{CallExchange, CallExit, CallPlan, PerformedCall, SendableCall},
    probing::{self, CancelledByCaller, ProbedCall},
    repeatable_call::{CallRetries, RepeatableCall, ResendAuthority},
    state::CallPipeline,
};
use crate::{
    answers::refusals,
    bridge::{Conversation, ConversationEnd, MessageTranslator, QuestionTarget},
    cache::PendingRead,
    deferred::upstream_tasks,
    delivery_template::{DeliveryTemplate, param_headers},
    trace,
    world::UpstreamMember,
};

impl CallPipeline<'_> {
    /// Takes the contract's probes before the call is sent.
    pub(super) async fn look_before(
        &self,
        permit: &Permit,
        plan: &CallPlan,
        context: &CallContext,
    ) -> Result<Option<Box<ProbedCall>>, CallExit> {
        let looked =
            probing::look_before(self.calls, self.snapshot, permit, plan.deadline, &context.terms.cancel).await;
        looked.map_err(|CancelledByCaller| CallExit::not_sent(refusals::given_up(permit.call_id().clone())))
    }

    /// Sends the call and waits for its end. The error is for a call whose evidence was lost.
    pub(super) async fn perform(
        &mut self,
        sendable: SendableCall,
        around: Option<Box<ProbedCall>>,
        plan: CallPlan,
        to_cache: Option<Box<PendingRead>>,
        mut context: Box<CallContext>,
    ) -> Result<Box<PerformedCall>, CallExit> {
        let SendableCall { fenced, lease, mut dispatch } = sendable;
        let CallPlan { member, contract, deadline, changes, operation_id, refused_questions, .. } = plan;
        let (binding, cancel, requester_era) =
            (context.binding.take(), context.terms.cancel.clone(), context.requester.era);
        let call_id = fenced.call_id().clone();
        self.charge.mark_sent();
        dispatch.probed = around;
        dispatch.mutation = changes.is_some().then(|| self.core.mutations.begin());
        self.record.dispatched_at = Some(self.core.clock.now());
        let (entered, submits) = self.begin_work(&member, &fenced, deadline, &mut context).await;
        dispatch.entered = entered;
        let wants_task = context.task.is_some();
        let started_us = self.stopwatch.elapsed_us();
        let (mut repeatable, mut conversation) =
            self.prepare(&member, &contract, fenced, deadline, context, submits).await;
        repeatable.template.lease = lease;
        repeatable.template.set_key(contract.contract(), repeatable.fenced.as_ref(), operation_id.as_deref());
        conversation.rules = conversation.rules.refusing(&refused_questions);
        // The cache is invalidated before the call, because reads from now on may see the change, and after it, because reads until then
        // may not have.
        self.changed(&member, changes.as_deref());
        let mut questions = Vec::new();
        let ending = conversation.run(&mut repeatable, &mut questions).await;
        self.changed(&member, changes.as_deref());
        self.record.questions = questions;
        self.trail.note(GateName::Perform, !matches!(ending, ConversationEnd::Failed(_)), started_us);
        self.record.attempts = Some(repeatable.retries.made).filter(|made| *made > 1);
        let (retry_after_ms, was_task) = (repeatable.retries.retry_after_ms, repeatable.was_task);
        // The upstream always gives the call back; without it there is no evidence to continue with.
        let Some(fenced) = repeatable.fenced else {
            return Err(CallExit::not_dispatched(refusals::lost_evidence(call_id), dispatch));
        };
        let late = repeatable.late;
        let exchange = CallExchange {
            member,
            contract,
            fenced,
            requester_era,
            wants_task,
            retry_after_ms,
            was_task,
            deadline,
            refused_questions,
            late,
        };
        Ok(Box::new(PerformedCall { exchange, ending, dispatch, to_cache, binding, cancel }))
    }

    async fn prepare(
        &self,
        member: &Arc<UpstreamMember>,
        contract: &CompiledContract,
        fenced: Fenced,
        deadline: Instant,
        context: Box<CallContext>,
        submits: bool,
    ) -> (RepeatableCall, Conversation<'_>) {
        let subscriber = context.subscriber(&self.calls.sessions);
        let progress_recorder = self.progress_recorder(&fenced);
        let CallContext { requester, terms, task, continuation, parked_request, .. } = *context;
        let cancel = parked_request
            .as_ref()
            .map_or_else(|| terms.cancel.clone(), |parked_request| parked_request.cancel.clone());
        let wants_task = submits || (task.is_some() && requester.era == Era::Legacy);
        let capabilities = upstream_tasks::capabilities(&requester, member, wants_task, deadline).await;
        let upstream_requester = UpstreamRequester { capabilities, ..requester.upstream_requester() };
        let level = self.calls.sessions.level(&requester, terms.log_level.as_deref());
        self.calls.sessions.send_level(member, &upstream_requester, level, deadline).await;
        let entrusted = member.server.is_shown_credentials().then(|| entrusted(contract, fenced.arguments()));
        let contract = contract.contract();
        let param_headers = param_headers::headers_for(&contract.affordance.input_schema, fenced.arguments());
        let template = DeliveryTemplate {
            cancel: cancel.clone(),
            upstream_requester,
            wants_progress: terms.wants_progress || self.work.is_some(),
            log_level: level.map(|level| level.as_str().to_owned()),
            trace_parent: trace::trace_parent_for_upstream(self.core, &self.record, terms.trace_parent),
            meta: upstream_tasks::with_their_id(&self.calls.deferred, &requester, terms.meta).await,
            key_header: None,
            entrusted,
            lease: None,
        };
        let affinity = Arc::clone(&requester.affinity);
        let (has_stream, is_parked) = (subscriber.sink.is_some(), parked_request.is_some());
        let question_target = QuestionTarget::new(requester.era, requester.capabilities, has_stream, is_parked);
        let message_translator = MessageTranslator::new(&self.calls.bridge, member, requester.era, &requester.affinity)
            .with_progress_recorder(progress_recorder.clone());
        let mandate = ResendAuthority { core: Arc::clone(self.core), authority: requester.authority };
        let repeatable = RepeatableCall {
            member: Arc::clone(member),
            fenced: Some(fenced),
            template,
            param_headers,
            task,
            submits,
            progress_recorder,
            retries: self.retries(contract),
            mandate,
            was_task: false,
            late: None,
        };
        let bridge = &self.calls.bridge;
        let rules = self.snapshot.question_rules(member).asking(&affinity, &bridge.elicitations);
        let conversation = Conversation {
            bridge,
            question_target,
            message_translator,
            subscriber,
            parked_request,
            cancel,
            deadline,
            continuation,
            rules,
        };
        (repeatable, conversation)
    }

    /// How often the contract lets the call be sent again.
    fn retries(&self, contract: &ToolContract) -> CallRetries {
        CallRetries {
            retries_max: contract.runtime.max_retries,
            policy: contract.execution.as_ref().and_then(|execution| execution.retry.clone()),
            retry_counters: Arc::clone(&self.calls.retry_counters),
            made: 0,
            retry_after_ms: None,
        }
    }

    fn changed(&self, member: &UpstreamMember, changes: Option<&[String]>) {
        if let Some(changes) = changes {
            self.core.cache.invalidate(&member.id, changes);
        }
    }
}

/// What the call was judged to need, for an upstream that is shown credentials.
fn entrusted(contract: &CompiledContract, arguments: &[u8]) -> Arc<CallRequirements> {
    let (scopes, class) = (contract.scopes().clone(), contract.class_of(arguments));
    Arc::new(CallRequirements { tool: contract.contract().identity.name.clone(), scopes, class })
}
