//! Sends a fenced call to its upstream and waits for what comes back, with everything the server asks on the way.

use std::sync::Arc;

use servanda_contract::GateName;
use servanda_gates::{CompiledContract, Fenced, Permit, Stopwatch as _};
use servanda_mcp::Era;
use servanda_upstream::{Counterpart, Entrusted};
use tokio::time::Instant;

use super::{
    context::CallContext,
    errand::{CallErrand, Persistence, StandingMandate},
    evidence::{Exchange, Exit, Performed, Plan, Sendable},
    probing::{self, Around, GivenUp},
    state::CallPipeline,
};
use crate::{
    answers::refusals,
    bridge::{Conversation, Ending, Listener, Outlet},
    cache::UnderWay,
    deferred::upstream_tasks,
    delivery_template::{Outline, param_headers},
    world::Member,
};

impl CallPipeline<'_> {
    /// Takes the contract's probes before the call is sent.
    pub(super) async fn look_before(
        &self,
        permit: &Permit,
        plan: &Plan,
        context: &CallContext,
    ) -> Result<Option<Box<Around>>, Exit> {
        let looked = probing::look_before(self.calls, self.scene, permit, plan.deadline, &context.terms.cancel).await;
        looked.map_err(|GivenUp| Exit::not_sent(refusals::given_up(permit.call_id().clone())))
    }

    /// Sends the call and waits for its end. The error is for a call whose evidence was lost.
    pub(super) async fn perform(
        &mut self,
        sendable: Sendable,
        around: Option<Box<Around>>,
        plan: Plan,
        to_cache: Option<Box<UnderWay>>,
        mut context: Box<CallContext>,
    ) -> Result<Box<Performed>, Exit> {
        let Sendable { fenced, lease, mut dispatch } = sendable;
        let Plan { member, contract, deadline, changes, operation_id, refused_questions, .. } = plan;
        let (binding, cancel, guest_era) = (context.binding.take(), context.terms.cancel.clone(), context.guest.era);
        let call_id = fenced.call_id().clone();
        self.charge.sent();
        dispatch.around = around;
        dispatch.mutation = changes.is_some().then(|| self.core.mutations.begin());
        self.record.dispatched_at = Some(self.core.clock.now());
        let (entered, submits) = self.begin_work(&member, &fenced, deadline, &mut context).await;
        dispatch.entered = entered;
        let wants_task = context.task.is_some();
        let started_us = self.stopwatch.elapsed_us();
        let (mut errand, mut conversation) = self.prepare(&member, &contract, fenced, deadline, context, submits).await;
        errand.outline.lease = lease;
        errand.outline.carry_key(contract.contract(), errand.fenced.as_ref(), operation_id.as_deref());
        conversation.rules = conversation.rules.refusing(&refused_questions);
        // Before, because an answer that is read from now on may be new; and after, because it may still have been old.
        self.changed(&member, changes.as_deref());
        let mut questions = Vec::new();
        let ending = conversation.run(&mut errand, &mut questions).await;
        self.changed(&member, changes.as_deref());
        self.record.questions = questions;
        self.trail.note(GateName::Perform, !matches!(ending, Ending::Failed(_)), started_us);
        self.record.attempts = Some(errand.persistence.made).filter(|made| *made > 1);
        let (retry_after_ms, was_task) = (errand.persistence.retry_after_ms, errand.was_task);
        // The upstream always gives the call back; without it there is no evidence to go on with.
        let Some(fenced) = errand.fenced else {
            return Err(Exit::not_dispatched(refusals::lost_evidence(call_id), dispatch));
        };
        let late = errand.late;
        let exchange = Exchange {
            member,
            contract,
            fenced,
            guest_era,
            wants_task,
            retry_after_ms,
            was_task,
            deadline,
            refused_questions,
            late,
        };
        Ok(Box::new(Performed { exchange, ending, dispatch, to_cache, binding, cancel }))
    }

    async fn prepare(
        &self,
        member: &Arc<Member>,
        contract: &CompiledContract,
        fenced: Fenced,
        deadline: Instant,
        context: Box<CallContext>,
        submits: bool,
    ) -> (CallErrand, Conversation<'_>) {
        let hearer = context.hearer(&self.calls.sessions);
        let ear = self.ear(&fenced);
        let CallContext { guest, terms, task, continuation, reception, .. } = *context;
        let cancel = reception.as_ref().map_or_else(|| terms.cancel.clone(), |reception| reception.cancel.clone());
        let wants_task = submits || (task.is_some() && guest.era == Era::Legacy);
        let capabilities = upstream_tasks::capabilities(&guest, member, wants_task, deadline).await;
        let counterpart = Counterpart { capabilities, ..guest.counterpart() };
        let level = self.calls.sessions.level(&guest, terms.log_level.as_deref());
        self.calls.sessions.tell_level(member, &counterpart, level, deadline).await;
        let entrusted = member.server.is_shown_credentials().then(|| entrusted(contract, fenced.arguments()));
        let contract = contract.contract();
        let param_headers = param_headers::of(&contract.affordance.input_schema, fenced.arguments());
        let outline = Outline {
            cancel: cancel.clone(),
            counterpart,
            wants_progress: terms.wants_progress || self.work.is_some(),
            log_level: level.map(|level| level.as_str().to_owned()),
            trace_parent: terms.trace_parent,
            meta: upstream_tasks::with_their_id(&self.calls.deferred, &guest, terms.meta).await,
            key_header: None,
            entrusted,
            lease: None,
        };
        let affinity = Arc::clone(&guest.affinity);
        let listener = Listener {
            era: guest.era,
            can_be_asked: if guest.era == Era::Legacy { hearer.sink.is_some() } else { reception.is_some() },
            capabilities: guest.capabilities,
        };
        let outlet = Outlet::new(&self.calls.bridge, member, guest.era, &guest.affinity).kept_by(ear.clone());
        let persistence = Persistence {
            retries_max: contract.runtime.max_retries,
            policy: contract.execution.as_ref().and_then(|execution| execution.retry.clone()),
            tallies: Arc::clone(&self.calls.tallies),
            made: 0,
            retry_after_ms: None,
        };
        let mandate = StandingMandate { core: Arc::clone(self.core), authority: guest.authority };
        let errand = CallErrand {
            member: Arc::clone(member),
            fenced: Some(fenced),
            outline,
            param_headers,
            task,
            submits,
            ear,
            persistence,
            mandate,
            was_task: false,
            late: None,
        };
        let bridge = &self.calls.bridge;
        let rules = self.scene.question_rules(member).asking(&affinity, &bridge.elicitations);
        let conversation =
            Conversation { bridge, listener, outlet, hearer, reception, cancel, deadline, continuation, rules };
        (errand, conversation)
    }

    fn changed(&self, member: &Member, changes: Option<&[String]>) {
        if let Some(changes) = changes {
            self.core.cache.changed(&member.id, changes);
        }
    }
}

/// What the call was judged to need, for an upstream that is told.
fn entrusted(contract: &CompiledContract, arguments: &[u8]) -> Arc<Entrusted> {
    let (scopes, class) = (contract.scopes().clone(), contract.class_of(arguments));
    Arc::new(Entrusted { tool: contract.contract().identity.name.clone(), scopes, class })
}
