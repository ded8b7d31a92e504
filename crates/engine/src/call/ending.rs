//! Ends a performed call: checks its answer, settles its effect and writes its record in one commit, and then answers. Every function here
//! is one way to end.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{
    CallRecord, Digest, GateName, TaxonomyClass,
    digest::DigestDomain,
    observation::{Observation, ObservationContext, Verification},
    record::Outcome,
    refusal::EffectKnowledge,
    tool::EffectClass,
};
use servanda_effects::effect::{DispatchEnd, EffectWaitReason, SettlementStatus};
use servanda_gates::{Fenced, Stopwatch as _};
use servanda_mcp::{Era, RpcError, envelope::code};
use servanda_upstream::Answer;

use super::{
    conclusion::occasion_of_record,
    evidence::{CallExchange, Dispatch, PerformedCall},
    replay,
    state::CallPipeline,
};
use crate::{
    answers::{observe, refusals, tool_result, upstream_failure},
    bridge::{ConversationEnd, RequestBinding, RequiredInput},
    cache::PendingRead,
    client::{CallAnswer, ToolResult},
    deferred::{
        late_answers::{self, LateAnswer, OverdueCall},
        upstream_tasks::{self, NewTask, TaskOrigin},
    },
    long_running,
    questions::{ClientFailure, MissingInput},
    records::{self, SettlementOutcome},
    task_shape::{self, CreatedTask},
};

impl CallPipeline<'_> {
    /// Ends a call that was sent, with one function per kind of end.
    pub(super) async fn settle(mut self: Box<Self>, performed: Box<PerformedCall>) -> CallAnswer {
        let PerformedCall { exchange, ending, dispatch, to_cache, binding, cancel } = *performed;
        if matches!(&ending, ConversationEnd::Failed(failure) if failure.provably_not_executed()) {
            self.give_back_state().await;
        }
        // All but the usual end are boxed, because the state of a call needs room for the largest of them.
        match ending {
            ConversationEnd::Answered { answer, asked } => {
                let is_plain = !asked && !exchange.was_task && long_running::poll_plan(&exchange.contract).is_none();
                let seen = match long_running::poll_plan(&exchange.contract) {
                    Some(_) => Box::pin(self.await_submitted(&exchange, answer, cancel)).await,
                    None => Ok(answer),
                };
                match seen {
                    Ok(answer) => self.answered(exchange, answer, to_cache.filter(|_| is_plain), dispatch).await,
                    Err(failure) => {
                        let rules = self.question_rules(&exchange);
                        let failure = rules.failure_for_client(failure, &mut self.record.questions);
                        Box::pin(self.failed(exchange, failure, dispatch)).await
                    }
                }
            }
            ConversationEnd::Task(answer) => Box::pin(self.answered_with_task(exchange, answer, dispatch)).await,
            ConversationEnd::Failed(failure) => Box::pin(self.failed(exchange, failure, dispatch)).await,
            ConversationEnd::Input(wanted) if self.work.as_ref().is_some_and(|work| work.is_left()) => {
                let why = "the call continues as long work, and no client is waiting that could answer".to_owned();
                let what = MissingInput { method: "input".to_owned(), why };
                Box::pin(self.not_given(&exchange, &wanted.answer, what, dispatch)).await
            }
            ConversationEnd::Input(wanted) => {
                Box::pin(self.input_required(&exchange, &wanted, binding, dispatch)).await
            }
            ConversationEnd::Undeclared { answer, required } => {
                Box::pin(self.undeclared(&exchange, &answer, &required, dispatch)).await
            }
            ConversationEnd::NotGiven { answer, what } => {
                Box::pin(self.not_given(&exchange, &answer, what, dispatch)).await
            }
        }
    }

    async fn answered(
        self: Box<Self>,
        exchange: CallExchange,
        answer: Answer,
        to_cache: Option<Box<PendingRead>>,
        dispatch: Dispatch,
    ) -> CallAnswer {
        // A legacy answer is about a task only if the client asked for one; a modern answer says so itself.
        if exchange.wants_task && answer.era == Era::Legacy {
            return Box::pin(self.answered_with_task(exchange, answer, dispatch)).await;
        }
        CallAnswer::Result(self.observe(&exchange, answer.result, to_cache, dispatch).await)
    }

    async fn answered_with_task(
        self: Box<Self>,
        exchange: CallExchange,
        answer: Answer,
        dispatch: Dispatch,
    ) -> CallAnswer {
        match task_shape::created_task(&answer) {
            Some(created) => self.task_created(exchange, &answer, created, dispatch).await,
            None => CallAnswer::Result(self.observe(&exchange, answer.result, None, dispatch).await),
        }
    }

    /// Checks the upstream's answer against the contract, builds the client's answer from it, and caches it if the contract allows.
    async fn observe(
        mut self: Box<Self>,
        exchange: &CallExchange,
        result: Bytes,
        to_cache: Option<Box<PendingRead>>,
        dispatch: Dispatch,
    ) -> ToolResult {
        let CallExchange { member, contract: compiled, fenced, .. } = exchange;
        let started_us = self.stopwatch.elapsed_us();
        let checked = observe::observe(compiled, &result);
        self.trail.note(GateName::Observe, checked.is_ok(), started_us);
        self.record.answer_digest = Some(Digest::compute(DigestDomain::Answer, &[&result]));
        match checked {
            Ok(observed) => {
                let is_error = observed.class != TaxonomyClass::Success;
                let outcome = if is_error { Outcome::ToolError } else { Outcome::Completed };
                self.finish(outcome, observed.class, None);
                if let Some(under_way) = to_cache.filter(|_| !is_error) {
                    self.core.cache.store(*under_way, result.clone());
                }
                let verification = tool_result::verification(compiled.contract());
                let mut observation =
                    tool_result::observation(&self.occasion(compiled.contract()), &observed, verification);
                // A tool that failed may have changed something first; only the contract's own keys make a repeat safe.
                observation.status.retryable &= !fenced.effect_class().mutates();
                let answered = tool_result::from_answer(&observed, observation, member.exposure(), result.len());
                let end = records::end_of_answer(&observed, compiled.contract(), &result);
                if dispatch.effect.is_none() {
                    self.conclude(dispatch, end, fenced.effect_class().mutates(), None).await;
                    return answered;
                }
                let (record, exposure) = (self.record.clone(), member.exposure());
                let settled = self.conclude(dispatch, end, fenced.effect_class().mutates(), None).await;
                let occasion = occasion_of_record(&record, compiled.contract());
                match settled.concluded {
                    SettlementStatus::Accepted => answered,
                    SettlementStatus::NotYet => not_on_record_yet(&occasion, fenced, is_error),
                    SettlementStatus::Disagrees => {
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
        mut exchange: CallExchange,
        failure: ClientFailure,
        mut dispatch: Dispatch,
    ) -> CallAnswer {
        if !failure.provably_not_executed() {
            dispatch.use_up_state();
        }
        let overdue = self.overdue(&mut exchange);
        let contract = exchange.contract.contract();
        let was_sent_before = exchange.fenced.was_sent_before();
        if let Some(error) = upstream_failure::protocol_error(&failure, exchange.requester_era, exchange.wants_task) {
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
            late_answers::settle_when_it_comes(&deferred, overdue, late);
        }
        CallAnswer::Result(tool_result::with_upstream_error(answered, &failure))
    }

    /// A call whose deadline passed, and the answer that may still come.
    fn overdue(&self, exchange: &mut CallExchange) -> Option<(OverdueCall, LateAnswer)> {
        let (late, fenced) = (exchange.late.take()?, &exchange.fenced);
        let overdue = OverdueCall {
            claim: fenced.claim()?.clone(),
            contract: Arc::clone(&exchange.contract),
            upstream: Arc::clone(&exchange.member.id),
            resources: exchange.contract.touched(fenced.arguments()),
            was_sent_before: fenced.was_sent_before(),
            record: self.record.clone(),
        };
        Some((overdue, late))
    }

    /// The upstream wants input and the requester can give it: this call is over, and the requester's next call continues it.
    async fn input_required(
        mut self: Box<Self>,
        exchange: &CallExchange,
        wanted: &RequiredInput,
        binding: Option<RequestBinding>,
        dispatch: Dispatch,
    ) -> CallAnswer {
        self.wants_input(&wanted.answer);
        let passed = match binding {
            Some(binding) => self.calls.bridge.input_required_result(wanted, &binding, &exchange.member.id).await,
            None => Err(no_binding()),
        };
        let end = match &passed {
            Ok(passed) => {
                let for_ms = passed.expires_at.since_ms(self.core.clock.now());
                DispatchEnd::Awaits(EffectWaitReason::Input(passed.nonce.clone()), for_ms)
            }
            Err(error) => DispatchEnd::Unknown(error.message.clone()),
        };
        let record = self.record.clone();
        let settled = self.conclude(dispatch, end, exchange.fenced.effect_class().mutates(), None).await;
        if settled.concluded == SettlementStatus::Disagrees {
            return CallAnswer::Result(went_on(&record, exchange, &settled));
        }
        passed.map_or_else(CallAnswer::Failed, |passed| CallAnswer::InputRequired(passed.json))
    }

    /// The upstream wants input that the requester never declared it could give. That is the upstream's mistake, and the call ends.
    async fn undeclared(
        mut self: Box<Self>,
        exchange: &CallExchange,
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
        let end = DispatchEnd::Unknown(error.message.clone());
        self.conclude(dispatch, end, exchange.fenced.effect_class().mutates(), None).await;
        CallAnswer::Failed(error)
    }

    async fn not_given(
        mut self: Box<Self>,
        exchange: &CallExchange,
        answer: &Answer,
        what: MissingInput,
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
        self.record.answer_digest = Some(Digest::compute(DigestDomain::Answer, &[&answer.result]));
        self.record.outcome = Outcome::InputRequired;
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.verdicts().to_vec();
    }

    /// The upstream made a task of the call. How the call ended is recorded when the end of the task is known.
    async fn task_created(
        mut self: Box<Self>,
        exchange: CallExchange,
        answer: &Answer,
        created: CreatedTask,
        dispatch: Dispatch,
    ) -> CallAnswer {
        let CallExchange { contract, fenced, requester_era, member, .. } = &exchange;
        let claim = dispatch.effect.as_ref().map(|effect| effect.claim.clone());
        let touches = contract.touched(fenced.arguments());
        let began = TaskOrigin { claim, touches, refused_questions: exchange.refused_questions.clone() };
        self.record.outcome = Outcome::TaskCreated;
        self.record.verdicts = self.trail.verdicts().to_vec();
        let rules = self.question_rules(&exchange);
        let task = NewTask { answer, created: &created, requester_era: *requester_era };
        match upstream_tasks::keep(&self.calls.deferred, member, task, &rules, &mut self.record, began).await {
            Ok(kept) => {
                let for_ms = kept.expires_at.since_ms(self.core.clock.now());
                let end = DispatchEnd::Awaits(EffectWaitReason::Task(kept.id.clone()), for_ms);
                self.record.task_id = Some(kept.id);
                let record = self.record.clone();
                let settled = self.conclude(dispatch, end, true, None).await;
                if settled.concluded == SettlementStatus::Disagrees {
                    return CallAnswer::Result(went_on(&record, &exchange, &settled));
                }
                CallAnswer::Task(kept.json)
            }
            Err(error) => {
                tracing::error!(%error, "a task of an upstream could not be stored");
                let refusal = refusals::task_not_kept(fenced.call_id());
                CallAnswer::Result(self.refuse(contract.contract(), refusal, Outcome::Unknown, None, dispatch).await)
            }
        }
    }
}

/// The answer of a call whose effect another dispatch continued. It says only what the ledger says.
fn went_on(record: &CallRecord, exchange: &CallExchange, settled: &SettlementOutcome) -> ToolResult {
    let contract = exchange.contract.contract();
    let mut refusal = refusals::superseded_by_dispatch(exchange.fenced.call_id());
    refusal.handle = exchange.fenced.claim().map(|claim| claim.id.to_string());
    if settled.key_knowledge() != EffectKnowledge::None {
        refusal.mark_unknown_before();
    }
    let observation =
        Observation::from_refusal(&occasion_of_record(record, contract), &refusal, tool_result::verification(contract));
    tool_result::from_refusal(refusal, observation)
}

/// The answer of a call whose end is not on record yet. What is acknowledged must not be forgotten, so the end is not acknowledged yet.
fn not_on_record_yet(occasion: &ObservationContext<'_>, fenced: &Fenced, is_error: bool) -> ToolResult {
    let handle = fenced.claim().map(|claim| claim.id.to_string()).unwrap_or_default();
    // A tool that failed may have changed something first.
    let effect = if is_error { EffectKnowledge::Unknown } else { EffectKnowledge::Happened };
    let refusal = refusals::not_on_record_yet(fenced.call_id(), &handle, effect);
    let observation = Observation::from_refusal(occasion, &refusal, Verification::none());
    tool_result::from_refusal(refusal, observation)
}

/// What is known of a call whose upstream asked for something and did not get it. The upstream may have begun before it asked.
fn after_input_not_given(effect_class: EffectClass) -> (EffectKnowledge, Outcome) {
    if effect_class.mutates() {
        (EffectKnowledge::Unknown, Outcome::Unknown)
    } else {
        (EffectKnowledge::None, Outcome::InputRequired)
    }
}

fn no_binding() -> RpcError {
    RpcError::new(
        code::INTERNAL_ERROR,
        "the upstream asked for input, but the call has no client request to bind it to",
    )
}
