//! A fenced call as a request that can be made again: with what a modern server asked for, as the task that a legacy
//! server insists on, or because it failed and a repeat is provably safe.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use servanda_authority::Authenticated;
use servanda_contract::tool::RetryPolicy;
use servanda_gates::Fenced;
use servanda_mcp::{Era, envelope::code};
use servanda_upstream::{Answer, Continuation, Delivery, PerformFailure};
use tokio::{sync::oneshot, time::Instant};

use super::{revocation, tallies::Tallies};
use crate::{
    answers::upstream_failure,
    bridge::Errand,
    core::Core,
    deferred::{late::LateAnswer, upstream_tasks},
    delivery_template::{Leg, Outline},
    long_running::{self, Ear, Followed},
    random::random,
    task_shape::created,
    world::{
        Member,
        resilience::{Attempt, Shut, Verdict, decide},
    },
};

/// A call at its upstream.
#[derive(Debug)]
pub(super) struct CallErrand {
    pub(super) member: Arc<Member>,
    /// Back from the upstream whenever nothing is being sent.
    pub(super) fenced: Option<Fenced>,
    pub(super) outline: Outline,
    pub(super) param_headers: Vec<(String, String)>,
    /// What the guest wants of a task, if it wants one.
    pub(super) task: Option<Box<RawValue>>,
    /// Whether the engine wants a task that it follows itself.
    pub(super) submits: bool,
    /// Who keeps what is said about long work.
    pub(super) ear: Option<Ear>,
    pub(super) persistence: Persistence,
    pub(super) mandate: StandingMandate,
    /// Whether the server made a task of it.
    pub(super) was_task: bool,
    /// The answer that may still come, where the deadline passed before it.
    pub(super) late: Option<LateAnswer>,
}

/// How often a call may be made again, and how often it was made.
#[derive(Debug)]
pub(super) struct Persistence {
    pub(super) retries_max: u32,
    pub(super) policy: Option<RetryPolicy>,
    pub(super) tallies: Arc<Tallies>,
    /// How often it was made.
    pub(super) made: u32,
    /// When the server wants to be asked again, or may be.
    pub(super) retry_after_ms: Option<u64>,
}

/// In whose name it is sent, to be looked at again before it is sent again.
#[derive(Debug)]
pub(super) struct StandingMandate {
    pub(super) core: Arc<Core>,
    pub(super) authority: Arc<Authenticated>,
}

impl Errand for CallErrand {
    async fn send(&mut self, leg: Leg) -> Result<Answer, PerformFailure> {
        if let Some(task) = self.task.clone() {
            let answer = self.perform(leg.clone(), Some(task)).await?;
            return Box::pin(self.followed(answer, leg)).await;
        }
        if self.submits || self.takes_only_tasks(&leg).await {
            return Box::pin(self.as_task(leg)).await;
        }
        let outcome = match self.perform(leg.clone(), None).await {
            // A modern server says itself that it made a task.
            Ok(answer) if answer.era == Era::Modern && self.ear.is_some() => {
                Box::pin(self.followed(answer, leg.clone())).await
            }
            outcome => outcome,
        };
        if let Err(PerformFailure::Rejected { code: code::METHOD_NOT_FOUND, .. }) = &outcome {
            // A server that takes a tool only as a task must say so in the tool's definition and answer just this. Both
            // together are reason enough to do what it asks; that it had done nothing yet is only its word.
            self.member.forget_tools();
            if self.takes_only_tasks(&leg).await {
                return Box::pin(self.as_task(leg)).await.map_err(upstream_failure::after_sending);
            }
        }
        outcome
    }
}

impl CallErrand {
    async fn takes_only_tasks(&self, leg: &Leg) -> bool {
        let Some(fenced) = &self.fenced else { return false };
        let required =
            upstream_tasks::is_required(&self.member, &self.outline.counterpart, fenced.upstream_tool(), leg.deadline);
        // A call that was taken back is not asked about; the upstream is told of it in a moment.
        tokio::select! {
            biased;
            required = required => required,
            () = self.outline.cancel.cancelled() => false,
        }
    }

    async fn perform(&mut self, leg: Leg, task: Option<Box<RawValue>>) -> Result<Answer, PerformFailure> {
        if let Err(shut) = self.member.guard.ask() {
            return Err(self.left_alone(shut));
        }
        let mut made_here = 0;
        let mut left = false;
        loop {
            if let Some(failure) = self.taken_back(leg.deadline).await {
                return Err(if left { upstream_failure::after_sending(failure) } else { failure });
            }
            let outcome = self.send_once(leg.clone(), task.clone()).await;
            made_here += 1;
            self.persistence.made += 1;
            self.member.guard.learn(&outcome);
            // What left before is as uncertain as it was, whatever became of the repeat.
            let outcome = if left { outcome.map_err(upstream_failure::after_sending) } else { outcome };
            let Err(failure) = &outcome else { return outcome };
            self.persistence.retry_after_ms = retry_after_ms(failure);
            let Some(wait_ms) = self.repeats_after_ms(failure, made_here, leg.deadline) else { return outcome };
            left |= !failure.provably_not_executed();
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.outline.cancel.cancelled() => return outcome,
            }
            match self.member.guard.ask_again() {
                Ok(true) => {}
                Ok(false) => return outcome,
                Err(Shut { retry_after_ms }) => {
                    self.persistence.retry_after_ms = Some(retry_after_ms);
                    return outcome;
                }
            }
        }
    }

    /// Why the call is not sent again: what it is sent under was revoked or has ended since it was sent first. That it was good then
    /// was seen at the fence.
    async fn taken_back(&self, deadline: Instant) -> Option<PerformFailure> {
        if self.persistence.made == 0 {
            return None;
        }
        let StandingMandate { core, authority } = &self.mandate;
        let call_id = self.fenced.as_ref()?.call_id();
        let rechecked = tokio::time::timeout_at(deadline, revocation::recheck(core, authority, call_id)).await;
        let rechecked = rechecked.unwrap_or_else(|_| Err(revocation::not_in_time(call_id.clone())));
        rechecked.err().map(|refusal| PerformFailure::Unavailable { why: refusal.message })
    }

    async fn send_once(&mut self, leg: Leg, task: Option<Box<RawValue>>) -> Result<Answer, PerformFailure> {
        let Some(fenced) = self.fenced.take() else {
            return Err(PerformFailure::Unavailable { why: "the call is being sent already".to_owned() });
        };
        let param_headers = self.param_headers.clone();
        // Only an effect can be settled by what comes late.
        let (sink, late) = oneshot::channel();
        let sink = fenced.claim().is_some().then_some(sink);
        let delivery = Delivery { task, param_headers, late: sink, ..self.outline.delivery(leg) };
        let performed = self.member.server.perform(fenced, delivery).await;
        self.late = matches!(performed.outcome, Err(PerformFailure::TimedOut { .. })).then_some(late);
        self.fenced = Some(performed.fenced);
        performed.outcome
    }

    /// When the same bytes are sent again, if they are.
    fn repeats_after_ms(&self, failure: &PerformFailure, made: u32, deadline: Instant) -> Option<u64> {
        let fenced = self.fenced.as_ref()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let verdict = decide(&Attempt {
            class: fenced.effect_class(),
            failure,
            made,
            retries_max: self.persistence.retries_max,
            policy: self.persistence.policy.as_ref(),
            random: random(),
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        });
        match verdict {
            Verdict::Again { wait_ms } => {
                self.persistence.tallies.count_retry();
                tracing::debug!(call_id = %fenced.call_id(), %failure, wait_ms, "a call is sent again");
                Some(wait_ms)
            }
            Verdict::Enough => None,
            Verdict::Unsafe => {
                let count = self.persistence.tallies.count_unsafe_retry();
                tracing::warn!(
                    call_id = %fenced.call_id(), count, %failure,
                    "a retry was wanted and not made: nobody knows whether the call did something"
                );
                None
            }
        }
    }

    fn left_alone(&mut self, shut: Shut) -> PerformFailure {
        self.persistence.retry_after_ms = Some(shut.retry_after_ms);
        PerformFailure::Unavailable {
            why: "it has done nothing but fail lately, and is left alone for a while".to_owned(),
        }
    }

    /// Makes a task of the call and waits for its end, as if it were none.
    async fn as_task(&mut self, leg: Leg) -> Result<Answer, PerformFailure> {
        let answer = self.perform(leg.clone(), Some(upstream_tasks::plain_request())).await?;
        if self.ear.is_some() {
            return self.followed(answer, leg).await;
        }
        let Some(created) = created(&answer) else { return Ok(answer) };
        self.was_task = true;
        upstream_tasks::drive(&self.member, &created, &leg, |leg| self.outline.delivery(leg)).await
    }

    /// Long work that the server made a task of is followed to its end, unless the guest is told of the task.
    async fn followed(&mut self, answer: Answer, leg: Leg) -> Result<Answer, PerformFailure> {
        let claim = self.fenced.as_ref().and_then(Fenced::claim).cloned();
        let (Some(ear), Some(claim)) = (self.ear.clone(), claim) else { return Ok(answer) };
        let Some(created) = created(&answer) else { return Ok(answer) };
        if ear.work.relays() {
            return Ok(answer);
        }
        self.was_task = true;
        let outline = &self.outline;
        let delivery = |until: Instant| {
            let leg = Leg { deadline: until, continuation: Continuation::default(), ..leg.clone() };
            outline.delivery(leg)
        };
        let followed = Followed { ear, member: &self.member, claim, deadline: leg.deadline, delivery: &delivery };
        long_running::follow(&followed, &created).await
    }
}

/// How long a server that is too busy wants to be left alone.
fn retry_after_ms(failure: &PerformFailure) -> Option<u64> {
    match failure {
        PerformFailure::HttpStatus { retry_after_ms, .. } => *retry_after_ms,
        _ => None,
    }
}
