//! Sends a fenced call to its upstream and waits for what comes back, with everything the server asks on the way.

use std::{sync::Arc, time::Duration};

use servanda_contract::{
    GateName, Refusal,
    refusal::EffectKnowledge,
    tool::{EffectClass, QuestionKind},
};
use servanda_effects::effect::{Awaits, Claim, End};
use servanda_gates::{CompiledContract, Fenced, Permit, Stopwatch as _};
use servanda_mcp::Era;
use servanda_upstream::{Counterpart, Entrusted, Lease};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    context::CallContext,
    errand::{CallErrand, Persistence, StandingMandate},
    exits::Exit,
    headers,
    pipeline::CallPipeline,
};
use crate::{
    bridge::{self, Conversation, Ending, Listener, Outlet, ROUND_MS_MAX},
    cache::UnderWay,
    core::Held,
    late::LateAnswer,
    outline::Outline,
    probes::{self, Around, GivenUp, Mutation},
    records, refusals,
    scene::Member,
    sessions, tasks,
    turns::Turn,
    works::Entered,
};

/// A day: no call takes longer, whatever its contract says.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// What is decided about a call before it is paid for: who performs it, and until when.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) member: Arc<Member>,
    pub(super) contract: Arc<CompiledContract>,
    /// How long a dispatch may take.
    pub(super) timeout_ms: u64,
    /// When the answer has to be there.
    pub(super) deadline: Instant,
    /// The resources that the call changes; none if it only reads.
    changes: Option<Vec<String>>,
    operation_id: Option<String>,
    /// What the server may not ask of the caller.
    refused_questions: Vec<QuestionKind>,
}

/// What a call holds from its turn until its end is on record.
#[derive(Debug, Default)]
pub(super) struct Dispatch {
    /// The effect that it is.
    pub(super) effect: Option<Mark>,
    /// No other call changes the same resources meanwhile.
    pub(super) _turn: Option<Turn>,
    /// Clients can ask about it as long work.
    pub(super) entered: Option<Entered>,
    /// What the probes saw before it was sent.
    pub(super) around: Option<Box<Around>>,
    /// The probes of other calls know that something may change.
    pub(super) mutation: Option<Mutation>,
}

/// The effect of a call, as this process holds it.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) claim: Claim,
    pub(super) held: Held,
    pub(super) class: EffectClass,
    /// The nonce of the state that a later call may continue from, as long as nothing was sent.
    pub(super) continues: Option<String>,
}

/// A call whose bytes may leave.
#[derive(Debug)]
pub(super) struct Sendable {
    pub(super) fenced: Fenced,
    /// How long its bytes may leave; none if it is no effect.
    pub(super) lease: Option<Lease>,
    pub(super) dispatch: Dispatch,
}

/// A call that was sent, and how that ended.
#[derive(Debug)]
pub(super) struct Performed {
    pub(super) exchange: Exchange,
    pub(super) ending: Ending,
    pub(super) dispatch: Dispatch,
    /// The place in the cache for its answer.
    pub(super) to_cache: Option<Box<UnderWay>>,
    /// What a `requestState` for its client is bound to.
    pub(super) binding: Option<bridge::Claim>,
    pub(super) cancel: CancellationToken,
}

/// What the end of a call depends on.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) member: Arc<Member>,
    pub(super) contract: Arc<CompiledContract>,
    pub(super) fenced: Fenced,
    pub(super) guest_era: Era,
    pub(super) wants_task: bool,
    /// When the server wants to be asked again.
    pub(super) retry_after_ms: Option<u64>,
    /// Whether the server made a task of the call and the gateway waited for it.
    pub(super) was_task: bool,
    pub(super) deadline: Instant,
    pub(super) refused_questions: Vec<QuestionKind>,
    /// The answer that may still come after the deadline.
    pub(super) late: Option<LateAnswer>,
}

impl Dispatch {
    /// What a refusal means for the effect. A call that continued from a state and was not sent may continue from it again.
    pub(super) fn end_of_refusal(&self, refusal: &Refusal) -> End {
        let continues = self.effect.as_ref().and_then(|effect| effect.continues.as_ref());
        match (refusal.effect, continues) {
            (EffectKnowledge::None, Some(nonce)) => End::Awaits(Awaits::Input(nonce.clone()), ROUND_MS_MAX),
            _ => records::end_of_refusal(refusal),
        }
    }

    /// The call may have been sent, so the state that it continued from is used up.
    pub(super) fn use_up_state(&mut self) {
        if let Some(effect) = &mut self.effect {
            effect.continues = None;
        }
    }
}

impl CallPipeline<'_> {
    /// Finds the server of a permitted call, and decides how long it may take.
    pub(super) fn plan(&mut self, permit: &Permit, context: &CallContext) -> Result<Plan, Exit> {
        let id = &permit.contract().contract().binding.upstream;
        let no_upstream = || Exit::not_sent(refusals::no_upstream(permit.call_id().clone(), id));
        let member = self.scene.member(id).cloned().ok_or_else(no_upstream)?;
        let (of_contract_ms, wait_ms) = self.limits_ms(permit);
        let timeout_ms = of_contract_ms.min(wait_ms.unwrap_or(u64::MAX));
        self.record.deadline_ms = Some(timeout_ms);
        Ok(Plan {
            member,
            contract: permit.shared_contract(),
            timeout_ms,
            deadline: self.deadline(permit),
            changes: permit.effect_class().mutates().then(|| permit.changes()),
            operation_id: permit.operation().operation_id().map(str::to_owned),
            refused_questions: self.refused_questions(permit, &context.guest.authority),
        })
    }

    /// Takes the contract's probes before the call is sent.
    pub(super) async fn look_before(
        &self,
        permit: &Permit,
        plan: &Plan,
        context: &CallContext,
    ) -> Result<Option<Box<Around>>, Exit> {
        let looked = probes::look_before(self.core, self.scene, permit, plan.deadline, &context.terms.cancel).await;
        looked.map_err(|GivenUp| Exit::not_sent(refusals::given_up(permit.call_id().clone())))
    }

    /// Sends the call and waits for its end. The error is for a call whose evidence was lost.
    pub(super) async fn perform(
        &mut self,
        sendable: Sendable,
        around: Option<Box<Around>>,
        plan: Plan,
        to_cache: Option<Box<UnderWay>>,
        mut context: CallContext,
    ) -> Result<Box<Performed>, Exit> {
        let Sendable { fenced, lease, mut dispatch } = sendable;
        let Plan { member, contract, deadline, changes, operation_id, refused_questions, .. } = plan;
        let (binding, cancel, guest_era) = (context.binding.take(), context.terms.cancel.clone(), context.guest.era);
        let call_id = fenced.call_id().clone();
        self.charge.sent();
        dispatch.around = around;
        dispatch.mutation = changes.is_some().then(|| self.core.lookout.mutations.begin());
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
        context: CallContext,
        submits: bool,
    ) -> (CallErrand, Conversation<'_>) {
        let hearer = context.hearer(self.core);
        let ear = self.ear(&fenced);
        let CallContext { guest, terms, task, continuation, reception, .. } = context;
        let cancel = reception.as_ref().map_or_else(|| terms.cancel.clone(), |reception| reception.cancel.clone());
        let wants_task = submits || (task.is_some() && guest.era == Era::Legacy);
        let capabilities = tasks::capabilities(&guest, member, wants_task, deadline).await;
        let counterpart = Counterpart { capabilities, ..sessions::counterpart(&guest) };
        let level = self.core.sessions.level(&guest, terms.log_level.as_deref());
        self.core.sessions.tell_level(member, &counterpart, level, deadline).await;
        let entrusted = member.server.is_shown_credentials().then(|| entrusted(contract, fenced.arguments()));
        let contract = contract.contract();
        let param_headers = headers::of(&contract.affordance.input_schema, fenced.arguments());
        let outline = Outline {
            cancel: cancel.clone(),
            counterpart,
            wants_progress: terms.wants_progress || self.work.is_some(),
            log_level: level.map(|level| level.as_str().to_owned()),
            trace_parent: terms.trace_parent,
            meta: tasks::with_their_id(self.core, &guest, terms.meta).await,
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
        let outlet = Outlet::new(self.core, member, guest.era, &guest.affinity).kept_by(ear.clone());
        let persistence = Persistence {
            retries_max: contract.runtime.max_retries,
            policy: contract.execution.as_ref().and_then(|execution| execution.retry.clone()),
            tallies: Arc::clone(&self.core.tallies),
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
        let bridge = &self.core.bridge;
        let rules = self.scene.question_rules(member).asking(&affinity, &bridge.elicitations);
        let conversation =
            Conversation { bridge, listener, outlet, hearer, reception, cancel, deadline, continuation, rules };
        (errand, conversation)
    }

    pub(super) fn changed(&self, member: &Member, changes: Option<&[String]>) {
        if let Some(changes) = changes {
            self.core.cache.changed(&member.id, changes);
        }
    }

    /// When the answer has to be there: the contract's time begins when the server is there, the caller's at the door.
    pub(super) fn deadline(&self, permit: &Permit) -> Instant {
        let (of_contract_ms, wait_ms) = self.limits_ms(permit);
        let of_contract = self.begun + Duration::from_millis(of_contract_ms);
        wait_ms.map_or(of_contract, |wait_ms| of_contract.min(self.started + Duration::from_millis(wait_ms)))
    }

    /// How long the contract lets a call take, and how long its caller waits, where it says so. Long work goes on when its
    /// caller stops waiting.
    fn limits_ms(&self, permit: &Permit) -> (u64, Option<u64>) {
        let wait_ms = permit.proposal().caller_wait_ms.filter(|_| self.work.is_none());
        let of_contract_ms = permit.contract().contract().timeout_ms();
        (of_contract_ms.min(TIMEOUT_MS_MAX), wait_ms.map(|wait_ms| wait_ms.min(TIMEOUT_MS_MAX)))
    }
}

/// What the call was judged to need, for an upstream that is told.
fn entrusted(contract: &CompiledContract, arguments: &[u8]) -> Arc<Entrusted> {
    let (scopes, class) = (contract.scopes().clone(), contract.class_of(arguments));
    Arc::new(Entrusted { tool: contract.contract().identity.name.clone(), scopes, class })
}
