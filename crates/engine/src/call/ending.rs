//! How a performed call ends: its answer is checked, its effect settled and its record written in one, and then it is
//! answered. Every function here is one way to end.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{
    CallRecord, Digest, GateName, TaxonomyClass,
    digest::Domain,
    observation::{Observation, Occasion, Verification},
    record::Outcome,
    refusal::EffectKnowledge,
    tool::EffectClass,
};
use servanda_effects::effect::{Awaits, Concluded, End};
use servanda_gates::{Fenced, Stopwatch as _};
use servanda_mcp::{Era, RpcError, envelope::code};
use servanda_upstream::Answer;

use super::{
    conclusion::occasion_of,
    evidence::{Dispatch, Exchange, Performed},
    replay,
    state::CallPipeline,
};
use crate::{
    answers::{observe, refusals, tool_result, upstream_failure},
    bridge::{Claim, Ending, Wanted},
    cache::UnderWay,
    client::{CallAnswer, ToolResult},
    deferred::{
        late::{self, LateAnswer, Overdue},
        upstream_tasks::{self, Began, NewTask},
    },
    long_running,
    questions::{NotGiven, PutFailure},
    records::{self, Settled},
    task_shape::{self, Created},
};

impl CallPipeline<'_> {
    /// Ends a call that was sent, each way to end in its own way.
    pub(super) async fn settle(mut self: Box<Self>, performed: Box<Performed>) -> CallAnswer {
        let Performed { exchange, ending, dispatch, to_cache, binding, cancel } = *performed;
        if matches!(&ending, Ending::Failed(failure) if failure.provably_not_executed()) {
            self.give_back_state().await;
        }
        // Boxed, all but the usual end: the state of a call has to have room for the largest of these.
        match ending {
            Ending::Answered { answer, asked } => {
                let is_plain = !asked && !exchange.was_task && long_running::plan(&exchange.contract).is_none();
                let seen = match long_running::plan(&exchange.contract) {
                    Some(_) => Box::pin(self.see_through(&exchange, answer, cancel)).await,
                    None => Ok(answer),
                };
                match seen {
                    Ok(answer) => self.answered(exchange, answer, to_cache.filter(|_| is_plain), dispatch).await,
                    Err(failure) => {
                        let rules = self.question_rules(&exchange);
                        let failure = rules.put_failure(failure, &mut self.record.questions);
                        Box::pin(self.failed(exchange, failure, dispatch)).await
                    }
                }
            }
            Ending::Task(answer) => Box::pin(self.answered_with_task(exchange, answer, dispatch)).await,
            Ending::Failed(failure) => Box::pin(self.failed(exchange, failure, dispatch)).await,
            Ending::Input(wanted) if self.work.as_ref().is_some_and(|work| work.is_left()) => {
                let why = "the call goes on as long work, and nobody waits who could be asked".to_owned();
                let what = NotGiven { method: "input".to_owned(), why };
                Box::pin(self.not_given(&exchange, &wanted.answer, what, dispatch)).await
            }
            Ending::Input(wanted) => Box::pin(self.input_required(&exchange, &wanted, binding, dispatch)).await,
            Ending::Undeclared { answer, required } => {
                Box::pin(self.undeclared(&exchange, &answer, &required, dispatch)).await
            }
            Ending::NotGiven { answer, what } => Box::pin(self.not_given(&exchange, &answer, what, dispatch)).await,
        }
    }

    async fn answered(
        self: Box<Self>,
        exchange: Exchange,
        answer: Answer,
        to_cache: Option<Box<UnderWay>>,
        dispatch: Dispatch,
    ) -> CallAnswer {
        // A legacy answer is about a task only where one was asked for; a modern one says so itself.
        if exchange.wants_task && answer.era == Era::Legacy {
            return Box::pin(self.answered_with_task(exchange, answer, dispatch)).await;
        }
        CallAnswer::Result(self.observe(&exchange, answer.result, to_cache, dispatch).await)
    }

    async fn answered_with_task(self: Box<Self>, exchange: Exchange, answer: Answer, dispatch: Dispatch) -> CallAnswer {
        match task_shape::created(&answer) {
            Some(created) => self.task_created(exchange, &answer, created, dispatch).await,
            None => CallAnswer::Result(self.observe(&exchange, answer.result, None, dispatch).await),
        }
    }

    /// Checks what the upstream said against the contract, makes the answer of it, and caches it where it may be cached.
    async fn observe(
        mut self: Box<Self>,
        exchange: &Exchange,
        result: Bytes,
        to_cache: Option<Box<UnderWay>>,
        dispatch: Dispatch,
    ) -> ToolResult {
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
                if let Some(under_way) = to_cache.filter(|_| !is_error) {
                    self.core.cache.keep(*under_way, result.clone());
                }
                let verification = tool_result::verification(compiled.contract());
                let mut observation =
                    tool_result::observation(&self.occasion(compiled.contract()), &observed, verification);
                // A tool that failed may have changed something first; only the contract's own keys make a repeat safe.
                observation.status.retryable &= !fenced.effect_class().mutates();
                let answered = tool_result::of_observed(&observed, observation, member.exposure(), result.len());
                let end = records::end_of(&observed, compiled.contract(), &result);
                if dispatch.effect.is_none() {
                    self.conclude(dispatch, end, fenced.effect_class().mutates(), None).await;
                    return answered;
                }
                let (record, exposure) = (self.record.clone(), member.exposure());
                let settled = self.conclude(dispatch, end, fenced.effect_class().mutates(), None).await;
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
                let result = Some(result.clone());
                Box::pin(self.refuse(compiled.contract(), refusal, Outcome::Quarantined, result, dispatch)).await
            }
        }
    }

    async fn failed(
        mut self: Box<Self>,
        mut exchange: Exchange,
        failure: PutFailure,
        mut dispatch: Dispatch,
    ) -> CallAnswer {
        if !failure.provably_not_executed() {
            dispatch.use_up_state();
        }
        let overdue = self.overdue(&mut exchange);
        let contract = exchange.contract.contract();
        let was_sent_before = exchange.fenced.was_sent_before();
        if let Some(error) = upstream_failure::of_protocol(&failure, exchange.guest_era, exchange.wants_task) {
            let effect_class = exchange.fenced.effect_class();
            let (effect, outcome) = upstream_failure::after_protocol_error(contract, &failure, was_sent_before);
            let refusal = refusals::rejected_by_protocol(exchange.fenced.call_id(), &error).with_effect(effect);
            self.finish(outcome, refusal.error_code, Some(&refusal));
            let end = dispatch.end_of_refusal(&refusal);
            self.conclude(dispatch, end, effect_class.mutates(), None).await;
            return CallAnswer::Failed(error);
        }
        let call_id = exchange.fenced.call_id();
        let (mut refusal, outcome) = upstream_failure::interpret(call_id, contract, &failure, was_sent_before);
        refusal.retry_after_ms = exchange.retry_after_ms.filter(|_| refusal.retryable);
        if refusal.error_code == TaxonomyClass::Timeout {
            refusal.message = upstream_failure::out_of_time(&failure, &exchange.contract, self.record.deadline_ms);
        }
        let deferred = Arc::clone(&self.calls.deferred);
        let answered = self.refuse(contract, refusal, outcome, None, dispatch).await;
        if let Some((overdue, late)) = overdue {
            late::settle_when_it_comes(&deferred, overdue, late);
        }
        CallAnswer::Result(tool_result::with_upstream_error(answered, &failure))
    }

    /// A call whose deadline passed, and the answer that may still come.
    fn overdue(&self, exchange: &mut Exchange) -> Option<(Overdue, LateAnswer)> {
        let (late, fenced) = (exchange.late.take()?, &exchange.fenced);
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
    async fn input_required(
        mut self: Box<Self>,
        exchange: &Exchange,
        wanted: &Wanted,
        binding: Option<Claim>,
        dispatch: Dispatch,
    ) -> CallAnswer {
        self.wants_input(&wanted.answer);
        let passed = match binding {
            Some(binding) => self.calls.bridge.pass_input(wanted, &binding, &exchange.member.id).await,
            None => Err(no_binding()),
        };
        let end = match &passed {
            Ok(passed) => {
                let for_ms = passed.expires_at.since_ms(self.core.clock.now());
                End::Awaits(Awaits::Input(passed.nonce.clone()), for_ms)
            }
            Err(error) => End::Unknown(error.message.clone()),
        };
        let record = self.record.clone();
        let settled = self.conclude(dispatch, end, exchange.fenced.effect_class().mutates(), None).await;
        if settled.concluded == Concluded::Disagrees {
            return CallAnswer::Result(went_on(&record, exchange, &settled));
        }
        passed.map_or_else(CallAnswer::Failed, |passed| CallAnswer::InputRequired(passed.json))
    }

    /// The upstream wants what the guest never said it could give: a mistake of the upstream's, and the end of the call.
    async fn undeclared(
        mut self: Box<Self>,
        exchange: &Exchange,
        answer: &Answer,
        required: &str,
        dispatch: Dispatch,
    ) -> CallAnswer {
        let error = refusals::undeclared(required);
        let (effect, outcome) = after_input_not_given(exchange.fenced.effect_class());
        let refusal = refusals::rejected_by_protocol(exchange.fenced.call_id(), &error).with_effect(effect);
        self.wants_input(answer);
        self.record.outcome = outcome;
        (self.record.class, self.record.refusal) = (Some(refusal.error_code), Some(refusal));
        let end = End::Unknown(error.message.clone());
        self.conclude(dispatch, end, exchange.fenced.effect_class().mutates(), None).await;
        CallAnswer::Failed(error)
    }

    async fn not_given(
        mut self: Box<Self>,
        exchange: &Exchange,
        answer: &Answer,
        what: NotGiven,
        mut dispatch: Dispatch,
    ) -> CallAnswer {
        self.wants_input(answer);
        dispatch.use_up_state();
        let contract = exchange.contract.contract();
        let (effect, outcome) = after_input_not_given(exchange.fenced.effect_class());
        let refusal = refusals::input_not_given(exchange.fenced.call_id(), &what, effect);
        CallAnswer::Result(self.refuse(contract, refusal, outcome, None, dispatch).await)
    }

    fn wants_input(&mut self, answer: &Answer) {
        self.record.answer_digest = Some(Digest::of(Domain::Answer, &[&answer.result]));
        self.record.outcome = Outcome::InputRequired;
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.verdicts().to_vec();
    }

    /// The upstream made a task of it. How it ended is recorded when somebody learns of it.
    async fn task_created(
        mut self: Box<Self>,
        exchange: Exchange,
        answer: &Answer,
        created: Created,
        dispatch: Dispatch,
    ) -> CallAnswer {
        let Exchange { contract, fenced, guest_era, member, .. } = &exchange;
        let claim = dispatch.effect.as_ref().map(|effect| effect.claim.clone());
        let touches = contract.touched(fenced.arguments());
        let began = Began { claim, touches, refused_questions: exchange.refused_questions.clone() };
        self.record.outcome = Outcome::TaskCreated;
        self.record.verdicts = self.trail.verdicts().to_vec();
        let rules = self.question_rules(&exchange);
        let task = NewTask { answer, created: &created, guest_era: *guest_era };
        match upstream_tasks::keep(&self.calls.deferred, member, task, &rules, &mut self.record, began).await {
            Ok(kept) => {
                let for_ms = kept.expires_at.since_ms(self.core.clock.now());
                let end = End::Awaits(Awaits::Task(kept.id.clone()), for_ms);
                self.record.task_id = Some(kept.id);
                let record = self.record.clone();
                let settled = self.conclude(dispatch, end, true, None).await;
                if settled.concluded == Concluded::Disagrees {
                    return CallAnswer::Result(went_on(&record, &exchange, &settled));
                }
                CallAnswer::Task(kept.json)
            }
            Err(error) => {
                tracing::error!(%error, "a task of an upstream could not be kept");
                let refusal = refusals::task_not_kept(fenced.call_id());
                CallAnswer::Result(self.refuse(contract.contract(), refusal, Outcome::Unknown, None, dispatch).await)
            }
        }
    }
}

/// The answer of a call whose effect another dispatch went on with: only what the ledger says is told.
fn went_on(record: &CallRecord, exchange: &Exchange, settled: &Settled) -> ToolResult {
    let contract = exchange.contract.contract();
    let mut refusal = refusals::went_on(exchange.fenced.call_id());
    refusal.handle = exchange.fenced.claim().map(|claim| claim.id.to_string());
    if settled.of_key() != EffectKnowledge::None {
        refusal.mark_unknown_before();
    }
    let observation =
        Observation::of_refusal(&occasion_of(record, contract), &refusal, tool_result::verification(contract));
    tool_result::of_refusal(refusal, observation)
}

/// The answer of a call whose end is not on record: what is acknowledged must not be forgotten, so it is not yet.
fn not_on_record_yet(occasion: &Occasion<'_>, fenced: &Fenced, is_error: bool) -> ToolResult {
    let handle = fenced.claim().map(|claim| claim.id.to_string()).unwrap_or_default();
    // A tool that failed may have changed something first.
    let effect = if is_error { EffectKnowledge::Unknown } else { EffectKnowledge::Happened };
    let refusal = refusals::not_on_record_yet(fenced.call_id(), &handle, effect);
    let observation = Observation::of_refusal(occasion, &refusal, Verification::none());
    tool_result::of_refusal(refusal, observation)
}

/// What is known of a call whose upstream asked for something and did not get it. Whoever asks may have begun.
fn after_input_not_given(effect_class: EffectClass) -> (EffectKnowledge, Outcome) {
    if effect_class.mutates() {
        (EffectKnowledge::Unknown, Outcome::Unknown)
    } else {
        (EffectKnowledge::None, Outcome::InputRequired)
    }
}

fn no_binding() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the upstream asked for input on behalf of nobody")
}
