//! Work that continues after the caller was answered or after its process is gone: tasks that upstreams made, answers that come late,
//! effects whose process is gone, and the delivery of callbacks.
//!
//! Deliberately not here: requests of clients about tasks (`relay`), and decisions about calls (`call`).

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
    /// Maps the upstreams' task ids to our own.
    pub(crate) tasks: Arc<TaskIndex>,
    pub(crate) late_completions: LateCompletions,
}

impl DeferredContext {
    pub(crate) fn new(long_running: Arc<LongWorkContext>) -> Self {
        let core = Arc::clone(&long_running.core);
        Self { core, long_running, tasks: Arc::default(), late_completions: LateCompletions::default() }
    }
}
