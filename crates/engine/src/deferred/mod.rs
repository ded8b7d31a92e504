//! What goes on after a caller was answered, or after its process is gone: tasks that upstreams made, answers that come late, effects
//! that were left behind, and callbacks to be delivered.
//!
//! Deliberately not here: what a client asks about a task (`relay`), and how a call is decided (`call`).

mod callback_delivery;
pub(crate) mod late_answers;
pub(crate) mod recovery;
pub(crate) mod upstream_tasks;
mod verdict;

use std::sync::Arc;

use self::late_answers::LateCompletions;
pub(crate) use self::{callback_delivery::deliver, upstream_tasks::TaskIndex};
use crate::{core::Core, long_running::LongWorkContext};

/// What deferred work shares in this process.
#[derive(Debug)]
pub(crate) struct DeferredContext {
    pub(crate) core: Arc<Core>,
    pub(crate) long_running: Arc<LongWorkContext>,
    /// Our ids of the tasks of upstreams.
    pub(crate) tasks: Arc<TaskIndex>,
    pub(crate) late_completions: LateCompletions,
}

impl DeferredContext {
    pub(crate) fn new(long_running: Arc<LongWorkContext>) -> Self {
        let core = Arc::clone(&long_running.core);
        Self { core, long_running, tasks: Arc::default(), late_completions: LateCompletions::default() }
    }
}
