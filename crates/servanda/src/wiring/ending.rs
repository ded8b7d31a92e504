//! Takes a gateway apart in an order that loses nothing, and within its time whatever hangs: a store that is away, a server that does
//! not want to end. What is not settled by then is said, and stays on record as a crash would leave it.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::AssembledGateway;
use crate::stopping::{ShutdownDeadlines, Stop};

/// How long the end may take where nobody wants to wait.
const HURRY_MS_MAX: u64 = 2_000;
/// Effects that are named in the log.
const NAMED_MAX: usize = 20;

/// What a gateway left undone when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct UnfinishedWork {
    /// Calls that were cut off because nobody wanted to wait.
    pub cut_off: usize,
    /// Calls whose end is not on record.
    pub unsettled: usize,
}

impl AssembledGateway {
    /// Lets calls in flight end, then the upstreams, then the ledger, so that the last record is kept. Where that is to
    /// happen at once, calls are cut off.
    pub(crate) async fn close(&self, stop: &Stop) -> UnfinishedWork {
        self.close_by(stop.deadlines(), stop).await
    }

    /// The same without patience for calls in flight.
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
            // What is not over by then stays on record as a crash would leave it.
            let _ = timeout_at(by, ending).await;
        }
        UnfinishedWork { cut_off, unsettled: self.tell_unsettled() }
    }

    async fn end(&self, plan: ShutdownDeadlines) {
        self.stop.cancel();
        self.followers.close();
        // They may be waiting for a store that is away.
        if timeout_at(halfway_to(plan.servers_by), self.followers.wait()).await.is_err() {
            tracing::warn!(tasks = self.followers.len(), "work beside calls did not end in time and is left");
        }
        self.epoch().lock.keep_first_sights();
        self.end_servers(plan.servers_by).await;
        // Calls that were cut off by that have just learned of it, and still have to tell the ledger.
        self.engine.drain(plan.records_by.saturating_duration_since(Instant::now())).await;
        if timeout_at(plan.records_by, self.engine.return_budget_units()).await.is_err() {
            tracing::warn!("leased budgets were not given back in time; their leases end by themselves");
        }
        self.ledger_closes.cancel();
        if timeout_at(plan.all_by, self.ledger.close()).await.is_err() {
            tracing::error!(
                "the ledger was not closed in time: its store is away or slow, and records of reads may be missing; \
                 hint: `servanda doctor` looks at the ledger"
            );
        }
    }

    /// Ends the upstreams; those that do not want to are killed in time, and their supervisors see to it if this process is gone.
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

    /// Says which calls this process leaves without an end on record; returns how many.
    fn tell_unsettled(&self) -> usize {
        let tasks = self.engine.calls_in_flight();
        let mut effects = self.engine.effects_in_flight();
        if tasks == 0 {
            return 0;
        }
        // A call that changes nothing has no effect, and one that is still being settled is more than one task.
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

/// The middle of the time until then.
fn halfway_to(then: Instant) -> Instant {
    let now = Instant::now();
    now + then.saturating_duration_since(now) / 2
}
