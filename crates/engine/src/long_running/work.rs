//! Long work under way in this process. Its caller waits for a while, and then the work continues alone.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;
use servanda_contract::{ToolContract, tool::TimeoutClass};
use servanda_effects::effect::EffectId;
use servanda_mcp::{Era, RpcError, capabilities::TASKS_EXTENSION, envelope::code};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{LongWorkContext, LongWorkEntry, LongWorkTable, WorkProgress, note, task, view};
use crate::{
    client::{CallAnswer, Requester},
    core::Core,
};

/// The shortest time between two stored progress messages.
const PROGRESS_MS_MIN: u64 = 1_000;
/// A day: no caller waits longer.
const WAIT_MS_MAX: u64 = 86_400_000;
/// How long a modern caller that takes tasks waits before it gets a task. A tool that is `long_running` by its contract may be quick in
/// fact, because inferred contracts call every uncertain tool `long_running`.
const GRACE_MS: u64 = 1_000;
/// How long before the end of its own timeout a caller is answered, so that the answer still reaches it.
const RESERVE_MS_MAX: u64 = 500;

#[derive(Debug)]
pub(crate) struct LongWork {
    /// Cancelled when the work is.
    pub(crate) cancel: CancellationToken,
    /// Until when the caller waits for the answer or a handle.
    pub(crate) caller_waits_until: Instant,
    /// When a caller that takes tasks gets a task.
    task_at: Instant,
    requester_era: Era,
    takes_tasks: bool,
    has_task_made: bool,
    can_be_asked: bool,
    trace_id: String,
    stage: watch::Sender<LongWorkStage>,
    progress: Mutex<ProgressState>,
    _place: Option<OwnedSemaphorePermit>,
}

/// The terms on which long work begins.
#[derive(Debug)]
pub(crate) struct LongWorkTerms<'a> {
    pub(crate) requester: &'a Requester,
    /// Whether a legacy requester asked for a task.
    pub(crate) asks_for_task: bool,
    /// Whether people usually have to approve calls of the tool: then a legacy client was told that it may ask for a task, and gets one.
    pub(crate) usually_needs_approval: bool,
    /// How long the caller says that it waits.
    pub(crate) caller_wait_ms: Option<u64>,
    pub(crate) started: Instant,
    pub(crate) trace_id: &'a str,
    pub(crate) cancel: CancellationToken,
}

/// The stage of the work, as its caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LongWorkStage {
    /// Nothing is recorded yet that a caller could ask about.
    Judged,
    /// The effect is fenced, and the caller waits.
    Begun(RecordedWork),
    /// The caller no longer waits.
    Left,
    /// The caller was given the upstream's own task.
    Relayed,
}

/// Long work that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedWork {
    /// The handle of the work.
    pub(crate) id: EffectId,
    /// Whether the caller may be given the upstream's own task.
    pub(crate) relays: bool,
}

/// The last progress, and whether a task is storing it.
#[derive(Debug, Default)]
struct ProgressState {
    waiting: Option<WorkProgress>,
    writing: bool,
    /// The last state message of an upstream that works on its own, and how many different messages it has sent.
    state: Option<(String, u64)>,
}

/// Records the progress of long work.
#[derive(Debug, Clone)]
pub(crate) struct ProgressRecorder {
    pub(crate) core: Arc<Core>,
    pub(crate) work: Arc<LongWork>,
    /// The handle of the work.
    pub(crate) id: EffectId,
}

impl LongWork {
    /// Makes a call long work, if its contract says so and there is a place for it.
    pub(crate) fn for_call(
        long_running: &LongWorkContext,
        contract: &ToolContract,
        terms: LongWorkTerms<'_>,
    ) -> Option<Arc<Self>> {
        let LongWorkTerms {
            requester,
            asks_for_task,
            usually_needs_approval,
            caller_wait_ms,
            started,
            trace_id,
            cancel,
        } = terms;
        let becomes_task = asks_for_task && usually_needs_approval;
        let takes_tasks = match requester.era {
            Era::Legacy => asks_for_task,
            Era::Modern => requester.capabilities.has_extension(TASKS_EXTENSION),
        };
        let wait_ms_max = match long_running.wait_ms_max {
            _ if !contract.is_long() && !becomes_task => return None,
            // Without tasks and without a limit on waiting, it is a call like any other.
            None if !takes_tasks => return None,
            wait_ms_max => wait_ms_max.unwrap_or(WAIT_MS_MAX),
        };
        let said_ms = caller_wait_ms.map_or(u64::MAX, |ms| ms.saturating_sub((ms / 10).min(RESERVE_MS_MAX)));
        let wait_ms = wait_ms_max.min(said_ms).min(WAIT_MS_MAX);
        Some(Arc::new(Self {
            cancel,
            caller_waits_until: started + Duration::from_millis(wait_ms),
            task_at: started + Duration::from_millis(grace_ms(contract, requester.era).min(wait_ms)),
            requester_era: requester.era,
            takes_tasks,
            has_task_made: requester.era == Era::Legacy || is_async(contract),
            can_be_asked: requester.era == Era::Modern && requester.capabilities.answers_anything(),
            trace_id: trace_id.to_owned(),
            stage: watch::Sender::new(LongWorkStage::Judged),
            progress: Mutex::default(),
            _place: Some(long_running.works.reserve_place()?),
        }))
    }

    /// The work of a call that the gateway repeats for a task. Its caller waits for the task, and cannot be asked anything.
    pub(crate) fn of_held_task(works: &LongWorkTable, cancel: CancellationToken) -> Arc<Self> {
        let place = works.reserve_place();
        Arc::new(Self { stage: watch::Sender::new(LongWorkStage::Left), ..Self::alone(cancel, place) })
    }

    /// Work whose caller does not wait.
    pub(crate) fn unattended(
        id: &EffectId,
        cancel: CancellationToken,
        place: Option<OwnedSemaphorePermit>,
    ) -> Arc<Self> {
        let begun = LongWorkStage::Begun(RecordedWork { id: id.clone(), relays: false });
        Arc::new(Self { stage: watch::Sender::new(begun), ..Self::alone(cancel, place) })
    }

    fn alone(cancel: CancellationToken, place: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            cancel,
            caller_waits_until: Instant::now(),
            task_at: Instant::now(),
            requester_era: Era::Modern,
            takes_tasks: false,
            has_task_made: false,
            can_be_asked: false,
            trace_id: String::new(),
            stage: watch::Sender::new(LongWorkStage::Judged),
            progress: Mutex::default(),
            _place: place,
        }
    }

    /// Whether the requester can be given a task.
    pub(crate) const fn takes_tasks(&self) -> bool {
        self.takes_tasks
    }

    /// Whether the engine has an upstream of this era make a task that the requester does not see. A modern server decides by its
    /// client's capabilities, so a modern requester that takes no tasks gets the server's answer for such clients. An `async` contract is
    /// the exception, because no caller waits for its end.
    pub(crate) fn has_task_made(&self, upstream: Era) -> bool {
        self.has_task_made || upstream == Era::Legacy
    }

    /// Records that the effect is fenced: from now on callers can ask about the work.
    pub(crate) fn begin(self: &Arc<Self>, works: &Arc<LongWorkTable>, begun: RecordedWork) -> LongWorkEntry {
        let entered = works.enter(&begun.id, self);
        self.stage.send_if_modified(|stage| {
            let has_caller = *stage != LongWorkStage::Left;
            if has_caller {
                *stage = LongWorkStage::Begun(begun);
            }
            has_caller
        });
        entered
    }

    /// Whether the caller is given the upstream's own task, and then asks about that one.
    pub(crate) fn relays(&self) -> bool {
        self.stage.send_if_modified(|stage| match stage {
            LongWorkStage::Begun(RecordedWork { relays: true, .. }) => {
                *stage = LongWorkStage::Relayed;
                true
            }
            _ => false,
        })
    }

    /// Whether the caller no longer waits.
    pub(crate) fn is_left(&self) -> bool {
        *self.stage.borrow() == LongWorkStage::Left
    }

    /// Waits together with the caller. A caller that gives up cancels the work and still waits for its end, as with any call.
    pub(crate) async fn wait_with_caller(
        self: &Arc<Self>,
        long_running: &LongWorkContext,
        mut running: JoinHandle<CallAnswer>,
        gives_up: &CancellationToken,
    ) -> CallAnswer {
        let mut told = std::pin::pin!(self.handover(long_running));
        loop {
            tokio::select! {
                biased;
                done = &mut running => {
                    let done = done.unwrap_or_else(|error| CallAnswer::Failed(task_lost(&error)));
                    return self.as_promised(long_running, done).await;
                }
                () = gives_up.cancelled(), if !self.cancel.is_cancelled() => self.cancel.cancel(),
                told = &mut told, if !gives_up.is_cancelled() => return told,
            }
        }
    }

    /// The answer of a call that has ended. A legacy client that asked for a task of a tool which is quick, once approved, gets the task: it
    /// reads no other answer. A call that did not begin is answered as it is.
    async fn as_promised(&self, long_running: &LongWorkContext, done: CallAnswer) -> CallAnswer {
        let begun = match &*self.stage.borrow() {
            LongWorkStage::Begun(begun) if self.takes_tasks && self.requester_era == Era::Legacy => begun.clone(),
            _ => return done,
        };
        if !matches!(done, CallAnswer::Result(_)) {
            return done;
        }
        let Some(seen) = view::view_by_id(&long_running.core, &begun.id).await else { return done };
        long_running.lists.add_work(&long_running.core, &seen).await;
        CallAnswer::Task(task::created(&seen, Era::Legacy))
    }

    /// The answer to a caller that need not wait any longer: a task or a handle. It never completes if there is nothing to ask about yet,
    /// or if the caller will get a better answer.
    pub(crate) async fn handover(&self, long_running: &LongWorkContext) -> CallAnswer {
        let mut stages = self.stage.subscribe();
        let begun = stages.wait_for(|stage| *stage != LongWorkStage::Judged).await.map(|stage| stage.clone());
        let Ok(LongWorkStage::Begun(begun)) = begun else { return std::future::pending().await };
        // Questions of the upstream come first if the requester can answer them, and the upstream's own task is better than ours.
        let waits = !self.takes_tasks || self.can_be_asked || begun.relays;
        tokio::time::sleep_until(if waits { self.caller_waits_until } else { self.task_at }).await;
        let Some(seen) = view::view_by_id(&long_running.core, &begun.id).await else {
            return std::future::pending().await;
        };
        if seen.is_ended() || !self.leave() {
            return std::future::pending().await;
        }
        if self.takes_tasks {
            long_running.lists.add_work(&long_running.core, &seen).await;
            CallAnswer::Task(task::created(&seen, self.requester_era))
        } else {
            CallAnswer::Result(view::handover_result(&seen, &self.trace_id))
        }
    }

    /// The same for a caller that repeats the call with the same key; none if it takes no tasks.
    pub(crate) async fn handover_again(&self, core: &Core, id: &EffectId) -> Option<String> {
        if !self.takes_tasks {
            return None;
        }
        let seen = view::view_by_id(core, id).await?;
        Some(task::created(&seen, self.requester_era))
    }

    fn leave(&self) -> bool {
        self.stage.send_if_modified(|stage| {
            let leaves = matches!(stage, LongWorkStage::Begun(_));
            if leaves {
                *stage = LongWorkStage::Left;
            }
            leaves
        })
    }

    /// Counts the different state messages; none if the message is the same as the last one.
    pub(super) fn note_state(&self, message: &str) -> Option<u64> {
        let mut said = self.progress_state();
        let count = match &said.state {
            Some((last, _)) if last == message => return None,
            Some((_, count)) => count + 1,
            None => 1,
        };
        said.state = Some((message.to_owned(), count));
        Some(count)
    }

    fn progress_state(&self) -> MutexGuard<'_, ProgressState> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for a call whose tokio task ended without an answer.
pub(crate) fn task_lost(error: &JoinError) -> RpcError {
    tracing::error!(%error, "a call ended without an answer");
    RpcError::new(code::INTERNAL_ERROR, "the call ended without an answer; whether it had an effect is not known")
        .with_hint("look at the target with a read-only tool before calling again")
}

/// How long to wait for a quick answer before the caller gets a task. A legacy requester that asked for a task gets one at once, and so
/// does the caller of an `async` tool, which is never quick.
fn grace_ms(contract: &ToolContract, era: Era) -> u64 {
    if era == Era::Legacy || is_async(contract) { 0 } else { GRACE_MS }
}

fn is_async(contract: &ToolContract) -> bool {
    contract.execution.as_ref().is_some_and(|execution| execution.timeout_class == TimeoutClass::Async)
}

impl ProgressRecorder {
    /// Records a progress notification.
    pub(crate) fn record_notification(&self, params: &RawValue) {
        // The state messages of a followed task are stored already.
        let followed = self.work.progress_state().state.is_some();
        if let Some(progress) = WorkProgress::parse(params.get(), self.core.clock.now()).filter(|_| !followed) {
            self.record(progress);
        }
    }

    /// Stores progress, at most once a second. The last message of each second is enough.
    pub(super) fn record(&self, progress: WorkProgress) {
        let mut said = self.work.progress_state();
        said.waiting = Some(progress);
        if std::mem::replace(&mut said.writing, true) {
            return;
        }
        drop(said);
        let progress_recorder = self.clone();
        tokio::spawn(async move {
            while let Some(progress) = progress_recorder.next() {
                if let Err(error) = note::keep_progress(&progress_recorder.core, &progress_recorder.id, &progress).await
                {
                    tracing::debug!(effect = %progress_recorder.id, %error, "the progress of long work could not be stored");
                }
                task::announce(&progress_recorder.core, &progress_recorder.id).await;
                tokio::time::sleep(Duration::from_millis(PROGRESS_MS_MIN)).await;
            }
        });
    }

    fn next(&self) -> Option<WorkProgress> {
        let mut said = self.work.progress_state();
        let next = said.waiting.take();
        said.writing = next.is_some();
        next
    }
}
