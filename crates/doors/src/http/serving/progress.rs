//! How far the answer to one request is: since when a piece of it has been ready without its client reading it.
//! Deliberately not here: handing out the pieces, and what follows from a stall.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The progress of the answer to one request.
#[derive(Debug, Default)]
pub(super) struct AnswerProgress {
    /// Since when a piece is ready that the connection has not polled for; `None` while no piece is ready.
    due_since: Mutex<Option<Instant>>,
}

impl AnswerProgress {
    /// Whether the next piece has been ready for that long and the connection did not poll for it.
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
