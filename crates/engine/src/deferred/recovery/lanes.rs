//! The order of recovery. Each upstream's orphans have a lane of their own, so that a server that is slow or down delays only its own
//! orphans. Orphans that need no server have another lane. A lane stops for the round when its server cannot be reached or its breaker is
//! open.
//!
//! Deliberately not here: how an orphan is recovered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use servanda_effects::effect::{Effect, EffectId, OrphanCursor, OrphanQuery};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

use super::{exposed_name_of_effect, follow_on, needs_its_tool, recover_orphan, takes_long};
use crate::{
    clock::within_ms,
    long_running::{LongWorkContext, unfollowed},
    outages::BackgroundWork,
    world::WorldSnapshot,
};

/// How many orphans of each upstream a round takes, and how many that need no upstream.
const EACH_MAX: u32 = 64;
/// How many orphans are recovered at once: for one upstream, and for all of them together. Long work is counted apart, because the round
/// does not wait for it.
const AT_ONCE_MAX: usize = 4;
const ALL_AT_ONCE_MAX: usize = 256;
const LONG_MAX: usize = 32;
/// How many orphans that need no upstream are recovered at once.
const SETTLED_AT_ONCE_MAX: usize = 8;
/// How long a server may take to answer that it is available.
const THERE_MS_MAX: u64 = 5_000;
/// How many lanes are remembered.
const LANES_MAX: usize = 4_096;
/// How many effects without a contract are remembered as logged.
const LOGGED_MAX: usize = 4_096;

/// The lanes, by upstream.
#[derive(Debug)]
pub(crate) struct RecoveryLanes {
    by_upstream: BTreeMap<String, Arc<RecoveryLane>>,
    all: Arc<Semaphore>,
    logged: BTreeSet<EffectId>,
    /// Dropping this stops the lanes from starting anything new; recoveries that have started continue.
    running: JoinSet<()>,
}

/// The orphans of one upstream. The lane with an empty name has the orphans that need no upstream.
#[derive(Debug)]
struct RecoveryLane {
    /// Held while a round works on the lane.
    working: Arc<tokio::sync::Mutex<()>>,
    /// Where the next round continues, so that orphans that cannot be recovered never hide those behind them.
    after: Mutex<Option<OrphanCursor>>,
    at_once: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// The work of a lane in one round.
#[derive(Debug, Default)]
struct LaneLoad {
    orphans: Vec<Effect>,
    /// How many orphans of other processes were listed, and where the last of them stands.
    listed: u32,
    last: Option<OrphanCursor>,
    /// Long work that continues at the upstream while no process follows it.
    left_alone: Vec<Effect>,
}

impl Default for RecoveryLanes {
    fn default() -> Self {
        Self::having_logged(BTreeSet::new())
    }
}

impl RecoveryLanes {
    /// Starts with the effects that were logged before.
    pub(crate) fn having_logged(logged: BTreeSet<EffectId>) -> Self {
        let all = Arc::new(Semaphore::new(ALL_AT_ONCE_MAX));
        Self { by_upstream: BTreeMap::new(), all, logged, running: JoinSet::new() }
    }

    /// Starts a round in every lane that is idle. Waits for the store only.
    pub(crate) async fn begin(&mut self, long_running: &Arc<LongWorkContext>) {
        while self.running.try_join_next().is_some() {}
        let snapshot = long_running.core.snapshot();
        for (upstream, load) in self.loads(long_running, &snapshot).await {
            let lane = Arc::clone(self.by_upstream.entry(upstream.clone()).or_default());
            let Ok(working) = Arc::clone(&lane.working).try_lock_owned() else { continue };
            let (long_running, snapshot, all) =
                (Arc::clone(long_running), Arc::clone(&snapshot), Arc::clone(&self.all));
            self.running.spawn(async move {
                let after = load.last.clone().filter(|_| load.listed >= EACH_MAX);
                let round = LaneRound { long_running, snapshot, lane: Arc::clone(&lane), all };
                let went_through = match upstream.as_str() {
                    "" => round.run_without_server(load).await,
                    upstream => round.run_with_server(upstream, load).await,
                };
                lane.set_after(after.filter(|_| went_through));
                drop(working);
            });
        }
        if self.by_upstream.len() > LANES_MAX {
            // A lane that is in use is also held by its round.
            self.by_upstream.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
    }

    /// Waits until all lanes have ended, and says which effects were logged.
    #[cfg(test)]
    pub(crate) async fn finish(mut self) -> BTreeSet<EffectId> {
        while self.running.join_next().await.is_some() {}
        self.logged
    }

    async fn loads(&mut self, long_running: &LongWorkContext, snapshot: &WorldSnapshot) -> BTreeMap<String, LaneLoad> {
        let core = &long_running.core;
        let mut loads: BTreeMap<String, LaneLoad> = BTreeMap::new();
        let after = self.by_upstream.iter().filter_map(|(upstream, lane)| Some((upstream.clone(), lane.after()?)));
        let query = OrphanQuery { after: after.collect(), ..OrphanQuery::oldest(core.owner.clone(), EACH_MAX) };
        let listed = core.effects.orphans(query).await;
        core.outages.background_ended(BackgroundWork::Orphans, &listed);
        for orphan in listed.unwrap_or_default() {
            let load = loads.entry(orphan.recovery_upstream().unwrap_or_default().to_owned()).or_default();
            if orphan.owner != core.owner {
                (load.listed, load.last) = (load.listed + 1, Some(orphan.orphan_cursor()));
            }
            if core.in_flight_effects.has(&orphan.id) {
                continue;
            }
            if needs_its_tool(&orphan) && exposed_name_of_effect(snapshot, &orphan).is_none() {
                self.log_once(&orphan);
            } else {
                load.orphans.push(orphan);
            }
        }
        for left in unfollowed(long_running).await {
            loads.entry(left.order.upstream.clone()).or_default().left_alone.push(left);
        }
        loads
    }

    fn log_once(&mut self, effect: &Effect) {
        if self.logged.len() < LOGGED_MAX && self.logged.insert(effect.id.clone()) {
            let (effect, tool) = (&effect.id, &effect.key.tool);
            tracing::warn!(%effect, %tool, "the process of an effect is gone, and so is the contract or the upstream that could settle it");
        }
    }
}

impl Default for RecoveryLane {
    fn default() -> Self {
        Self {
            working: Arc::default(),
            after: Mutex::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE_MAX)),
            long: Arc::new(Semaphore::new(LONG_MAX)),
        }
    }
}

impl RecoveryLane {
    fn after(&self) -> Option<OrphanCursor> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_after(&self, place: Option<OrphanCursor>) {
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

/// One round of one lane.
struct LaneRound {
    long_running: Arc<LongWorkContext>,
    snapshot: Arc<WorldSnapshot>,
    lane: Arc<RecoveryLane>,
    all: Arc<Semaphore>,
}

impl LaneRound {
    /// Recovers the orphans that need the server's answer, the oldest first, as long as the server is available. Returns whether every
    /// orphan had its turn.
    async fn run_with_server(self, upstream: &str, load: LaneLoad) -> bool {
        let (mut taking, mut went_through) = (Vec::new(), true);
        for orphan in load.orphans {
            if !self.is_available(upstream).await {
                went_through = false;
                break;
            }
            let (long_running, snapshot) = (Arc::clone(&self.long_running), Arc::clone(&self.snapshot));
            if takes_long(&snapshot, &orphan) {
                // The round does not wait for long work and continues with the other orphans. If all places are taken, a later round
                // takes it.
                let Ok(place) = Arc::clone(&self.lane.long).try_acquire_owned() else { continue };
                self.long_running.core.in_flight.spawn(async move {
                    recover_orphan(&long_running, &snapshot, orphan).await;
                    drop(place);
                });
                continue;
            }
            // Each recovery runs in a task of its own, which continues even if the round ends: a call that is sent must be settled.
            let places =
                (Arc::clone(&self.lane.at_once).acquire_owned().await, Arc::clone(&self.all).acquire_owned().await);
            taking.push(self.long_running.core.in_flight.spawn(async move {
                recover_orphan(&long_running, &snapshot, orphan).await;
                drop(places);
            }));
        }
        for left in load.left_alone {
            if !self.is_available(upstream).await {
                break;
            }
            let (long_running, snapshot) = (Arc::clone(&self.long_running), Arc::clone(&self.snapshot));
            self.long_running
                .core
                .in_flight
                .spawn(async move { Box::pin(follow_on(&long_running, &snapshot, left)).await });
        }
        join(taking).await;
        went_through
    }

    /// Recovers the orphans that the store alone settles.
    async fn run_without_server(self, load: LaneLoad) -> bool {
        let places = Arc::new(Semaphore::new(SETTLED_AT_ONCE_MAX));
        let mut taking = Vec::new();
        for orphan in load.orphans {
            let (long_running, snapshot) = (Arc::clone(&self.long_running), Arc::clone(&self.snapshot));
            let place = Arc::clone(&places).acquire_owned().await;
            taking.push(self.long_running.core.in_flight.spawn(async move {
                recover_orphan(&long_running, &snapshot, orphan).await;
                drop(place);
            }));
        }
        join(taking).await;
        true
    }

    /// Whether the server can be reached and its breaker is closed. A server that is gone from the configuration counts as available: no
    /// wait would bring it back.
    async fn is_available(&self, upstream: &str) -> bool {
        let Some(member) = self.snapshot.member(upstream) else { return true };
        !member.health.is_open() && member.server.offer(within_ms(THERE_MS_MAX)).await.is_ok()
    }
}

async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        let _ = task.await;
    }
}
