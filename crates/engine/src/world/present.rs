//! The world in force. It is replaced as a whole; a call keeps the one that it began with.

use std::sync::{Arc, PoisonError, RwLock};

use super::snapshot::WorldSnapshot;

/// The world in force.
#[derive(Debug)]
pub(crate) struct PresentWorld(RwLock<Arc<WorldSnapshot>>);

impl PresentWorld {
    pub(crate) fn new(snapshot: Arc<WorldSnapshot>) -> Self {
        Self(RwLock::new(snapshot))
    }

    /// The world as it is now.
    pub(crate) fn snapshot(&self) -> Arc<WorldSnapshot> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another world in force, and returns the one before.
    pub(crate) fn replace(&self, snapshot: Arc<WorldSnapshot>) -> Arc<WorldSnapshot> {
        std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), snapshot)
    }
}
