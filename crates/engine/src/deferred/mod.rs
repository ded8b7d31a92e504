//! What goes on after a caller was answered, or after its process is gone: tasks that upstreams made, answers that come late, effects
//! that were left behind, and callbacks to be delivered.
//!
//! Deliberately not here: what a client asks about a task (`relay`), and how a call is decided (`call`).

mod callback_rounds;
mod judged;
pub(crate) mod late;
pub(crate) mod recovery;
pub(crate) mod upstream_tasks;

use std::sync::Arc;

use self::late::DoneLate;
pub(crate) use self::{callback_rounds::deliver, upstream_tasks::TaskIndex};
use crate::{core::Core, long_running::LongRunning};

/// What deferred work shares in this process.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) core: Arc<Core>,
    pub(crate) long_running: Arc<LongRunning>,
    /// Our ids of the tasks of upstreams.
    pub(crate) tasks: Arc<TaskIndex>,
    pub(crate) done_late: DoneLate,
}

impl Deferred {
    pub(crate) fn new(long_running: Arc<LongRunning>) -> Self {
        let core = Arc::clone(&long_running.core);
        Self { core, long_running, tasks: Arc::default(), done_late: DoneLate::default() }
    }
}
