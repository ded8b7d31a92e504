//! One connection and its life, as its users see it: made when first needed, made again when lost, ended when dropped. The modules below
//! make and keep it; `stdio` and `http` carry its bytes.

mod backoff;
mod connect;
mod lifecycle;
pub(crate) mod link;
pub(crate) mod listening;
pub(crate) mod pool;
mod resource_watch;

use std::sync::Arc;

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::{lifecycle::UpstreamStatus, resource_watch::ConnectionResourceWatch};
use self::{
    lifecycle::{ConnectionLifecycle, ConnectionPhase, ConnectionState, ConnectionStep, next_step},
    link::Link,
};
use crate::{PerformFailure, UpstreamRequester, shared::SharedContext};

/// A connection's handle.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    state: watch::Receiver<ConnectionState>,
    demand: Arc<Notify>,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl UpstreamConnection {
    /// Creates the handle; nothing is started before it is needed. `stop` ends this connection and no other. Must be called within a tokio
    /// runtime.
    pub(crate) fn new(
        context: &Arc<SharedContext>,
        requester: Option<UpstreamRequester>,
        stop: CancellationToken,
    ) -> Self {
        let (stage, stages) = watch::channel(ConnectionState { phase: ConnectionPhase::Idle, attempts_failed: 0 });
        let demand = Arc::new(Notify::new());
        let lifecycle = ConnectionLifecycle {
            context: Arc::clone(context),
            requester,
            state: stage,
            demand: Arc::clone(&demand),
            stop: stop.clone(),
        };
        context.tasks.spawn(lifecycle.run());
        Self { state: stages, demand, _stop_when_dropped: stop.clone().drop_guard(), stop }
    }

    /// Ends the connection. To wait for its end, wait for the upstream's tasks or for [`UpstreamConnection::ended`].
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the connection and everything behind it have ended. Cancel safe.
    pub(crate) async fn ended(&self) {
        let mut stages = self.state.clone();
        // The lifecycle drops the sender when it is done.
        while stages.changed().await.is_ok() {}
    }

    /// Whether it was ended for good.
    pub(crate) fn is_ended(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(crate) fn status(&self) -> UpstreamStatus {
        self.state.borrow().status(Instant::now())
    }

    /// The present connection, if it is ready.
    pub(crate) fn ready(&self) -> Option<Arc<Link>> {
        match &self.state.borrow().phase {
            ConnectionPhase::Ready(link) if !link.loss().is_reported() => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// A ready connection, made if necessary. Waits for one attempt at most. Cancel safe.
    pub(crate) async fn link(
        &self,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Arc<Link>, PerformFailure> {
        if let Some(link) = self.ready() {
            return Ok(link);
        }
        let mut stages = self.state.clone();
        let attempts_failed_before = stages.borrow_and_update().attempts_failed;
        loop {
            let step = next_step(&stages.borrow_and_update(), attempts_failed_before, Instant::now(), deadline);
            match step {
                ConnectionStep::Use(link) => return Ok(link),
                ConnectionStep::GiveUp { lack: Some(lack), .. } => return Err(PerformFailure::NotPresented(lack)),
                ConnectionStep::GiveUp { why, lack: None } => return Err(PerformFailure::Unavailable { why }),
                ConnectionStep::Wait { ask: true } => self.demand.notify_one(),
                ConnectionStep::Wait { ask: false } => {}
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(PerformFailure::Cancelled { sent: false }),
                changed = stages.changed() => {
                    if changed.is_err() {
                        return Err(PerformFailure::unavailable("it is shut down"));
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return Err(PerformFailure::unavailable("it was not connected before the deadline"));
                }
            }
        }
    }
}
