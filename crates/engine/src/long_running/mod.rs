//! Long work: calls whose contracts have the timeout class `long_running` or `async`. Their callers need not wait. Once the effect is
//! fenced, the call continues by itself, and its caller asks for its state by the effect's handle: as a task of either era or with a tool
//! of ours, in this process or after a restart.
//!
//! The state of long work is its effect: the result is the effect's stored answer, and `deferred::recovery` takes over when the process
//! is gone. Stored beside the effect are only the last progress, a requested cancellation, and where an upstream continues the work
//! ([`note`]). A call that waits for people as a task becomes long work when they have approved it ([`held`]). Deliberately not here:
//! decisions about calls, and settling an effect.

mod end_announcement;
mod follow;
pub(crate) mod held;
mod inquiry;
mod note;
mod operation;
mod poll_backoff;
mod submitted;
mod task;
mod task_list;
mod view;
mod work;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_effects::effect::EffectId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use self::held::HeldTasks;
pub use self::note::WorkProgress;
pub(crate) use self::{
    end_announcement::announce_end,
    follow::{FollowedWork, follow},
    inquiry::{InquiryWait, find, inquire},
    operation::{follow_operation, poll_plan},
    submitted::{AdoptedWork, adopt, submitted, unfollowed},
    task::state,
    task_list::TaskLists,
    view::{LongWorkView, await_end, known_result, never_ran, under_way},
    work::{LongWork, LongWorkTerms, ProgressRecorder, RecordedWork, task_lost},
};
use crate::core::Core;

/// How long a caller waits for long work: less than the timeout of any client.
pub const LONG_WAIT_MS_MAX: u64 = 25_000;
/// How much long work runs at once in this process. The caller of any further call waits for its end.
const WORKS_MAX: usize = 4_096;

/// What long work shares in this process.
#[derive(Debug)]
pub(crate) struct LongWorkContext {
    pub(crate) core: Arc<Core>,
    pub(crate) works: Arc<LongWorkTable>,
    pub(crate) lists: TaskLists,
    /// The calls that wait for people as tasks.
    pub(crate) held: HeldTasks,
    /// How long a caller waits for long work; none if it waits for the end.
    pub(crate) wait_ms_max: Option<u64>,
}

/// The long work that is under way in this process.
#[derive(Debug)]
pub(crate) struct LongWorkTable {
    live: Mutex<BTreeMap<EffectId, Arc<LongWork>>>,
    places: Arc<Semaphore>,
    /// Notified whenever a work ends.
    ended: Notify,
}

impl Default for LongWorkTable {
    fn default() -> Self {
        Self { live: Mutex::default(), places: Arc::new(Semaphore::new(WORKS_MAX)), ended: Notify::new() }
    }
}

impl LongWorkContext {
    pub(crate) fn new(core: Arc<Core>, wait_ms_max: Option<u64>) -> Self {
        Self { core, works: Arc::default(), lists: TaskLists::default(), held: HeldTasks::default(), wait_ms_max }
    }
}

/// Keeps long work in the table until this is dropped.
#[derive(Debug)]
pub(crate) struct LongWorkEntry {
    id: EffectId,
    works: Arc<LongWorkTable>,
}

impl LongWorkTable {
    /// Reserves a place for more work; none if all places are taken.
    pub(crate) fn reserve_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Finds work by its handle.
    pub(crate) fn find(&self, id: &EffectId) -> Option<Arc<LongWork>> {
        self.locked().get(id).cloned()
    }

    pub(crate) fn enter(self: &Arc<Self>, id: &EffectId, work: &Arc<LongWork>) -> LongWorkEntry {
        self.locked().insert(id.clone(), Arc::clone(work));
        LongWorkEntry { id: id.clone(), works: Arc::clone(self) }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<EffectId, Arc<LongWork>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LongWorkEntry {
    fn drop(&mut self) {
        self.works.locked().remove(&self.id);
        self.works.ended.notify_waiters();
    }
}
