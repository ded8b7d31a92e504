//! Closes a gateway in an order that loses nothing, and within its time even if something hangs: an unreachable store, a server that does
//! not stop. Calls that are not settled by then are reported, and stay recorded as a crash would leave them.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{AssembledGateway, checkpoints::sign_the_last};
use crate::stopping::{ShutdownDeadlines, Stop};

/// How long closing may take if the user does not want to wait.
const HURRY_MS_MAX: u64 = 2_000;
/// How many effects the log names.
const NAMED_MAX: usize = 20;

/// What a gateway left undone when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct UnfinishedWork {
    /// Calls that were cut off because the user did not want to wait.
    pub cut_off: usize,
    /// Calls whose end is not recorded.
    pub unsettled: usize,
}

impl AssembledGateway {
    /// Lets running calls end, then the upstreams, then the ledger, so that the last record is kept. If the user does not want to wait,
    /// calls are cut off.
    pub(crate) async fn close(&self, stop: &Stop) -> UnfinishedWork {
        self.close_by(stop.deadlines(), stop).await
    }

    /// The same, but cuts off running calls.
    pub(crate) async fn close_now(&self, stop: &Stop) -> UnfinishedWork {
        self.close_by(ShutdownDeadlines { calls_by: Instant::now(), ..stop.deadlines() }, stop).await
    }

    async fn close_by(&self, plan: ShutdownDeadlines, stop: &Stop) -> UnfinishedWork {
        let mut cut_off = tokio::select! {
            biased;
            () = stop.hurry.cancelled() => self.engine.calls_in_flight(),
            () = self.engine.drain(plan.calls_by.saturating_duration_since(Instant::now())) => 0,
        };
        let mut ending = std::pin::pin!(self.end(plan));
        let ended = tokio::select! {
            () = &mut ending => true,
            () = stop.hurry.cancelled() => false,
        };
        if !ended {
            cut_off = cut_off.max(self.engine.calls_in_flight());
            self.hurry_servers();
            let by = plan.all_by.min(Instant::now() + Duration::from_millis(HURRY_MS_MAX));
            // Calls that are not over by then stay recorded as a crash would leave them.
            let _ = timeout_at(by, ending).await;
        }
        UnfinishedWork { cut_off, unsettled: self.tell_unsettled() }
    }

    async fn end(&self, plan: ShutdownDeadlines) {
        self.stop.cancel();
        self.followers.close();
        // These tasks may be waiting for an unreachable store.
        if timeout_at(halfway_to(plan.servers_by), self.followers.wait()).await.is_err() {
            tracing::warn!(tasks = self.followers.len(), "background work did not end in time and is abandoned");
        }
        self.epoch().lock.keep_first_sights();
        self.end_servers(plan.servers_by).await;
        // Calls that this cut off have just learned of it, and still have to write to the ledger.
        self.engine.drain(plan.records_by.saturating_duration_since(Instant::now())).await;
        // No call ends any more, and the collector is none of the ledger's concern.
        tokio::join!(self.span_export.end(), self.end_ledger(plan));
    }

    async fn end_ledger(&self, plan: ShutdownDeadlines) {
        if timeout_at(plan.records_by, self.engine.return_budget_units()).await.is_err() {
            tracing::warn!("leased budgets were not given back in time; their leases end by themselves");
        }
        if timeout_at(plan.records_by, sign_the_last(&self.ledger, &self.log_key)).await.is_err() {
            tracing::warn!(
                "the last leaves of the verifiable log were not signed in time; the next gateway signs them"
            );
        }
        self.ledger_closes.cancel();
        if timeout_at(plan.all_by, self.ledger.close()).await.is_err() {
            tracing::error!(
                "the ledger was not closed in time: its store is away or slow, and records of reads may be missing; \
                 hint: `servanda doctor` looks at the ledger"
            );
        }
    }

    /// Stops the upstreams' servers. Those that do not stop are killed in time; their supervisors do that if this process is gone.
    async fn end_servers(&self, by: Instant) {
        let mut ending = JoinSet::new();
        for upstream in self.engine.upstreams().into_values() {
            ending.spawn(async move { upstream.shutdown_by(by).await });
        }
        if timeout_at(by, async { while ending.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!(upstreams = ending.len(), "servers did not end in time and are killed");
            self.hurry_servers();
            ending.detach_all();
        }
    }

    fn hurry_servers(&self) {
        for upstream in self.engine.upstreams().values() {
            upstream.hurry();
        }
    }

    /// Reports the calls that this process leaves without a recorded end; returns how many.
    fn tell_unsettled(&self) -> usize {
        let tasks = self.engine.calls_in_flight();
        let mut effects = self.engine.effects_in_flight();
        if tasks == 0 {
            return 0;
        }
        // A call that changes nothing has no effect, and a call that is being settled has more than one task.
        let count = if effects.is_empty() { tasks } else { effects.len() };
        effects.truncate(NAMED_MAX);
        tracing::error!(
            calls = count,
            effects = effects.join(" "),
            "these calls are not settled: their effects stay on record as they are, and a gateway that starts on this ledger \
             settles them; hint: `servanda effects` lists them"
        );
        count
    }
}

/// Half of the time until then.
fn halfway_to(then: Instant) -> Instant {
    let now = Instant::now();
    now + then.saturating_duration_since(now) / 2
}
