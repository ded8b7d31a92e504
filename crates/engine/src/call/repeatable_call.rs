//! A fenced call as a request that can be made again: with the input that a modern server asked for, as the task that a legacy server
//! insists on, or because it failed and a repeat is provably safe.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use servanda_authority::AuthenticatedCaller;
use servanda_contract::tool::RetryPolicy;
use servanda_gates::Fenced;
use servanda_mcp::{Era, envelope::code};
use servanda_upstream::{Answer, Continuation, PerformFailure, RequestOptions};
use tokio::{sync::oneshot, time::Instant};

use super::{retry_counters::RetryCounters, revocation};
use crate::{
    answers::upstream_failure,
    bridge::RepeatableRequest,
    core::Core,
    deferred::{late_answers::LateAnswer, upstream_tasks},
    delivery_template::{DeliveryAttempt, DeliveryTemplate},
    long_running::{self, FollowedWork, ProgressRecorder},
    random::random,
    task_shape::created_task,
    world::{
        UpstreamMember,
        resilience::{BreakerOpen, FailedAttempt, RetryDecision, decide},
    },
};

/// A call at its upstream.
#[derive(Debug)]
pub(super) struct RepeatableCall {
    pub(super) member: Arc<UpstreamMember>,
    /// Held here unless the call is being sent: then the upstream has it.
    pub(super) fenced: Option<Fenced>,
    pub(super) template: DeliveryTemplate,
    pub(super) param_headers: Vec<(String, String)>,
    /// What the requester wants of a task, if it wants one.
    pub(super) task: Option<Box<RawValue>>,
    /// Whether the engine wants a task that it follows itself.
    pub(super) submits: bool,
    /// Records what the upstream says about long work.
    pub(super) progress_recorder: Option<ProgressRecorder>,
    pub(super) retries: CallRetries,
    pub(super) mandate: ResendAuthority,
    /// Whether the server made a task of the call.
    pub(super) was_task: bool,
    /// The answer that may still come after the deadline.
    pub(super) late: Option<LateAnswer>,
}

/// How often a call may be made again, and how often it was made.
#[derive(Debug)]
pub(super) struct CallRetries {
    pub(super) retries_max: u32,
    pub(super) policy: Option<RetryPolicy>,
    pub(super) retry_counters: Arc<RetryCounters>,
    /// How often the call was made.
    pub(super) made: u32,
    /// After how long the server wants to be called again, or its circuit breaker allows it.
    pub(super) retry_after_ms: Option<u64>,
}

/// The caller on whose behalf the call is sent, whose credential is rechecked before every repeat.
#[derive(Debug)]
pub(super) struct ResendAuthority {
    pub(super) core: Arc<Core>,
    pub(super) authority: Arc<AuthenticatedCaller>,
}

impl RepeatableRequest for RepeatableCall {
    async fn send(&mut self, attempt: DeliveryAttempt) -> Result<Answer, PerformFailure> {
        if let Some(task) = self.task.clone() {
            let answer = self.perform(attempt.clone(), Some(task)).await?;
            return Box::pin(self.follow_task(answer, attempt)).await;
        }
        if self.submits || self.takes_only_tasks(&attempt).await {
            return Box::pin(self.send_as_task(attempt)).await;
        }
        let outcome = match self.perform(attempt.clone(), None).await {
            // A modern server says itself that it made a task.
            Ok(answer) if answer.era == Era::Modern && self.progress_recorder.is_some() => {
                Box::pin(self.follow_task(answer, attempt.clone())).await
            }
            outcome => outcome,
        };
        if let Err(PerformFailure::Rejected { code: code::METHOD_NOT_FOUND, .. }) = &outcome {
            // A server that takes a tool only as a task must say so in the tool's definition and answer with this error. Both together are
            // reason enough to send a task. That the server has done nothing yet is only its word.
            self.member.forget_tools();
            if self.takes_only_tasks(&attempt).await {
                return Box::pin(self.send_as_task(attempt)).await.map_err(upstream_failure::after_sending);
            }
        }
        outcome
    }
}

impl RepeatableCall {
    async fn takes_only_tasks(&self, attempt: &DeliveryAttempt) -> bool {
        let Some(fenced) = &self.fenced else { return false };
        if upstream_tasks::is_known_not_required(&self.member, fenced.upstream_tool()) {
            return false;
        }
        let required = upstream_tasks::is_required(
            &self.member,
            &self.template.upstream_requester,
            fenced.upstream_tool(),
            attempt.deadline,
        );
        // A cancelled call does not wait for the tool's definition; the upstream is told of the cancellation in a moment.
        tokio::select! {
            biased;
            required = required => required,
            () = self.template.cancel.cancelled() => false,
        }
    }

    async fn perform(
        &mut self,
        attempt: DeliveryAttempt,
        task: Option<Box<RawValue>>,
    ) -> Result<Answer, PerformFailure> {
        if let Err(shut) = self.member.health.admit_call() {
            return Err(self.breaker_failure(shut));
        }
        let mut made_here = 0;
        let mut left = false;
        loop {
            if let Some(failure) = self.revoked_since(attempt.deadline).await {
                return Err(if left { upstream_failure::after_sending(failure) } else { failure });
            }
            let outcome = self.send_once(attempt.clone(), task.clone()).await;
            made_here += 1;
            self.retries.made += 1;
            self.member.health.record_outcome(&outcome);
            // An earlier attempt that left stays as uncertain as it was, whatever the outcome of the repeat.
            let outcome = if left { outcome.map_err(upstream_failure::after_sending) } else { outcome };
            let Err(failure) = &outcome else { return outcome };
            self.retries.retry_after_ms = retry_after_ms(failure);
            let Some(wait_ms) = self.retry_delay_ms(failure, made_here, attempt.deadline) else { return outcome };
            left |= !failure.provably_not_executed();
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.template.cancel.cancelled() => return outcome,
            }
            match self.member.health.admit_retry() {
                Ok(true) => {}
                Ok(false) => return outcome,
                Err(BreakerOpen { retry_after_ms }) => {
                    self.retries.retry_after_ms = Some(retry_after_ms);
                    return outcome;
                }
            }
        }
    }

    /// Why the call is not sent again: its credential was revoked or has expired since it was first sent. The fence checked the credential
    /// before that.
    async fn revoked_since(&self, deadline: Instant) -> Option<PerformFailure> {
        if self.retries.made == 0 {
            return None;
        }
        let ResendAuthority { core, authority } = &self.mandate;
        let call_id = self.fenced.as_ref()?.call_id();
        let rechecked = tokio::time::timeout_at(deadline, revocation::recheck(core, authority, call_id)).await;
        let rechecked = rechecked.unwrap_or_else(|_| Err(revocation::not_in_time(call_id.clone())));
        rechecked.err().map(|refusal| PerformFailure::Unavailable { why: refusal.message })
    }

    async fn send_once(
        &mut self,
        attempt: DeliveryAttempt,
        task: Option<Box<RawValue>>,
    ) -> Result<Answer, PerformFailure> {
        let Some(fenced) = self.fenced.take() else {
            return Err(PerformFailure::Unavailable { why: "the call is being sent already".to_owned() });
        };
        let param_headers = self.param_headers.clone();
        // Only an effect can be settled by a late answer.
        let (sink, late) = oneshot::channel();
        let sink = fenced.claim().is_some().then_some(sink);
        let delivery = RequestOptions { task, param_headers, late: sink, ..self.template.delivery(attempt) };
        let performed = self.member.server.perform(fenced, delivery).await;
        self.late = matches!(performed.outcome, Err(PerformFailure::TimedOut { .. })).then_some(late);
        self.fenced = Some(performed.fenced);
        performed.outcome
    }

    /// The pause before the same bytes are sent again; none if they are not.
    fn retry_delay_ms(&self, failure: &PerformFailure, made: u32, deadline: Instant) -> Option<u64> {
        let fenced = self.fenced.as_ref()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let verdict = decide(&FailedAttempt {
            class: fenced.effect_class(),
            failure,
            made,
            retries_max: self.retries.retries_max,
            policy: self.retries.policy.as_ref(),
            random: random(),
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        });
        match verdict {
            RetryDecision::Again { wait_ms } => {
                self.retries.retry_counters.count_retry();
                tracing::debug!(call_id = %fenced.call_id(), %failure, wait_ms, "a call is sent again");
                Some(wait_ms)
            }
            RetryDecision::Stop => None,
            RetryDecision::Unsafe => {
                let count = self.retries.retry_counters.count_unsafe_retry();
                tracing::warn!(
                    call_id = %fenced.call_id(), count, %failure,
                    "a retry was wanted and not made: it is unknown whether the call did something"
                );
                None
            }
        }
    }

    fn breaker_failure(&mut self, shut: BreakerOpen) -> PerformFailure {
        self.retries.retry_after_ms = Some(shut.retry_after_ms);
        PerformFailure::Unavailable {
            why: "its recent calls failed, so the gateway sends it no calls for a while".to_owned(),
        }
    }

    /// Sends the call as a task and waits for its end, so that it looks like a plain call.
    async fn send_as_task(&mut self, attempt: DeliveryAttempt) -> Result<Answer, PerformFailure> {
        let answer = self.perform(attempt.clone(), Some(upstream_tasks::plain_request())).await?;
        if self.progress_recorder.is_some() {
            return self.follow_task(answer, attempt).await;
        }
        let Some(created) = created_task(&answer) else { return Ok(answer) };
        self.was_task = true;
        upstream_tasks::drive(&self.member, &created, &attempt, |attempt| self.template.delivery(attempt)).await
    }

    /// Follows long work to its end if the server made a task of it, unless the requester is told of the task.
    async fn follow_task(&mut self, answer: Answer, attempt: DeliveryAttempt) -> Result<Answer, PerformFailure> {
        let claim = self.fenced.as_ref().and_then(Fenced::claim).cloned();
        let (Some(progress_recorder), Some(claim)) = (self.progress_recorder.clone(), claim) else { return Ok(answer) };
        let Some(created) = created_task(&answer) else { return Ok(answer) };
        if progress_recorder.work.relays() {
            return Ok(answer);
        }
        self.was_task = true;
        let template = &self.template;
        let delivery = |until: Instant| {
            let attempt = DeliveryAttempt { deadline: until, continuation: Continuation::default(), ..attempt.clone() };
            template.delivery(attempt)
        };
        let followed = FollowedWork {
            progress_recorder,
            member: &self.member,
            claim,
            deadline: attempt.deadline,
            delivery: &delivery,
        };
        long_running::follow(&followed, &created).await
    }
}

/// After how long a busy server wants to be called again.
fn retry_after_ms(failure: &PerformFailure) -> Option<u64> {
    match failure {
        PerformFailure::HttpStatus { retry_after_ms, .. } => *retry_after_ms,
        _ => None,
    }
}
