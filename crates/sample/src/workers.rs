//! Calls that run in the background.
//!
//! Responsible for limiting how many run at once and for returning the first error of any of them. Cancels nothing: the
//! sample ignores `notifications/cancelled`, as many real servers do.

use std::thread::{self, JoinHandle};

use crate::SampleError;

/// More slow calls at once than this are refused, so a client cannot exhaust our threads.
const WORKERS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Workers {
    running: Vec<JoinHandle<Result<(), SampleError>>>,
}

impl Workers {
    pub(crate) fn has_room(&self) -> bool {
        self.running.len() < WORKERS_MAX
    }

    pub(crate) fn start(
        &mut self,
        work: impl FnOnce() -> Result<(), SampleError> + Send + 'static,
    ) -> Result<(), SampleError> {
        let worker =
            thread::Builder::new().name("background-call".into()).spawn(work).map_err(SampleError::Background)?;
        self.running.push(worker);
        Ok(())
    }

    /// Drops the calls that ended, and reports the first that failed.
    pub(crate) fn collect_finished(&mut self) -> Result<(), SampleError> {
        let (finished, running) = std::mem::take(&mut self.running).into_iter().partition(JoinHandle::is_finished);
        self.running = running;
        join_all(finished)
    }

    pub(crate) fn finish(self) -> Result<(), SampleError> {
        join_all(self.running)
    }
}

fn join_all(workers: Vec<JoinHandle<Result<(), SampleError>>>) -> Result<(), SampleError> {
    workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Err(SampleError::BackgroundPanicked)))
}
