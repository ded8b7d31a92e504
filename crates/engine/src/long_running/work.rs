//! One long work under way in this process: its caller waits for a while, and then it goes on alone.

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

use super::{Entered, LongRunning, Progress, Works, note, seen, task};
use crate::{
    client::{CallAnswer, Guest},
    core::Core,
};

/// How often progress is written down at the most.
const PROGRESS_MS_MIN: u64 = 1_000;
/// A day: nobody waits longer.
const WAIT_MS_MAX: u64 = 86_400_000;
/// How long a modern caller that takes tasks waits for what is `long_running` by its contract and quick in fact: whoever
/// infers contracts calls every uncertain tool that.
const GRACE_MS: u64 = 1_000;
/// How much of its own patience a caller has left when it is told, so that the answer still reaches it.
const RESERVE_MS_MAX: u64 = 500;

/// One long work.
#[derive(Debug)]
pub(crate) struct Work {
    /// Cancelled when it is not wanted any more.
    pub(crate) cancel: CancellationToken,
    /// How long its caller waits.
    pub(crate) patient_until: Instant,
    /// How long a caller that takes tasks waits.
    task_at: Instant,
    guest_era: Era,
    takes_tasks: bool,
    has_task_made: bool,
    can_be_asked: bool,
    trace_id: String,
    stage: watch::Sender<Stage>,
    said: Mutex<Said>,
    _place: Option<OwnedSemaphorePermit>,
}

/// On what terms it is begun.
#[derive(Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) guest: &'a Guest,
    /// Whether a legacy guest asked for a task.
    pub(crate) asks_for_task: bool,
    /// How long the caller says it waits.
    pub(crate) caller_wait_ms: Option<u64>,
    pub(crate) started: Instant,
    pub(crate) trace_id: &'a str,
    pub(crate) cancel: CancellationToken,
}

/// How far it has come, as its caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Nothing is on record yet that could be asked about.
    Judged,
    /// It is fenced, and its caller waits.
    Begun(Begun),
    /// Its caller does not wait any more.
    Left,
    /// The upstream made a task of it that its caller is told of.
    Relayed,
}

/// A work that is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Its handle.
    pub(crate) id: EffectId,
    /// Whether the upstream's own task may be passed on.
    pub(crate) relays: bool,
}

/// What it said last, and who writes it down.
#[derive(Debug, Default)]
struct Said {
    waiting: Option<Progress>,
    writing: bool,
    /// What an upstream that works on it by itself said of its state last, and how often it said something else.
    state: Option<(String, u64)>,
}

/// Hears how far a long work has come.
#[derive(Debug, Clone)]
pub(crate) struct Ear {
    pub(crate) core: Arc<Core>,
    pub(crate) work: Arc<Work>,
    /// Its handle.
    pub(crate) id: EffectId,
}

impl Work {
    /// A call as a long work, if its contract says so and there is a place for it.
    pub(crate) fn of(long_running: &LongRunning, contract: &ToolContract, terms: Terms<'_>) -> Option<Arc<Self>> {
        let Terms { guest, asks_for_task, caller_wait_ms, started, trace_id, cancel } = terms;
        let takes_tasks = match guest.era {
            Era::Legacy => asks_for_task,
            Era::Modern => guest.capabilities.extends(TASKS_EXTENSION),
        };
        let wait_ms_max = match long_running.wait_ms_max {
            _ if !contract.is_long() => return None,
            // Then it is a call like any other.
            None if !takes_tasks => return None,
            wait_ms_max => wait_ms_max.unwrap_or(WAIT_MS_MAX),
        };
        let said_ms = caller_wait_ms.map_or(u64::MAX, |ms| ms.saturating_sub((ms / 10).min(RESERVE_MS_MAX)));
        let wait_ms = wait_ms_max.min(said_ms).min(WAIT_MS_MAX);
        Some(Arc::new(Self {
            cancel,
            patient_until: started + Duration::from_millis(wait_ms),
            task_at: started + Duration::from_millis(grace_ms(contract, guest.era).min(wait_ms)),
            guest_era: guest.era,
            takes_tasks,
            has_task_made: guest.era == Era::Legacy || is_async(contract),
            can_be_asked: guest.era == Era::Modern && guest.capabilities.answers_anything(),
            trace_id: trace_id.to_owned(),
            stage: watch::Sender::new(Stage::Judged),
            said: Mutex::default(),
            _place: Some(long_running.works.place()?),
        }))
    }

    /// One that nobody waits for as long work.
    pub(crate) fn alone(id: &EffectId, cancel: CancellationToken, place: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        Arc::new(Self {
            cancel,
            patient_until: Instant::now(),
            task_at: Instant::now(),
            guest_era: Era::Modern,
            takes_tasks: false,
            has_task_made: false,
            can_be_asked: false,
            trace_id: String::new(),
            stage: watch::Sender::new(Stage::Begun(Begun { id: id.clone(), relays: false })),
            said: Mutex::default(),
            _place: place,
        })
    }

    /// Whether its guest can be told of a task.
    pub(crate) const fn takes_tasks(&self) -> bool {
        self.takes_tasks
    }

    /// Whether a task is made at an upstream of this era for a guest that is not told of it. A modern server goes by what its
    /// client takes, so a modern guest that takes no tasks gets what the server has for such; unless the contract says `async`,
    /// which is nobody's to wait for.
    pub(crate) fn has_task_made(&self, upstream: Era) -> bool {
        self.has_task_made || upstream == Era::Legacy
    }

    /// It is fenced: from now on it can be asked about.
    pub(crate) fn begin(self: &Arc<Self>, works: &Arc<Works>, begun: Begun) -> Entered {
        let entered = works.enter(&begun.id, self);
        self.stage.send_replace(Stage::Begun(begun));
        entered
    }

    /// Whether the upstream's own task is passed on to the caller, who then asks about that.
    pub(crate) fn relays(&self) -> bool {
        self.stage.send_if_modified(|stage| match stage {
            Stage::Begun(Begun { relays: true, .. }) => {
                *stage = Stage::Relayed;
                true
            }
            _ => false,
        })
    }

    /// Whether its caller does not wait any more.
    pub(crate) fn is_left(&self) -> bool {
        *self.stage.borrow() == Stage::Left
    }

    /// Waits with its caller. A caller that gives up cancels it and waits on, as with any call.
    pub(crate) async fn attend(
        self: &Arc<Self>,
        long_running: &LongRunning,
        mut running: JoinHandle<CallAnswer>,
        gives_up: &CancellationToken,
    ) -> CallAnswer {
        let mut told = std::pin::pin!(self.told(long_running));
        loop {
            tokio::select! {
                biased;
                done = &mut running => return done.unwrap_or_else(|error| CallAnswer::Failed(lost(&error))),
                () = gives_up.cancelled(), if !self.cancel.is_cancelled() => self.cancel.cancel(),
                told = &mut told, if !gives_up.is_cancelled() => return told,
            }
        }
    }

    /// What the caller is told once it need not wait any longer: a task, or a handle. Never, if there is nothing to be asked
    /// about, or the caller is to be told something better.
    pub(crate) async fn told(&self, long_running: &LongRunning) -> CallAnswer {
        let mut stages = self.stage.subscribe();
        let begun = stages.wait_for(|stage| *stage != Stage::Judged).await.map(|stage| stage.clone());
        let Ok(Stage::Begun(begun)) = begun else { return std::future::pending().await };
        // What the upstream asks comes first where the guest can be asked; and its own task is better than ours.
        let waits = !self.takes_tasks || self.can_be_asked || begun.relays;
        tokio::time::sleep_until(if waits { self.patient_until } else { self.task_at }).await;
        let Some(seen) = seen::by_id(&long_running.core, &begun.id).await else { return std::future::pending().await };
        if seen.is_ended() || !self.leave() {
            return std::future::pending().await;
        }
        if self.takes_tasks {
            long_running.lists.enlist_work(&long_running.core, &seen).await;
            CallAnswer::Task(task::created(&seen, self.guest_era))
        } else {
            CallAnswer::Result(seen::handed_over(&seen, &self.trace_id))
        }
    }

    /// The same for a caller that comes again with the same key; none if it takes no tasks.
    pub(crate) async fn told_again(&self, core: &Core, id: &EffectId) -> Option<String> {
        if !self.takes_tasks {
            return None;
        }
        let seen = seen::by_id(core, id).await?;
        Some(task::created(&seen, self.guest_era))
    }

    fn leave(&self) -> bool {
        self.stage.send_if_modified(|stage| {
            let leaves = matches!(stage, Stage::Begun(_));
            if leaves {
                *stage = Stage::Left;
            }
            leaves
        })
    }

    /// How often something was said of its state that was not said before; none if it was.
    pub(super) fn hears_state(&self, message: &str) -> Option<u64> {
        let mut said = self.said();
        let count = match &said.state {
            Some((last, _)) if last == message => return None,
            Some((_, count)) => count + 1,
            None => 1,
        };
        said.state = Some((message.to_owned(), count));
        Some(count)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer of a call whose own task ended without one.
pub(crate) fn lost(error: &JoinError) -> RpcError {
    tracing::error!(%error, "a call ended without an answer");
    RpcError::new(code::INTERNAL_ERROR, "the call ended without an answer; whether it had an effect is not known")
        .with_hint("look at the target with a read-only tool before calling again")
}

/// How long what may be quick is waited for before a task is made of it. A legacy guest that asks for a task wants nothing
/// else, and of what is always long nobody expects an answer.
fn grace_ms(contract: &ToolContract, era: Era) -> u64 {
    if era == Era::Legacy || is_async(contract) { 0 } else { GRACE_MS }
}

fn is_async(contract: &ToolContract) -> bool {
    contract.execution.as_ref().is_some_and(|execution| execution.timeout_class == TimeoutClass::Async)
}

impl Ear {
    /// Hears a notification of progress.
    pub(crate) fn hear(&self, params: &RawValue) {
        // What is told of a followed task is kept already.
        let followed = self.work.said().state.is_some();
        if let Some(progress) = Progress::read(params.get(), self.core.clock.now()).filter(|_| !followed) {
            self.keep(progress);
        }
    }

    /// Writes progress down, but not every one: the last of each second is enough to know how far it came.
    pub(super) fn keep(&self, progress: Progress) {
        let mut said = self.work.said();
        said.waiting = Some(progress);
        if std::mem::replace(&mut said.writing, true) {
            return;
        }
        drop(said);
        let ear = self.clone();
        tokio::spawn(async move {
            while let Some(progress) = ear.next() {
                if let Err(error) = note::keep_progress(&ear.core, &ear.id, &progress).await {
                    tracing::debug!(effect = %ear.id, %error, "the progress of a long work could not be kept");
                }
                task::announce(&ear.core, &ear.id).await;
                tokio::time::sleep(Duration::from_millis(PROGRESS_MS_MIN)).await;
            }
        });
    }

    fn next(&self) -> Option<Progress> {
        let mut said = self.work.said();
        let next = said.waiting.take();
        said.writing = next.is_some();
        next
    }
}
