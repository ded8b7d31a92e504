//! How a performed call ends: its answer is checked, its effect settled and its record written in one, and then it is
//! answered. Every function here is one way to end.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::{
    CallRecord, Digest, GateName, Refusal, TaxonomyClass, ToolContract,
    digest::Domain,
    observation::{Observation, Occasion, Verification},
    record::Outcome,
    refusal::EffectKnowledge,
    taxonomy::EnvelopeCode,
    tool::EffectClass,
};
use servanda_gates::{
    Fenced, Stopwatch as _,
    effect::{self, Awaits, Concluded, End, Rules, Target},
};
use servanda_mcp::{Era, RpcError, envelope::code};
use servanda_upstream::Answer;

use super::{
    passage::{Exchange, Mark, Passage},
    replay,
};
use crate::{
    answer,
    bridge::{Claim, NotGiven, PutFailure, ROUND_MS_MAX, Wanted},
    budgets::Made,
    cache::UnderWay,
    gateway::{CallAnswer, ToolResult},
    late::{self, LateAnswer, Overdue},
    observe,
    records::{self, Settled, Settling},
    refusals,
    tasks::{self, Began, Created, NewTask},
    upstream_failure,
};

/// How long a refused call looks whether an earlier call with its key was done.
const LOOK_BACK_MS_MAX: u64 = 1_000;

impl Passage<'_> {
    pub(super) async fn answered(self, exchange: Exchange, answer: Answer, kept: Option<Box<UnderWay>>) -> CallAnswer {
        // A legacy answer is about a task only where one was asked for; a modern one says so itself.
        if exchange.wants_task && answer.era == Era::Legacy {
            return Box::pin(self.answered_with_task(exchange, answer)).await;
        }
        CallAnswer::Result(self.observe(&exchange, answer.result, kept).await)
    }

    pub(super) async fn answered_with_task(self, exchange: Exchange, answer: Answer) -> CallAnswer {
        match tasks::created(&answer) {
            Some(created) => self.task_created(exchange, &answer, created).await,
            None => CallAnswer::Result(self.observe(&exchange, answer.result, None).await),
        }
    }

    /// Makes the answer of what the upstream said, and keeps it for whoever asks next where it may be kept.
    async fn observe(mut self, exchange: &Exchange, result: Bytes, kept: Option<Box<UnderWay>>) -> ToolResult {
        let Exchange { member, contract: compiled, fenced, .. } = exchange;
        let started_us = self.stopwatch.elapsed_us();
        let checked = observe::observe(compiled, &result);
        self.trail.note(GateName::Observe, checked.is_ok(), started_us);
        self.record.answer_digest = Some(Digest::of(Domain::Answer, &[&result]));
        match checked {
            Ok(observed) => {
                let is_error = observed.class != TaxonomyClass::Success;
                let outcome = if is_error { Outcome::ToolError } else { Outcome::Completed };
                self.finish(outcome, observed.class, None);
                if let Some(under_way) = kept.filter(|_| !is_error) {
                    self.core.cache.keep(*under_way, result.clone());
                }
                let verification = answer::verification(compiled.contract());
                let mut observation = answer::observation(&self.occasion(compiled.contract()), &observed, verification);
                // A tool that failed may have changed something first; only the contract's own keys make a repeat safe.
                observation.status.retryable &= !fenced.effect_class().mutates();
                let answered = answer::of_observed(&observed, observation, member.exposure(), result.len());
                let end = records::end_of(&observed, compiled.contract(), &result);
                if self.mark.is_none() {
                    self.conclude(end, fenced.effect_class().mutates(), None).await;
                    return answered;
                }
                let (record, exposure) = (self.record.clone(), member.exposure());
                let settled = self.conclude(end, fenced.effect_class().mutates(), None).await;
                let occasion = occasion_of(&record, compiled.contract());
                match settled.concluded {
                    Concluded::Accepted => answered,
                    Concluded::NotYet => not_on_record_yet(&occasion, fenced, is_error),
                    Concluded::Disagrees => {
                        let effect = settled.effect.as_ref();
                        let stored =
                            effect.and_then(|effect| replay::stored_answer(compiled, effect, &occasion, exposure));
                        stored.unwrap_or_else(|| went_on(&record, exchange, &settled))
                    }
                }
            }
            Err(broken) => {
                let refusal = refusals::quarantined(fenced.call_id(), fenced.effect_class(), broken);
                self.refuse(compiled.contract(), refusal, Outcome::Quarantined, Some(result.clone())).await
            }
        }
    }

    pub(super) async fn failed(mut self, exchange: &Exchange, failure: PutFailure) -> CallAnswer {
        let contract = exchange.contract.contract();
        if !failure.provably_not_executed() {
            // The state it went on from is used up.
            self.nonce = None;
        }
        let was_sent_before = exchange.fenced.was_sent_before();
        if let Some(error) = upstream_failure::of_protocol(&failure, exchange.guest_era, exchange.wants_task) {
            let effect_class = exchange.fenced.effect_class();
            let (effect, outcome) = upstream_failure::after_protocol_error(contract, &failure, was_sent_before);
            let refusal = refusals::rejected_by_protocol(exchange.fenced.call_id(), &error).with_effect(effect);
            self.finish(outcome, refusal.error_code, Some(&refusal));
            let end = self.end_of_refusal(&refusal);
            self.conclude(end, effect_class.mutates(), None).await;
            return CallAnswer::Failed(error);
        }
        let call_id = exchange.fenced.call_id();
        let (mut refusal, outcome) = upstream_failure::interpret(call_id, contract, &failure, was_sent_before);
        refusal.retry_after_ms = exchange.retry_after_ms.filter(|_| refusal.retryable);
        if refusal.error_code == TaxonomyClass::Timeout {
            let limit = upstream_failure::time_limit(&exchange.contract, self.record.deadline_ms);
            refusal.message = format!("{}; {limit}", refusal.message);
        }
        let overdue = self.overdue(exchange);
        let core = Arc::clone(self.core);
        let answered = self.refuse(contract, refusal, outcome, None).await;
        if let Some((overdue, late)) = overdue {
            late::settle_when_it_comes(&core, overdue, late);
        }
        CallAnswer::Result(answer::with_upstream_error(answered, &failure))
    }

    /// A call whose deadline passed, and the answer that may still come.
    fn overdue(&mut self, exchange: &Exchange) -> Option<(Overdue, LateAnswer)> {
        let (late, fenced) = (self.late.take()?, &exchange.fenced);
        let overdue = Overdue {
            claim: fenced.claim()?.clone(),
            contract: Arc::clone(&exchange.contract),
            upstream: Arc::clone(&exchange.member.id),
            resources: exchange.contract.touched(fenced.arguments()),
            was_sent_before: fenced.was_sent_before(),
            record: self.record.clone(),
        };
        Some((overdue, late))
    }

    /// The upstream wants input, and its guest can give it: this call is over, and another goes on from it.
    pub(super) async fn input_required(
        mut self,
        exchange: &Exchange,
        wanted: &Wanted,
        claim: Option<Claim>,
    ) -> CallAnswer {
        self.wants_input(&wanted.answer);
        let passed = match claim {
            Some(claim) => self.core.bridge.pass_input(wanted, &claim, &exchange.member.id).await,
            None => Err(no_claim()),
        };
        let end = match &passed {
            Ok(passed) => {
                let for_ms = passed.expires_at.since_ms(self.core.clock.now());
                End::Awaits(Awaits::Input(passed.nonce.clone()), for_ms)
            }
            Err(error) => End::Unknown(error.message.clone()),
        };
        let record = self.record.clone();
        let settled = self.conclude(end, exchange.fenced.effect_class().mutates(), None).await;
        if settled.concluded == Concluded::Disagrees {
            return CallAnswer::Result(went_on(&record, exchange, &settled));
        }
        passed.map_or_else(CallAnswer::Failed, |passed| CallAnswer::InputRequired(passed.json))
    }

    /// The upstream wants what the guest never said it could give: a mistake of the upstream's, and the end of the call.
    pub(super) async fn undeclared(mut self, exchange: &Exchange, answer: &Answer, required: &str) -> CallAnswer {
        let error = refusals::undeclared(required);
        let (effect, outcome) = after_input_not_given(exchange.fenced.effect_class());
        let refusal = refusals::rejected_by_protocol(exchange.fenced.call_id(), &error).with_effect(effect);
        self.wants_input(answer);
        self.record.outcome = outcome;
        (self.record.class, self.record.refusal) = (Some(refusal.error_code), Some(refusal));
        let end = End::Unknown(error.message.clone());
        self.conclude(end, exchange.fenced.effect_class().mutates(), None).await;
        CallAnswer::Failed(error)
    }

    pub(super) async fn not_given(mut self, exchange: &Exchange, answer: &Answer, what: NotGiven) -> CallAnswer {
        self.wants_input(answer);
        self.nonce = None;
        let contract = exchange.contract.contract();
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
        let Exchange { contract, fenced, guest_era, member, .. } = &exchange;
        let claim = self.mark.as_ref().map(|mark| mark.claim.clone());
        let touches = contract.touched(fenced.arguments());
        let began = Began { claim, touches, refused_questions: exchange.refused_questions.clone() };
        self.record.outcome = Outcome::TaskCreated;
        self.record.verdicts = self.trail.verdicts().to_vec();
        let rules = self.question_rules(&exchange);
        let task = NewTask { answer, created: &created, guest_era: *guest_era };
        match tasks::keep(self.core, member, task, &rules, &mut self.record, began).await {
            Ok(kept) => {
                let for_ms = kept.expires_at.since_ms(self.core.clock.now());
                let end = End::Awaits(Awaits::Task(kept.id.clone()), for_ms);
                self.record.task_id = Some(kept.id);
                let record = self.record.clone();
                let settled = self.conclude(end, true, None).await;
                if settled.concluded == Concluded::Disagrees {
                    return CallAnswer::Result(went_on(&record, &exchange, &settled));
                }
                CallAnswer::Task(kept.json)
            }
            Err(error) => {
                tracing::error!(%error, "a task of an upstream could not be kept");
                let refusal = refusals::task_not_kept(fenced.call_id());
                CallAnswer::Result(self.refuse(contract.contract(), refusal, Outcome::Unknown, None).await)
            }
        }
    }

    pub(super) async fn refuse_unresolved(mut self, mut refusal: Box<Refusal>) -> CallAnswer {
        self.look_back(&mut refusal, Outcome::Refused).await;
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        let observation = Observation::of_refusal(&self.occasion_of_record(), &refusal, Verification::none());
        self.put_on_record(false).await;
        if refusal.envelope_code == EnvelopeCode::ToolNotFound {
            return CallAnswer::UnknownTool(refusal);
        }
        CallAnswer::Result(answer::of_refusal(*refusal, observation))
    }

    pub(super) async fn refuse(
        mut self,
        contract: &ToolContract,
        mut refusal: Refusal,
        outcome: Outcome,
        quarantine: Option<Bytes>,
    ) -> ToolResult {
        if let Some(mark) = &self.mark
            && refusal.effect == EffectKnowledge::Unknown
        {
            refusal.handle = Some(mark.claim.id.to_string());
        }
        let outcome = self.look_back(&mut refusal, outcome).await;
        self.finish(outcome, refusal.error_code, Some(&refusal));
        // What may have happened must not be forgotten; a call that never left may be written down a moment later.
        let durable = refusal.effect != EffectKnowledge::None || quarantine.is_some();
        let end = self.end_of_refusal(&refusal);
        let observed = |record: &CallRecord, refusal: &Refusal| {
            let observation =
                Observation::of_refusal(&occasion_of(record, contract), refusal, answer::verification(contract));
            answer::of_refusal(refusal.clone(), observation)
        };
        if self.mark.is_none() {
            let answered = observed(&self.record, &refusal);
            self.conclude(end, durable, quarantine).await;
            return answered;
        }
        let record = self.record.clone();
        let settled = self.conclude(end, durable, quarantine).await;
        observed(&record, &settled.told(refusal))
    }

    /// A call that was refused before its key was looked up: an earlier call with the key may have been done, and the refusal must
    /// not claim otherwise. Says how the call is recorded.
    async fn look_back(&mut self, refusal: &mut Refusal, outcome: Outcome) -> Outcome {
        let Some(key) = self.unread_key.take() else { return outcome };
        if refusal.effect != EffectKnowledge::None || self.mark.is_some() {
            return outcome;
        }
        let reading = self.core.effects.find(Target::Key(key));
        let found = tokio::time::timeout(Duration::from_millis(LOOK_BACK_MS_MAX), reading).await;
        let of_key = match found {
            Ok(Ok(effect)) => effect::of_key(effect.as_ref()),
            _ => effect::of_unread_key(true, Rules::IN_FORCE),
        };
        if of_key == EffectKnowledge::None {
            return outcome;
        }
        refusal.mark_unknown_before();
        Outcome::Refused
    }

    pub(super) fn finish(&mut self, outcome: Outcome, class: TaxonomyClass, refusal: Option<&Refusal>) {
        self.record.outcome = outcome;
        self.record.class = Some(class);
        self.record.refusal = refusal.cloned();
        if outcome == Outcome::NotExecuted {
            self.record.price = None;
        }
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.take_verdicts();
    }

    /// Puts down how it ended; where it is an effect, that is settled with the same commit. Says what the ledger made of it.
    ///
    /// Where the contract has probes, they are taken again after the end is on record and before the caller is answered. The call
    /// keeps its turn meanwhile.
    async fn conclude(mut self, end: End, durable: bool, quarantine: Option<Bytes>) -> Settled {
        let outcome = self.record.outcome;
        let took_ms = self.took_ms();
        let (settled, made) = match self.mark.take() {
            None => {
                records::put_down(self.core, self.record, durable, quarantine).await;
                (Settled::NOTHING, Made::by_outcome(outcome))
            }
            Some(Mark { claim, held, class }) => {
                let is_done = matches!(end, End::Completed(_) | End::Failed(_));
                let settling = Settling { claim, end, record: self.record, quarantine, held: Some(held) };
                let settled = records::settle(self.core, settling).await;
                // What changes nothing is not executed as far as its effect is concerned, and may have cost something.
                let by_effect = || Made::by_effect(settled.state(), is_done);
                let made = if class.mutates() { by_effect() } else { Made::by_outcome(outcome) };
                (settled, made)
            }
        };
        self.bill.close(self.core, made, took_ms).await;
        if let Some(mutation) = self.mutation {
            mutation.end(outcome);
        }
        if let Some(around) = self.around {
            Box::pin(around.end(self.core, self.scene, outcome)).await;
        }
        settled
    }

    /// How long the upstream had it.
    fn took_ms(&self) -> u64 {
        let finished_at = self.record.finished_at.unwrap_or_else(|| self.core.clock.now());
        self.record.dispatched_at.map_or(0, |dispatched_at| finished_at.since_ms(dispatched_at))
    }

    /// Puts the record of a call down that never came to its fence.
    pub(super) async fn put_on_record(self, durable: bool) {
        records::put_down(self.core, self.record, durable, None).await;
    }

    /// What a refusal means for the effect. A call that went on from a state and did not leave may go on from it again.
    fn end_of_refusal(&self, refusal: &Refusal) -> End {
        match (refusal.effect, &self.nonce) {
            (EffectKnowledge::None, Some(nonce)) => End::Awaits(Awaits::Input(nonce.clone()), ROUND_MS_MAX),
            _ => records::end_of_refusal(refusal),
        }
    }

    pub(super) fn occasion<'o>(&'o self, contract: &'o ToolContract) -> Occasion<'o> {
        occasion_of(&self.record, contract)
    }

    fn occasion_of_record(&self) -> Occasion<'_> {
        answer::occasion(&self.record)
    }
}

fn occasion_of<'o>(record: &'o CallRecord, contract: &'o ToolContract) -> Occasion<'o> {
    let identity = &contract.identity;
    Occasion { tool: &identity.name, version: &identity.version, ..answer::occasion(record) }
}

/// The answer of a call whose effect another dispatch went on with: only what the ledger says is told.
fn went_on(record: &CallRecord, exchange: &Exchange, settled: &Settled) -> ToolResult {
    let contract = exchange.contract.contract();
    let mut refusal = refusals::went_on(exchange.fenced.call_id());
    refusal.handle = exchange.fenced.claim().map(|claim| claim.id.to_string());
    if settled.of_key() != EffectKnowledge::None {
        refusal.mark_unknown_before();
    }
    let observation = Observation::of_refusal(&occasion_of(record, contract), &refusal, answer::verification(contract));
    answer::of_refusal(refusal, observation)
}

/// The answer of a call whose end is not on record: what is acknowledged must not be forgotten, so it is not yet.
fn not_on_record_yet(occasion: &Occasion<'_>, fenced: &Fenced, is_error: bool) -> ToolResult {
    let handle = fenced.claim().map(|claim| claim.id.to_string()).unwrap_or_default();
    // A tool that failed may have changed something first.
    let effect = if is_error { EffectKnowledge::Unknown } else { EffectKnowledge::Happened };
    let refusal = refusals::not_on_record_yet(fenced.call_id(), &handle, effect);
    let observation = Observation::of_refusal(occasion, &refusal, Verification::none());
    answer::of_refusal(refusal, observation)
}

/// What is known of a call whose upstream asked for something and did not get it. Whoever asks may have begun.
fn after_input_not_given(effect_class: EffectClass) -> (EffectKnowledge, Outcome) {
    if effect_class.mutates() {
        (EffectKnowledge::Unknown, Outcome::Unknown)
    } else {
        (EffectKnowledge::None, Outcome::InputRequired)
    }
}

fn no_claim() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the upstream asked for input on behalf of nobody")
}
