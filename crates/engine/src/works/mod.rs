//! Long work: calls whose contracts are of the timeout classes `long_running` and `async`. Their callers need not wait: once
//! the effect is fenced the call goes on by itself, and whoever began it asks how it stands by the effect's handle, as a task
//! of either era or with a tool of ours, here or after a restart.
//!
//! A long work is its effect: what it ended with is the effect's stored answer, and who looks after it when its process is
//! gone is `recovery`. Kept beside it are only the last progress, that a cancellation was asked for, and where an upstream
//! works on it ([`note`]). Deliberately not here: what is decided about a call, and what becomes of an effect.

mod ended;
mod follow;
mod inquiry;
mod note;
mod operation;
mod pace;
mod result_tool;
mod seen;
mod submitted;
mod task;
mod work;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_effects::effect::EffectId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

pub use self::note::Progress;
pub(crate) use self::{
    ended::ended,
    follow::{Followed, follow},
    inquiry::{Asker, find, inquire},
    operation::{follow_operation, plan},
    result_tool::{RESULT_TOOL, result_tool, wish},
    seen::{Seen, await_end, known_result, never_ran, under_way},
    submitted::{adopt, left_alone, submitted},
    task::state,
    work::{Begun, Ear, Terms, Work},
};

/// Long works of this process at once; a call beyond that is one that its caller waits for.
const WORKS_MAX: usize = 4_096;

/// The long works that are under way in this process.
#[derive(Debug)]
pub(crate) struct Works {
    live: Mutex<BTreeMap<EffectId, Arc<Work>>>,
    places: Arc<Semaphore>,
    /// Told whenever one ends.
    ended: Notify,
}

impl Default for Works {
    fn default() -> Self {
        Self { live: Mutex::default(), places: Arc::new(Semaphore::new(WORKS_MAX)), ended: Notify::new() }
    }
}

/// A long work under way here, until this is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    id: EffectId,
    works: Arc<Works>,
}

impl Works {
    /// A place for another one; none if there are too many.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// The one of a handle.
    pub(crate) fn live(&self, id: &EffectId) -> Option<Arc<Work>> {
        self.locked().get(id).cloned()
    }

    pub(crate) fn enter(self: &Arc<Self>, id: &EffectId, work: &Arc<Work>) -> Entered {
        self.locked().insert(id.clone(), Arc::clone(work));
        Entered { id: id.clone(), works: Arc::clone(self) }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<EffectId, Arc<Work>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.works.locked().remove(&self.id);
        self.works.ended.notify_waiters();
    }
}
