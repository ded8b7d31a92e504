//! How far the answer to one request is: since when a piece of it is ready and its client does not take it. Who gives the pieces out,
//! and what follows on a stall, is not known here.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How far the answer to one request is.
#[derive(Debug, Default)]
pub(super) struct AnswerProgress {
    /// Since when a piece could be given out and was not asked for; none while there is no piece.
    due_since: Mutex<Option<Instant>>,
}

impl AnswerProgress {
    /// Whether the next piece was ready for that long and the connection did not ask for it.
    pub(super) fn is_stalled(&self, stall_max: Duration) -> bool {
        self.due().is_some_and(|since| since.elapsed() >= stall_max)
    }

    pub(super) fn set_due(&self, due: bool) {
        *self.due_since.lock().unwrap_or_else(PoisonError::into_inner) = due.then(Instant::now);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        *self.due_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
