//! What all calls and inquiries share: the present world, the ports, the bridge, and what is kept about guests.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use servanda_contract::time::Clock;
use servanda_gates::{GateLimits, Journal, Notebook};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use crate::{
    bridge::Bridge, gateway::News, repairs::Repairs, scene::Scene, sessions::Sessions, tasks::TaskIndex,
    watches::Watches,
};

/// The engine's inside.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) scene: RwLock<Arc<Scene>>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) notebook: Arc<dyn Notebook>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gate_limits: GateLimits,
    pub(crate) repairs: Repairs,
    pub(crate) in_flight: TaskTracker,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) tasks: Arc<TaskIndex>,
    pub(crate) sessions: Sessions,
    pub(crate) watches: Watches,
    pub(crate) news: broadcast::Sender<News>,
    pub(crate) changes: watch::Sender<u64>,
}

impl Core {
    /// The world as it is now.
    pub(crate) fn scene(&self) -> Arc<Scene> {
        self.scene.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes another world from now on, and returns the one before.
    pub(crate) fn replace(&self, scene: Arc<Scene>) -> Arc<Scene> {
        std::mem::replace(&mut *self.scene.write().unwrap_or_else(PoisonError::into_inner), scene)
    }

    /// Tells everybody that something changed. Nobody may be listening.
    pub(crate) fn announce(&self, news: News) {
        if matches!(news, News::Tools) {
            self.changes.send_modify(|changes| *changes += 1);
        }
        let _ = self.news.send(news);
    }
}

/// That many milliseconds from now.
pub(crate) fn within_ms(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}
