//! Follows work that an upstream does by itself. Where the work continues is stored first. Then the upstream is asked less and less
//! often, until the work ends or its time is over. A cancellation is passed on, and the end is still awaited.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{json, value::RawValue};
use servanda_effects::effect::{
    Claim, DispatchEnd, EffectChange, EffectEvent, EffectTarget, EffectWaitReason, owner_silence_ms_max,
};
use servanda_mcp::{Era, RawObject, fields::method};
use servanda_upstream::{Answer, PerformFailure, RequestOptions, ServerMessage};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    ProgressRecorder, WorkProgress,
    note::{self, SubmittedWork, SubmittedWorkId},
    poll_backoff::PollBackoff,
};
use crate::{
    answers::upstream_failure,
    questions::legible_in_brief,
    random::random,
    task_shape::{CreatedTask, TaskStatus, task_error, task_question, with_related_task},
    world::UpstreamMember,
};

/// How long one question to the upstream may take.
const ASK_MS_MAX: u64 = 30_000;
/// How much longer than its time the work counts as followed, so that its follower has given up before another process takes it over.
const GRACE_MS: u64 = 10_000;

/// Long work that continues at its upstream.
pub(crate) struct FollowedWork<'a> {
    pub(crate) progress_recorder: ProgressRecorder,
    pub(crate) member: &'a Arc<UpstreamMember>,
    /// The claim that shows that the work belongs to this process.
    pub(crate) claim: Claim,
    pub(crate) deadline: Instant,
    /// The options of a question that ends at the given time.
    pub(crate) delivery: &'a (dyn Fn(Instant) -> RequestOptions + Send + Sync),
}

/// Follows a task that an upstream made until there is the answer that the call would have got.
pub(crate) async fn follow(followed: &FollowedWork<'_>, created: &CreatedTask) -> Result<Answer, PerformFailure> {
    let CreatedTask { theirs, era, poll_ms, .. } = created;
    let modern = *era == Era::Modern;
    followed.submit(SubmittedWorkId::Task { theirs: theirs.clone(), modern, poll_ms: *poll_ms }).await;
    followed.follow_task(theirs, *era, *poll_ms).await.map_err(upstream_failure::after_sending)
}

/// What follows a question about a task.
enum TaskPollStep {
    Wait(Option<u64>),
    Fetch,
    Done(Result<Answer, PerformFailure>),
}

impl FollowedWork<'_> {
    /// Stores where the work continues, first beside the effect and then in it, so that after a crash the work is asked about instead of
    /// given up.
    pub(super) async fn submit(&self, place: SubmittedWorkId) {
        let ProgressRecorder { core, id, .. } = &self.progress_recorder;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).saturating_add(GRACE_MS);
        let now_ms = core.clock.now().unix_ms();
        let until_ms = now_ms.saturating_add(left_ms);
        let kept = note::keep_submitted(
            core,
            id,
            &SubmittedWork { epoch: self.claim.epoch, place, asked_at_ms: now_ms, until_ms },
        )
        .await;
        let event = EffectEvent::Settle(
            self.claim.clone(),
            DispatchEnd::Awaits(EffectWaitReason::Task(id.to_string()), left_ms),
        );
        let change = EffectChange {
            target: EffectTarget::Id(id.clone()),
            event,
            record: None,
            quarantine: None,
            notices: Vec::new(),
            consumes: None,
        };
        let marked = match kept {
            Ok(()) => core.effects.apply(change).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = marked {
            tracing::error!(effect = %id, %error, "the place where long work continues could not be stored; a crash would lose it");
        }
    }

    /// Stores from time to time that this process still asks about the work.
    async fn note_asked(&self) {
        let ProgressRecorder { core, id, .. } = &self.progress_recorder;
        let now_ms = core.clock.now().unix_ms();
        if let Some(submitted) = note::submitted(core, id).await
            && now_ms.saturating_sub(submitted.asked_at_ms) >= owner_silence_ms_max()
        {
            let _ = note::keep_submitted(core, id, &SubmittedWork { asked_at_ms: now_ms, ..submitted }).await;
        }
    }

    /// Waits before the next question. Returns an error when the work's time is over, and whether the work was cancelled meanwhile.
    pub(super) async fn pause(&self, pause_ms: u64, told: bool) -> Result<bool, PerformFailure> {
        let until = Instant::now() + Duration::from_millis(pause_ms);
        loop {
            let step = until.min(Instant::now() + Duration::from_millis(owner_silence_ms_max()));
            tokio::select! {
                () = self.progress_recorder.work.cancel.cancelled(), if !told => return Ok(true),
                () = tokio::time::sleep_until(step.min(self.deadline)) => {}
            }
            self.note_asked().await;
            if Instant::now() >= self.deadline {
                let note = Some("its upstream still works on it".to_owned());
                return Err(PerformFailure::TimedOut { note });
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    pub(super) async fn follow_task(
        &self,
        theirs: &str,
        era: Era,
        poll_ms: Option<u64>,
    ) -> Result<Answer, PerformFailure> {
        let (mut pace, mut named_ms, mut told, mut fetch) = (PollBackoff::default(), poll_ms, false, false);
        loop {
            match self.pause(pace.next_ms(named_ms, random()), told).await {
                Ok(false) => {}
                Ok(true) => {
                    told = true;
                    self.cancel_upstream(theirs).await;
                }
                Err(over) => {
                    self.cancel_upstream(theirs).await;
                    return Err(over);
                }
            }
            let next = if fetch { self.fetch(theirs).await } else { self.ask_once(theirs, era).await };
            match next {
                TaskPollStep::Wait(ms) => named_ms = ms.or(named_ms),
                TaskPollStep::Fetch => (fetch, pace) = (true, PollBackoff::default()),
                TaskPollStep::Done(Err(failure @ PerformFailure::Malformed { .. })) => {
                    self.cancel_upstream(theirs).await;
                    return Err(failure);
                }
                TaskPollStep::Done(done) => return done,
            }
        }
    }

    async fn ask_once(&self, theirs: &str, era: Era) -> TaskPollStep {
        let malformed = |why: &str| TaskPollStep::Done(Err(PerformFailure::Malformed { why: why.to_owned() }));
        let answer = match self.ask(method::TASKS_GET, theirs, ASK_MS_MAX).await {
            Ok(answer) => answer,
            Err(failure @ PerformFailure::Rejected { .. }) => return TaskPollStep::Done(Err(failure)),
            // The task continues without us; the loop asks again.
            Err(_) => return TaskPollStep::Wait(None),
        };
        let Ok(task) = serde_json::from_slice::<RawObject<'_>>(&answer.result) else {
            return malformed("the task is not a JSON object");
        };
        let Some(status) = TaskStatus::from_task(&task) else { return malformed("the task has no status") };
        match (status, era) {
            (TaskStatus::Working, _) => {
                self.report_status(&task);
                TaskPollStep::Wait(number(&task, if era == Era::Modern { "pollIntervalMs" } else { "pollInterval" }))
            }
            // A legacy server gives the result, and asks its questions, while the result is being fetched.
            (TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired, Era::Legacy) => {
                TaskPollStep::Fetch
            }
            (TaskStatus::Completed, Era::Modern) => match task.get("result") {
                Some(result) => {
                    let result = Bytes::copy_from_slice(result.get().as_bytes());
                    TaskPollStep::Done(Ok(Answer { result, era }))
                }
                None => malformed("the task has no result"),
            },
            (TaskStatus::Failed, Era::Modern) => {
                TaskPollStep::Done(Err(upstream_failure::rejected(task_error(task.get("error")))))
            }
            (TaskStatus::InputRequired, Era::Modern) => {
                malformed("the task wants input, but no client is waiting that could give it")
            }
            (TaskStatus::Cancelled, _) => TaskPollStep::Done(Err(PerformFailure::Cancelled { sent: true })),
        }
    }

    async fn fetch(&self, theirs: &str) -> TaskPollStep {
        match self.ask(method::TASKS_RESULT, theirs, u64::MAX).await {
            Ok(answer) => {
                // The requester does not know that there is a task.
                let result = with_related_task(&answer.result, None).map_or_else(|| answer.result.clone(), Bytes::from);
                TaskPollStep::Done(Ok(Answer { result, era: answer.era }))
            }
            Err(failure @ (PerformFailure::Rejected { .. } | PerformFailure::TooLarge { .. })) => {
                TaskPollStep::Done(Err(failure))
            }
            Err(_) => TaskPollStep::Wait(None),
        }
    }

    async fn ask(&self, method: &'static str, theirs: &str, ms_max: u64) -> Result<Answer, PerformFailure> {
        let until = Instant::now().checked_add(Duration::from_millis(ms_max)).unwrap_or(self.deadline);
        // Cancelling the work does not stop the questions about it.
        let delivery = RequestOptions { cancel: CancellationToken::new(), ..(self.delivery)(until.min(self.deadline)) };
        self.member.server.ask(task_question(method, theirs), delivery).await
    }

    async fn cancel_upstream(&self, theirs: &str) {
        let delivery = RequestOptions {
            cancel: CancellationToken::new(),
            ..(self.delivery)(Instant::now() + Duration::from_millis(ASK_MS_MAX))
        };
        if let Err(error) = self.member.server.ask(task_question(method::TASKS_CANCEL, theirs), delivery).await {
            tracing::debug!(upstream = %self.member.id, %error, "the cancellation of a task did not reach its upstream");
        }
    }

    fn report_status(&self, task: &RawObject<'_>) {
        let message = task.get("statusMessage").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        if let Some(message) = message {
            self.report_message(&message);
        }
    }

    /// Stores what the upstream says about its state, and sends it to the waiting caller as progress. The progress value counts the
    /// messages, because the protocol requires a number that grows.
    pub(super) fn report_message(&self, message: &str) {
        let message = &*legible_in_brief(message);
        let Some(count) = self.progress_recorder.work.note_state(message) else { return };
        self.progress_recorder.record(WorkProgress::from_status(message, self.progress_recorder.core.clock.now()));
        if let Some(sink) = (self.delivery)(self.deadline).server_messages
            && let Ok(params) = serde_json::value::to_raw_value(&json!({ "progress": count, "message": message }))
        {
            let _ = sink.try_send(ServerMessage::Progress(params));
        }
    }
}

fn number(task: &RawObject<'_>, name: &str) -> Option<u64> {
    task.get(name).and_then(|raw: &RawValue| serde_json::from_str(raw.get()).ok())
}
