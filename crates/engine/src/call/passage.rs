//! One call, from proposal to answer. Reads top to bottom in the order things happen: resolved, judged, fenced, performed;
//! how it ends is in `ending`, and what an operation that is not its to perform is answered with in `replay`.

use std::{sync::Arc, time::Duration};

use servanda_authority::Authenticated;
use servanda_catalog::NotResolved;
use servanda_contract::{
    CallRecord, GateName, Proposal, Refusal, TaxonomyClass,
    record::Outcome,
    refusal::EffectKnowledge,
    tool::{EffectClass, QuestionKind},
};
use servanda_gates::{
    CompiledContract, Fenced, Mandate, Permit, Resolved, Stopwatch as _, Trail,
    effect::{self, Effect, EffectKey, Reply},
    pass_all,
};
use servanda_mcp::Era;
use servanda_upstream::{Counterpart, Entrusted};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    caching,
    errand::{CallErrand, Persistence, StandingMandate},
    fencing::Times,
    headers,
    way::Way,
};
use crate::{
    bridge::{Claim, Conversation, Ending, Listener, NotGiven, Outlet},
    budgets::{Bill, Made},
    cache::UnderWay,
    clock::CallStopwatch,
    core::{Core, Held},
    destinations, expectations,
    gateway::{CallAnswer, Guest},
    late::LateAnswer,
    outline::Outline,
    probes::{self, Around, GivenUp, Mutation},
    refusals,
    scene::{Member, Scene},
    sessions, tasks,
    turns::Turn,
    works::{self, Entered, Work},
};

/// Arguments larger than this are judged in `block_in_place`, so that they hold up no other call: reading a program takes about a
/// microsecond for every byte.
const AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// One call on its way.
pub(super) struct Passage<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) scene: &'a Scene,
    started: Instant,
    /// When its server was there to be called: to start one takes as long as it takes.
    begun: Instant,
    pub(super) stopwatch: &'a CallStopwatch,
    pub(super) trail: Trail<'a>,
    pub(super) record: CallRecord,
    /// The effect it is, once it is fenced.
    pub(super) mark: Option<Mark>,
    /// What the effect of its operation is looked up by, where its client gave a key and the store was not asked about it yet.
    pub(super) unread_key: Option<EffectKey>,
    /// When the store was last asked to let it out.
    pub(super) asked_at: Instant,
    /// The state it goes on from, where that counts.
    pub(super) nonce: Option<String>,
    /// That nobody else changes the same meanwhile, until the end of this call is on record.
    pub(super) turn: Option<Turn>,
    /// The long work it is, if it is one.
    pub(super) work: Option<Arc<Work>>,
    /// That it is under way here and can be asked about, until the end of this call is on record.
    pub(super) entered: Option<Entered>,
    /// What was seen before it was sent, where it is looked around it.
    pub(super) around: Option<Box<Around>>,
    /// That something may be changed, until the end of this call is on record.
    pub(super) mutation: Option<Mutation>,
    /// What it draws, until it is known how it ended.
    pub(super) bill: Bill,
    /// The answer that may still come after its deadline.
    pub(super) late: Option<LateAnswer>,
    chain: String,
}

/// An effect that is this call's.
pub(super) struct Mark {
    pub(super) claim: effect::Claim,
    pub(super) held: Held,
    pub(super) class: EffectClass,
}

/// A call that was performed, and what its end depends on.
pub(super) struct Exchange {
    pub(super) member: Arc<Member>,
    pub(super) contract: Arc<CompiledContract>,
    pub(super) fenced: Fenced,
    pub(super) guest_era: Era,
    pub(super) wants_task: bool,
    /// When the server wants to be asked again.
    pub(super) retry_after_ms: Option<u64>,
    /// Whether the server made a task of it that was waited for.
    pub(super) was_task: bool,
    /// When an answer has to be there.
    pub(super) deadline: Instant,
    /// What its server may not ask of the caller.
    pub(super) refused_questions: Vec<QuestionKind>,
}

/// A call that was not performed.
pub(super) enum NotSent {
    Refused(Box<Refusal>),
    /// Its effect is not its own.
    Standing(Reply, Option<Arc<Effect>>),
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
        let unread_key = super::given_key(scene, &proposal);
        let (stopwatch, mark, nonce, turn, entered) = (&stopwatch, None, None, None, None);
        let (begun, asked_at, work, around, mutation) = (started, started, way.work.clone(), None, None);
        let bill = Bill::new(&core.till);
        #[rustfmt::skip]
        let passage = Passage {
            core, scene, started, begun, stopwatch, trail, record, mark, unread_key, asked_at, nonce, turn, work, entered,
            around, mutation, bill, late: None, chain,
        };
        Box::pin(passage.run(proposal, way)).await
    }

    async fn run(mut self, proposal: Proposal, mut way: Way) -> CallAnswer {
        // Whoever gives up waits for no list; the upstream hears of it first.
        tokio::select! {
            () = self.acquaint(&proposal, &way.guest) => {}
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
        let expected = expectations::of(self.core, self.scene, resolved.proposal(), &contract).await;
        let judged = self.judge(resolved.expecting(expected.clone()), &way.guest.authority);
        self.record.policy = self.trail.take_policy();
        let permit = match destinations::look_up(judged).await {
            Ok(permit) => permit,
            Err(mut refusal) => {
                expectations::name_fitting(&mut refusal, self.scene, &way.guest, &expected, &contract);
                self.core.repairs.refused(&self.record, &self.chain, &mut refusal);
                return CallAnswer::Result(self.refuse(contract.contract(), *refusal, Outcome::Refused, None).await);
            }
        };
        self.core.repairs.passed(&self.record, &self.chain);
        self.record.proposal_digest = Some(permit.proposal_digest());
        if self.own_tool(&self.record.tool).is_some() {
            return Box::pin(self.fetch(&contract, &permit, &way)).await;
        }
        let key = match self.identify(&permit, &way).await {
            Ok(key) => key,
            Err(refusal) => {
                return CallAnswer::Result(self.refuse(contract.contract(), *refusal, Outcome::Refused, None).await);
            }
        };
        let is_keyed = key.can_come_again() && permit.effect_class().mutates();
        self.unread_key = is_keyed.then(|| permit.effect_key(key.clone()));
        if let Err(error) = self.enter_round(&permit, &key, &mut way).await {
            return self.refuse_round(error).await;
        }
        let kept = match caching::read_of(&permit, &key, &way, self.scene).map(|read| self.core.cache.find(read)) {
            Some(Ok(answer)) => return self.serve(&contract, &answer).await,
            Some(Err(under_way)) => Some(under_way),
            None => None,
        };
        let claim = way.claim.take().map(|claim| claim.for_operation(&key));
        let cancel = way.terms.cancel.clone();
        let spent = self.nonce.clone().filter(|_| !key.can_come_again());
        // Sending is by far the largest part of a call, and most calls that are refused never come here.
        let (exchange, ending) = match Box::pin(self.perform(permit, key, way)).await {
            Ok(performed) => performed,
            Err(NotSent::Refused(refusal)) => {
                let unsent = matches!(refusal.effect, EffectKnowledge::None | EffectKnowledge::UnknownBefore);
                self.leave_round(spent.filter(|_| unsent)).await;
                let outcome = outcome_of(&refusal);
                return CallAnswer::Result(self.refuse(contract.contract(), *refusal, outcome, None).await);
            }
            Err(NotSent::Standing(reply, effect)) => {
                self.bill.close(self.core, Made::No, 0).await;
                return Box::pin(self.stand(&contract, reply, effect)).await;
            }
        };
        let unsent = matches!(&ending, Ending::Failed(failure) if failure.provably_not_executed());
        self.leave_round(spent.filter(|_| unsent)).await;
        Box::pin(self.end(exchange, ending, kept, claim, cancel)).await
    }

    /// Ends a call that was performed, each way to end in its own way.
    async fn end(
        mut self,
        exchange: Exchange,
        ending: Ending,
        kept: Option<Box<UnderWay>>,
        claim: Option<Claim>,
        cancel: CancellationToken,
    ) -> CallAnswer {
        match ending {
            Ending::Answered { answer, asked } => {
                let kept = kept.filter(|_| !asked && !exchange.was_task && works::plan(&exchange.contract).is_none());
                match self.see_through(&exchange, answer, cancel).await {
                    Ok(answer) => Box::pin(self.answered(exchange, answer, kept)).await,
                    Err(failure) => {
                        let rules = self.question_rules(&exchange);
                        let failure = rules.put_failure(failure, &mut self.record.questions);
                        self.failed(&exchange, failure).await
                    }
                }
            }
            Ending::Task(answer) => Box::pin(self.answered_with_task(exchange, answer)).await,
            Ending::Failed(failure) => self.failed(&exchange, failure).await,
            Ending::Input(wanted) if self.work.as_ref().is_some_and(|work| work.is_left()) => {
                let why = "the call goes on as long work, and nobody waits who could be asked".to_owned();
                self.not_given(&exchange, &wanted.answer, NotGiven { method: "input".to_owned(), why }).await
            }
            Ending::Input(wanted) => self.input_required(&exchange, &wanted, claim).await,
            Ending::Undeclared { answer, required } => self.undeclared(&exchange, &answer, &required).await,
            Ending::NotGiven { answer, what } => self.not_given(&exchange, &answer, what).await,
        }
    }

    /// Takes a call through the gates, under its caller's credential and the policies in force. The gateway's own tool gives a
    /// caller what is theirs already, and is nobody's to permit.
    fn judge(&mut self, resolved: Resolved, authority: &Authenticated) -> Result<Permit, Box<Refusal>> {
        let is_large = resolved.proposal().arguments.len() > AT_ONCE_BYTES_MAX;
        let is_shared = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if is_large && is_shared {
            return block_in_place(|| self.judge_here(resolved, authority));
        }
        self.judge_here(resolved, authority)
    }

    fn judge_here(&mut self, resolved: Resolved, authority: &Authenticated) -> Result<Permit, Box<Refusal>> {
        let limits = self.core.gate_limits;
        if self.own_tool(&self.record.tool).is_some() {
            return pass_all(resolved, &Mandate::Gateway, limits, &mut self.trail);
        }
        let authorities = &self.scene.authorities;
        let principal = authorities.principal(authority);
        let principal = principal.map_err(|error| refusals::no_principal(self.record.call_id.clone(), &error))?;
        pass_all(resolved, &authorities.mandate(authority, &principal), limits, &mut self.trail)
    }

    fn resolve(
        &mut self,
        proposal: Proposal,
        guest: &Guest,
        only_upstream: Option<&str>,
    ) -> Result<Resolved, Box<Refusal>> {
        let found = match self.own_tool(&proposal.tool) {
            Some(contract) => Ok(contract),
            None => self.find(&proposal.tool, guest),
        };
        self.trail.judge(GateName::Resolve, || match found {
            // The world changed between two rounds: an upstream's state is nobody else's.
            Ok(contract) if only_upstream.is_some_and(|only| only != contract.contract().binding.upstream) => {
                Err(Box::new(refusals::moved(proposal.call_id.clone())))
            }
            Ok(contract) => Ok(Resolved::new(proposal, contract)),
            Err(reason) => Err(Box::new(refusals::not_resolved(&proposal, reason))),
        })
    }

    /// The contract that a name means to a guest. Another tenant's tool is none, in the very words for one that never was; and
    /// nobody is pointed to a tool that they are not shown.
    fn find(&self, name: &str, guest: &Guest) -> Result<Arc<CompiledContract>, NotResolved> {
        let catalog = &self.scene.catalog;
        let unknown = || {
            let shown = self.scene.shown(catalog.listing(guest.viewer()), guest);
            NotResolved::Unknown { did_you_mean: catalog.near(name, &shown) }
        };
        if self.scene.is_foreign_tool(name, &guest.caller) {
            return Err(unknown());
        }
        match catalog.resolve(name, guest.viewer()) {
            Err(NotResolved::Unknown { .. }) => Err(unknown()),
            resolved => resolved,
        }
    }

    /// Makes sure that what is known of a tool is known of the present connection; another tenant's server is not asked.
    async fn acquaint(&self, proposal: &Proposal, guest: &Guest) {
        if !self.scene.is_foreign_tool(&proposal.tool, &guest.caller) {
            self.scene.discovery.acquaint(proposal, guest).await;
        }
    }

    /// The contract of the gateway's own tool, where callers are given handles that it takes.
    fn own_tool(&self, name: &str) -> Option<Arc<CompiledContract>> {
        self.scene.own_tool(name, &self.record.caller).filter(|_| self.core.long_wait_ms_max.is_some())
    }

    /// Fences a permitted call and has it performed, with everything that is asked on the way. An error means that nothing
    /// was sent.
    async fn perform(
        &mut self,
        permit: Permit,
        key: effect::ClientKey,
        mut way: Way,
    ) -> Result<(Exchange, Ending), NotSent> {
        let guest_era = way.guest.era;
        let (of_contract_ms, wait_ms) = self.limits_ms(&permit);
        let timeout_ms = of_contract_ms.min(wait_ms.unwrap_or(u64::MAX));
        let member = self.member(&permit).map_err(NotSent::Refused)?;
        self.record.deadline_ms = Some(timeout_ms);
        let deadline = self.deadline(&permit);
        let call_id = permit.call_id().clone();
        let contract = permit.shared_contract();
        let changes = permit.effect_class().mutates().then(|| permit.changes());
        let operation_id = permit.operation().operation_id().map(str::to_owned);
        let refused_questions = self.refused_questions(&permit, &way.guest.authority);
        let cleared = self.clear(permit, &key, &way.guest.authority, deadline).await?;
        let permit = cleared.permit();
        self.take_turn(permit, &key, deadline, &way.terms.cancel).await.map_err(NotSent::Refused)?;
        let around = probes::look_before(self.core, self.scene, permit, deadline, &way.terms.cancel).await;
        let around = around.map_err(|GivenUp| NotSent::Refused(refusals::given_up(call_id.clone())))?;
        let times = Times { timeout_ms, deadline };
        self.record.price = contract.price().ok().filter(|price| !price.is_free()).cloned().map(Box::new);
        let fenced = self.fence(cleared, key, times, &way.guest.authority, &way.terms.cancel).await;
        let fenced = fenced.inspect_err(|_| self.record.price = None)?;
        self.bill.sent();
        // Only what may be sent is looked at again.
        self.around = around;
        self.mutation = changes.is_some().then(|| self.core.lookout.mutations.begin());
        self.record.dispatched_at = Some(self.core.clock.now());
        let submits = self.begin_work(&member, &fenced, deadline, &mut way).await;
        let wants_task = way.task.is_some();
        let started_us = self.stopwatch.elapsed_us();
        let (mut errand, mut conversation) = self.prepare(&member, &contract, fenced, deadline, way, submits).await;
        let marked = errand.fenced.as_ref().filter(|fenced| fenced.claim().is_some());
        errand.outline.lease = marked.map(|fenced| self.core.lease(self.asked_at, fenced.effect_class()));
        errand.outline.carry_key(contract.contract(), errand.fenced.as_ref(), operation_id.as_deref());
        // Before, because what is read from now on may be new; and after, because it may still have been old.
        self.changed(&member, changes.as_deref());
        conversation.rules = conversation.rules.refusing(&refused_questions);
        let mut questions = Vec::new();
        let ending = conversation.run(&mut errand, &mut questions).await;
        self.record.questions = questions;
        self.changed(&member, changes.as_deref());
        self.trail.note(GateName::Perform, !matches!(ending, Ending::Failed(_)), started_us);
        self.record.attempts = Some(errand.persistence.made).filter(|made| *made > 1);
        self.late = errand.late.take();
        // The upstream always gives the call back; without it there is no evidence to go on with.
        let fenced = errand.fenced.ok_or_else(|| NotSent::Refused(refusals::lost_evidence(call_id)))?;
        let (retry_after_ms, was_task) = (errand.persistence.retry_after_ms, errand.was_task);
        #[rustfmt::skip]
        let exchange = Exchange {
            member, contract, fenced, guest_era, wants_task, retry_after_ms, was_task, deadline, refused_questions,
        };
        Ok((exchange, ending))
    }

    async fn prepare(
        &self,
        member: &Arc<Member>,
        contract: &CompiledContract,
        fenced: Fenced,
        deadline: Instant,
        way: Way,
        submits: bool,
    ) -> (CallErrand, Conversation<'_>) {
        let hearer = way.hearer(self.core);
        let ear = self.ear(&fenced);
        let Way { guest, terms, task, continuation, reception, .. } = way;
        let cancel = reception.as_ref().map_or_else(|| terms.cancel.clone(), |reception| reception.cancel.clone());
        let wants_task = submits || (task.is_some() && guest.era == Era::Legacy);
        let capabilities = tasks::capabilities(&guest, member, wants_task, deadline).await;
        let counterpart = Counterpart { capabilities, ..sessions::counterpart(&guest) };
        let level = self.core.sessions.level(&guest, terms.log_level.as_deref());
        self.core.sessions.tell_level(member, &counterpart, level, deadline).await;
        let entrusted = member.server.is_shown_credentials().then(|| entrusted(contract));
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

    /// When an answer has to be there: the contract's time begins when the server is there, the caller's at the door.
    pub(super) fn deadline(&self, permit: &Permit) -> Instant {
        let (of_contract_ms, wait_ms) = self.limits_ms(permit);
        let of_contract = self.begun + Duration::from_millis(of_contract_ms);
        wait_ms.map_or(of_contract, |wait_ms| of_contract.min(self.started + Duration::from_millis(wait_ms)))
    }

    /// How long the contract lets a call take, and how long its caller waits, where it says so. Long work goes on when its
    /// caller does not wait any longer.
    fn limits_ms(&self, permit: &Permit) -> (u64, Option<u64>) {
        let wait_ms = permit.proposal().caller_wait_ms.filter(|_| self.work.is_none());
        let of_contract_ms = permit.contract().contract().timeout_ms();
        (of_contract_ms.min(TIMEOUT_MS_MAX), wait_ms.map(|wait_ms| wait_ms.min(TIMEOUT_MS_MAX)))
    }

    fn member(&self, permit: &Permit) -> Result<Arc<Member>, Box<Refusal>> {
        let id = &permit.contract().contract().binding.upstream;
        self.scene.member(id).cloned().ok_or_else(|| refusals::no_upstream(permit.call_id().clone(), id))
    }
}

/// How a call that was not sent is recorded.
fn outcome_of(refusal: &Refusal) -> Outcome {
    match (refusal.gate, refusal.error_code, refusal.effect) {
        (GateName::State | GateName::Scope | GateName::Budget, _, _)
        | (_, TaxonomyClass::IdempotencyConflict, _)
        | (_, _, EffectKnowledge::UnknownBefore) => Outcome::Refused,
        (_, _, EffectKnowledge::None) => Outcome::NotExecuted,
        _ => Outcome::Unknown,
    }
}

/// A day: what no call outlasts, whatever its contract says.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// What the call was judged to need, for an upstream that is told.
fn entrusted(contract: &CompiledContract) -> Arc<Entrusted> {
    let (scopes, contract) = (contract.scopes().clone(), contract.contract());
    let class = contract.transactional.side_effect_class;
    Arc::new(Entrusted { tool: contract.identity.name.clone(), scopes, class })
}
