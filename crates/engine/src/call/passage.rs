//! One call, from proposal to answer. Reads top to bottom in the order things happen.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_contract::{
    CallId, CallRecord, Digest, GateName, Proposal, Refusal, TaxonomyClass, ToolContract,
    digest::Domain,
    observation::{Observation, Occasion, Verification},
    record::{Decision, Outcome, Verdict},
    refusal::EffectKnowledge,
    taxonomy::EnvelopeCode,
    tool::EffectClass,
};
use servanda_gates::{Fenced, Permit, Resolved, Stopwatch as _, Trail, fence, pass_all};
use servanda_mcp::{Era, RpcError, envelope::code};
use servanda_upstream::{Answer, Continuation, Counterpart, PerformFailure};
use tokio::time::Instant;

use super::{errand::CallErrand, headers};
use crate::{
    answer,
    bridge::{Claim, Conversation, Ending, Hearer, Listener, NotGiven, Outlet, Reception},
    clock::CallStopwatch,
    core::Core,
    gateway::{CallAnswer, Guest, Terms, ToolResult},
    observe,
    outline::Outline,
    records, refusals,
    scene::{Member, Scene},
    tasks::{self, Created},
    upstream_failure,
};

/// How a call is to be answered, and what it goes on from, apart from what it proposes.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) guest: Guest,
    pub(super) terms: Terms,
    pub(super) task: Option<Box<RawValue>>,
    pub(super) started: Instant,
    pub(super) continuation: Continuation,
    /// The first call of the conversation.
    pub(super) continues: Option<CallId>,
    /// The state it goes on from.
    pub(super) round: Option<Round>,
    /// What a state for a modern guest says.
    pub(super) claim: Option<Claim>,
    /// Where a modern guest that can be asked something waits.
    pub(super) reception: Option<Arc<Reception>>,
}

/// What a state of ours says about the round that it begins.
#[derive(Debug)]
pub(super) struct Round {
    /// The only upstream that it may go on at.
    pub(super) upstream: String,
    pub(super) nonce: String,
}

/// One call on its way.
pub(super) struct Passage<'a> {
    core: &'a Arc<Core>,
    scene: &'a Scene,
    started: Instant,
    /// When its server was there to be called: to start one takes as long as it takes.
    begun: Instant,
    stopwatch: &'a CallStopwatch,
    trail: Trail<'a>,
    record: CallRecord,
    chain: String,
}

impl Way {
    pub(super) fn new(guest: Guest, terms: Terms, task: Option<Box<RawValue>>, started: Instant) -> Self {
        Self {
            guest,
            terms,
            task,
            started,
            continuation: Continuation::default(),
            continues: None,
            round: None,
            claim: None,
            reception: None,
        }
    }

    /// Who hears what is said on the way.
    pub(super) fn hearer(&self, core: &Core) -> Hearer {
        let level = core.sessions.level(&self.guest, self.terms.log_level.as_deref());
        Hearer { sink: self.terms.remarks.clone(), level }
    }
}

impl Passage<'_> {
    /// Takes a call through.
    pub(super) async fn take(
        core: &Arc<Core>,
        scene: &Scene,
        proposal: Proposal,
        mut record: CallRecord,
        way: Way,
    ) -> CallAnswer {
        let stopwatch = CallStopwatch::start();
        let trail = Trail::new(&stopwatch);
        let (started, chain) = (way.started, proposal.chain.clone());
        record.continues.clone_from(&way.continues);
        Passage { core, scene, started, begun: started, stopwatch: &stopwatch, trail, record, chain }
            .run(proposal, way)
            .await
    }

    async fn run(mut self, proposal: Proposal, mut way: Way) -> CallAnswer {
        // Whoever gives up waits for no list; the upstream hears of it first.
        tokio::select! {
            () = self.scene.discovery.acquaint(&proposal, &way.guest) => {}
            () = way.terms.cancel.cancelled() => {}
        }
        self.begun = Instant::now();
        let resolved = match self.resolve(proposal, &way.guest, way.round.as_ref().map(|round| round.upstream.as_str()))
        {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse_unresolved(refusal).await,
        };
        let contract = resolved.contract().clone();
        self.record.contract = Some(contract.reference());
        let permit = match pass_all(resolved, self.core.gate_limits, &mut self.trail) {
            Ok(permit) => permit,
            Err(mut refusal) => {
                self.core.repairs.refused(&self.record, &self.chain, &mut refusal);
                return CallAnswer::Result(self.refuse(contract.contract(), *refusal, Outcome::Refused, None).await);
            }
        };
        self.core.repairs.passed(&self.record, &self.chain);
        self.record.proposal_digest = Some(permit.proposal_digest());
        let nonce = match self.enter_round(&permit, &mut way).await {
            Ok(nonce) => nonce,
            Err(error) => return self.refuse_round(error).await,
        };
        let claim = way.claim.clone();
        let (guest_era, wants_task) = (way.guest.era, way.task.is_some());
        let (member, fenced, ending) = match self.perform(permit, way).await {
            Ok(performed) => performed,
            Err(refusal) => {
                let unsent = refusal.effect == EffectKnowledge::None;
                self.leave_round(nonce.filter(|_| unsent)).await;
                let outcome = if unsent { Outcome::NotExecuted } else { Outcome::Unknown };
                return CallAnswer::Result(self.refuse(contract.contract(), *refusal, outcome, None).await);
            }
        };
        let unsent = matches!(&ending, Ending::Failed(failure) if failure.provably_not_executed());
        self.leave_round(nonce.filter(|_| unsent)).await;
        let exchange = Exchange { member, fenced, guest_era, wants_task };
        match ending {
            Ending::Answered(answer) => self.answered(exchange, answer).await,
            Ending::Task(answer) => self.answered_with_task(exchange, answer).await,
            Ending::Failed(failure) => self.failed(&exchange, failure).await,
            Ending::Input(answer) => self.input_required(&exchange, &answer, claim).await,
            Ending::Undeclared { answer, required } => self.undeclared(&exchange, &answer, &required).await,
            Ending::NotGiven { answer, what } => self.not_given(&exchange, &answer, what).await,
        }
    }

    /// Uses the state up that a call which may change something goes on from: what it stands for happens once. Such a call
    /// without a state was asked nothing, so that it has nothing to answer. Reads may be repeated, and told anything.
    async fn enter_round(&self, permit: &Permit, way: &mut Way) -> Result<Option<String>, RpcError> {
        if !permit.effect_class().mutates() {
            return Ok(None);
        }
        let Some(Round { nonce, .. }) = way.round.take() else {
            way.continuation.input_responses = None;
            return Ok(None);
        };
        let deadline = self.deadline(permit);
        let spent = tokio::time::timeout_at(deadline, self.core.bridge.spend(&nonce, permit.call_id()));
        spent.await.unwrap_or_else(|_| Err(no_time()))?;
        Ok(Some(nonce))
    }

    /// Gives a state back on whose behalf nothing was sent.
    async fn leave_round(&self, unused: Option<String>) {
        if let Some(nonce) = unused {
            self.core.bridge.unspend(&nonce).await;
        }
    }

    async fn refuse_round(mut self, error: RpcError) -> CallAnswer {
        let refusal = refusals::round_refused(&self.record.call_id, &error);
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        self.put_on_record(false, None).await;
        CallAnswer::Failed(error)
    }

    fn resolve(
        &mut self,
        proposal: Proposal,
        guest: &Guest,
        only_upstream: Option<&str>,
    ) -> Result<Resolved, Box<Refusal>> {
        let catalog = &self.scene.catalog;
        self.trail.judge(GateName::Resolve, || match catalog.resolve(&proposal.tool, &guest.capabilities) {
            // The world changed between two rounds: an upstream's state is nobody else's.
            Ok(contract) if only_upstream.is_some_and(|only| only != contract.contract().binding.upstream) => {
                Err(Box::new(refusals::moved(proposal.call_id.clone())))
            }
            Ok(contract) => Ok(Resolved::new(proposal, contract)),
            Err(reason) => Err(Box::new(refusals::not_resolved(&proposal, reason))),
        })
    }

    /// Fences a permitted call and has it performed, with everything that is asked on the way. An error means that nothing
    /// was sent.
    async fn perform(&mut self, permit: Permit, way: Way) -> Result<(Arc<Member>, Fenced, Ending), Box<Refusal>> {
        let member = self.member(&permit)?;
        let deadline = self.deadline(&permit);
        let (of_contract_ms, wait_ms) = limits_ms(&permit);
        self.record.deadline_ms = Some(of_contract_ms.min(wait_ms.unwrap_or(u64::MAX)));
        let call_id = permit.call_id().clone();
        let fenced = self.fence(permit, deadline).await?;
        self.record.dispatched_at = Some(self.core.clock.now());
        let started_us = self.stopwatch.elapsed_us();
        let (mut errand, conversation) = self.prepare(&member, fenced, deadline, way).await;
        let ending = conversation.run(&mut errand).await;
        self.trail.note(GateName::Perform, !matches!(ending, Ending::Failed(_)), started_us);
        // The upstream always gives the call back; without it there is no evidence to go on with.
        let fenced = errand.fenced.ok_or_else(|| refusals::lost_evidence(call_id))?;
        Ok((member, fenced, ending))
    }

    async fn prepare(
        &self,
        member: &Arc<Member>,
        fenced: Fenced,
        deadline: Instant,
        way: Way,
    ) -> (CallErrand, Conversation<'_>) {
        let hearer = way.hearer(self.core);
        let Way { guest, terms, task, continuation, reception, .. } = way;
        let cancel = reception.as_ref().map_or_else(|| terms.cancel.clone(), |reception| reception.cancel.clone());
        let capabilities = tasks::capabilities(&guest, member, task.is_some(), deadline).await;
        let counterpart = Counterpart { capabilities, affinity: Arc::clone(&guest.affinity) };
        let level = self.core.sessions.level(&guest, terms.log_level.as_deref());
        self.core.sessions.tell_level(member, &counterpart, level, deadline).await;
        let contract = fenced.permit().contract().contract();
        let param_headers = headers::of(&contract.affordance.input_schema, fenced.arguments());
        let outline = Outline {
            cancel: cancel.clone(),
            counterpart,
            wants_progress: terms.wants_progress,
            log_level: level.map(|level| level.as_str().to_owned()),
            trace_parent: terms.trace_parent,
            meta: tasks::with_their_id(self.core, &guest, terms.meta).await,
        };
        let listener = Listener {
            era: guest.era,
            can_be_asked: if guest.era == Era::Legacy { hearer.sink.is_some() } else { reception.is_some() },
            capabilities: guest.capabilities,
        };
        let outlet = Outlet {
            naming: member.naming,
            upstream: Arc::clone(&member.id),
            guest_era: guest.era,
            tasks: Arc::clone(&self.core.tasks),
        };
        let errand = CallErrand { member: Arc::clone(member), fenced: Some(fenced), outline, param_headers, task };
        let bridge = &self.core.bridge;
        let conversation = Conversation { bridge, listener, outlet, hearer, reception, cancel, deadline, continuation };
        (errand, conversation)
    }

    /// When an answer has to be there: the contract's time begins when the server is there, the caller's at the door.
    fn deadline(&self, permit: &Permit) -> Instant {
        let (of_contract_ms, wait_ms) = limits_ms(permit);
        let of_contract = self.begun + Duration::from_millis(of_contract_ms);
        wait_ms.map_or(of_contract, |wait_ms| of_contract.min(self.started + Duration::from_millis(wait_ms)))
    }

    fn member(&self, permit: &Permit) -> Result<Arc<Member>, Box<Refusal>> {
        let id = &permit.contract().contract().binding.upstream;
        self.scene.member(id).cloned().ok_or_else(|| refusals::no_upstream(permit.call_id().clone(), id))
    }

    /// Puts the call on record before it is sent. A ledger that does not answer in time refuses the call; should its record
    /// still be written later, the one that follows says that nothing was sent.
    async fn fence(&mut self, permit: Permit, deadline: Instant) -> Result<Fenced, Box<Refusal>> {
        let started_us = self.stopwatch.elapsed_us();
        let call_id = permit.call_id().clone();
        let fenced = fence(permit, || self.dispatching_record(), self.core.journal.as_ref());
        let fenced =
            tokio::time::timeout_at(deadline, fenced).await.unwrap_or_else(|_| Err(refusals::fence_too_slow(call_id)));
        self.trail.note(GateName::Fence, fenced.is_ok(), started_us);
        fenced
    }

    /// What a crash leaves behind: everything up to the fence passed, and whether a byte left is not known.
    fn dispatching_record(&self) -> CallRecord {
        let mut verdicts = self.trail.verdicts().to_vec();
        verdicts.push(Verdict { gate: GateName::Fence, decision: Decision::Passed, took_us: 0 });
        let dispatched_at = Some(self.core.clock.now());
        CallRecord { verdicts, dispatched_at, outcome: Outcome::Dispatching, ..self.record.clone() }
    }

    async fn answered(self, exchange: Exchange, answer: Answer) -> CallAnswer {
        // A legacy answer is about a task only where one was asked for; a modern one says so itself.
        if exchange.wants_task && answer.era == Era::Legacy {
            return self.answered_with_task(exchange, answer).await;
        }
        CallAnswer::Result(self.observe(&exchange, answer.result).await)
    }

    async fn answered_with_task(self, exchange: Exchange, answer: Answer) -> CallAnswer {
        match tasks::created(&answer) {
            Some(created) => self.task_created(exchange, &answer, created).await,
            None => CallAnswer::Result(self.observe(&exchange, answer.result).await),
        }
    }

    /// Makes the answer of what the upstream said.
    async fn observe(mut self, exchange: &Exchange, result: Bytes) -> ToolResult {
        let Exchange { member, fenced, .. } = exchange;
        let compiled = fenced.permit().contract();
        let started_us = self.stopwatch.elapsed_us();
        let checked = observe::observe(compiled, &result);
        self.trail.note(GateName::Observe, checked.is_ok(), started_us);
        self.record.answer_digest = Some(Digest::of(Domain::Answer, &[&result]));
        match checked {
            Ok(observed) => {
                let is_error = observed.class != TaxonomyClass::Success;
                let outcome = if is_error { Outcome::ToolError } else { Outcome::Completed };
                self.finish(outcome, observed.class, None);
                let verification = answer::verification(compiled.contract());
                let mut observation = answer::observation(&self.occasion(compiled.contract()), &observed, verification);
                // A tool that failed may have changed something first; only the contract's own keys make a repeat safe.
                observation.status.retryable &= !fenced.effect_class().mutates();
                let answered = answer::of_observed(&observed, &observation, member.exposure(), result.len());
                self.put_on_record(fenced.effect_class().mutates(), None).await;
                answered
            }
            Err(broken) => {
                let refusal = refusals::quarantined(fenced.call_id(), fenced.effect_class(), broken);
                self.refuse(compiled.contract(), refusal, Outcome::Quarantined, Some(result.clone())).await
            }
        }
    }

    async fn failed(mut self, exchange: &Exchange, failure: PerformFailure) -> CallAnswer {
        let contract = exchange.fenced.permit().contract().contract();
        if let Some(error) = upstream_failure::of_protocol(&failure, exchange.guest_era, exchange.wants_task) {
            let effect_class = exchange.fenced.effect_class();
            let (effect, outcome) = upstream_failure::after_protocol_error(effect_class);
            let refusal = refusals::rejected_by_protocol(exchange.fenced.call_id(), &error).with_effect(effect);
            self.finish(outcome, refusal.error_code, Some(&refusal));
            self.put_on_record(effect_class.mutates(), None).await;
            return CallAnswer::Failed(error);
        }
        let (refusal, outcome) = upstream_failure::interpret(exchange.fenced.call_id(), contract, &failure);
        let answered = self.refuse(contract, refusal, outcome, None).await;
        CallAnswer::Result(answer::with_upstream_error(answered, &failure))
    }

    /// The upstream wants input, and its guest can give it: this call is over, and another goes on from it.
    async fn input_required(mut self, exchange: &Exchange, answer: &Answer, claim: Option<Claim>) -> CallAnswer {
        self.wants_input(answer);
        let Some(claim) = claim else { return CallAnswer::Failed(no_claim()) };
        let passed = self.core.bridge.pass_input(answer, &claim, &exchange.member.id).await;
        self.put_on_record(exchange.fenced.effect_class().mutates(), None).await;
        passed.map_or_else(CallAnswer::Failed, CallAnswer::InputRequired)
    }

    /// The upstream wants what the guest never said it could give: a mistake of the upstream's, and the end of the call.
    async fn undeclared(mut self, exchange: &Exchange, answer: &Answer, required: &str) -> CallAnswer {
        let error = refusals::undeclared(required);
        let (effect, outcome) = after_input_not_given(exchange.fenced.effect_class());
        let refusal = refusals::rejected_by_protocol(exchange.fenced.call_id(), &error).with_effect(effect);
        self.wants_input(answer);
        self.record.outcome = outcome;
        (self.record.class, self.record.refusal) = (Some(refusal.error_code), Some(refusal));
        self.put_on_record(exchange.fenced.effect_class().mutates(), None).await;
        CallAnswer::Failed(error)
    }

    async fn not_given(mut self, exchange: &Exchange, answer: &Answer, what: NotGiven) -> CallAnswer {
        self.wants_input(answer);
        let contract = exchange.fenced.permit().contract().contract();
        let (effect, outcome) = after_input_not_given(exchange.fenced.effect_class());
        let refusal = refusals::input_not_given(exchange.fenced.call_id(), &what, effect);
        CallAnswer::Result(self.refuse(contract, refusal, outcome, None).await)
    }

    fn wants_input(&mut self, answer: &Answer) {
        self.record.answer_digest = Some(Digest::of(Domain::Answer, &[&answer.result]));
        self.record.outcome = Outcome::InputRequired;
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.verdicts().to_vec();
    }

    /// The upstream made a task of it. How it ended is recorded when somebody learns of it.
    async fn task_created(mut self, exchange: Exchange, answer: &Answer, created: Created) -> CallAnswer {
        let Exchange { fenced, guest_era, member, .. } = exchange;
        let contract = fenced.permit().contract();
        self.record.outcome = Outcome::TaskCreated;
        self.record.verdicts = self.trail.verdicts().to_vec();
        match tasks::keep(self.core, &member, answer, &created, guest_era, &self.record).await {
            Ok(kept) => {
                self.record.task_id = Some(kept.id);
                self.put_on_record(true, None).await;
                CallAnswer::Task(kept.json)
            }
            Err(error) => {
                tracing::error!(%error, "a task of an upstream could not be kept");
                let refusal = refusals::task_not_kept(fenced.call_id());
                CallAnswer::Result(self.refuse(contract.contract(), refusal, Outcome::Unknown, None).await)
            }
        }
    }

    async fn refuse_unresolved(mut self, refusal: Box<Refusal>) -> CallAnswer {
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        let observation = Observation::of_refusal(&self.occasion_of_record(), &refusal, Verification::none());
        self.put_on_record(false, None).await;
        if refusal.envelope_code == EnvelopeCode::ToolNotFound {
            return CallAnswer::UnknownTool(refusal);
        }
        CallAnswer::Result(answer::of_refusal(&refusal, &observation))
    }

    async fn refuse(
        mut self,
        contract: &ToolContract,
        refusal: Refusal,
        outcome: Outcome,
        quarantine: Option<Bytes>,
    ) -> ToolResult {
        self.finish(outcome, refusal.error_code, Some(&refusal));
        let verification = answer::verification(contract);
        let observation = Observation::of_refusal(&self.occasion(contract), &refusal, verification);
        // What may have happened must not be forgotten; a call that never left may be written down a moment later.
        let durable = refusal.effect != EffectKnowledge::None || quarantine.is_some();
        self.put_on_record(durable, quarantine).await;
        answer::of_refusal(&refusal, &observation)
    }

    fn finish(&mut self, outcome: Outcome, class: TaxonomyClass, refusal: Option<&Refusal>) {
        self.record.outcome = outcome;
        self.record.class = Some(class);
        self.record.refusal = refusal.cloned();
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.take_verdicts();
    }

    async fn put_on_record(self, durable: bool, quarantine: Option<Bytes>) {
        records::put_down(self.core, self.record, durable, quarantine).await;
    }

    fn occasion<'o>(&'o self, contract: &'o ToolContract) -> Occasion<'o> {
        let identity = &contract.identity;
        Occasion { tool: &identity.name, version: &identity.version, ..self.occasion_of_record() }
    }

    fn occasion_of_record(&self) -> Occasion<'_> {
        answer::occasion(&self.record)
    }
}

/// A call that was performed, and what its end depends on.
struct Exchange {
    member: Arc<Member>,
    fenced: Fenced,
    guest_era: Era,
    wants_task: bool,
}

/// What is known of a call whose upstream asked for something and did not get it. Whoever asks may have begun.
fn after_input_not_given(effect_class: EffectClass) -> (EffectKnowledge, Outcome) {
    if effect_class.mutates() {
        (EffectKnowledge::Unknown, Outcome::Unknown)
    } else {
        (EffectKnowledge::None, Outcome::InputRequired)
    }
}

fn no_time() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "that the `requestState` is used could not be put on record in time")
        .with_hint("nothing was sent; operators: `servanda doctor` looks at the ledger")
}

fn no_claim() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the upstream asked for input on behalf of nobody")
}

/// How long the contract lets a call take, and how long its caller waits, where it says so.
fn limits_ms(permit: &Permit) -> (u64, Option<u64>) {
    let wait_ms = permit.proposal().caller_wait_ms.map(|wait_ms| wait_ms.min(TIMEOUT_MS_MAX));
    (permit.contract().contract().timeout_ms().min(TIMEOUT_MS_MAX), wait_ms)
}

/// A day: what no call outlasts, whatever its contract says.
const TIMEOUT_MS_MAX: u64 = 86_400_000;
