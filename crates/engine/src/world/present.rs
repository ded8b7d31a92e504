//! The world that is in force now. It is replaced as a whole; a call keeps the one that it began with.

use std::sync::{Arc, PoisonError, RwLock};

use super::scene::Scene;

/// The present world.
#[derive(Debug)]
pub(crate) struct PresentWorld(RwLock<Arc<Scene>>);

impl PresentWorld {
    pub(crate) fn new(scene: Arc<Scene>) -> Self {
        Self(RwLock::new(scene))
    }

    /// The world as it is now.
    pub(crate) fn scene(&self) -> Arc<Scene> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes another world from now on, and returns the one before.
    pub(crate) fn replace(&self, scene: Arc<Scene>) -> Arc<Scene> {
        std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), scene)
    }
}
