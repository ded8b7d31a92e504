//! A client's watch of a resource. A resource is watched at its upstream as long as any client watches it here.

use std::fmt;

/// A client's wish to hear of a resource; given up when dropped.
pub struct ResourceWatchGuard {
    give_up: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl ResourceWatchGuard {
    /// A watch that runs `give_up` when it is dropped.
    pub fn new(give_up: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { give_up: Some(Box::new(give_up)) }
    }
}

impl Drop for ResourceWatchGuard {
    fn drop(&mut self) {
        if let Some(give_up) = self.give_up.take() {
            give_up();
        }
    }
}

impl fmt::Debug for ResourceWatchGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Watch")
    }
}
