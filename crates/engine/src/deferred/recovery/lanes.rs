//! The order of recovery: each upstream's orphans have a lane of their own, so that a server that is slow or down delays only its own.
//! Orphans that need no server have another lane. A lane stops for the round when its server is not there or its breaker is open.
//!
//! Deliberately not here: what is done about an orphan.

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
    world::WorldSnapshot,
};

/// Orphans of each upstream in a round, and as many that need none.
const EACH_MAX: u32 = 64;
/// Of one upstream at once, and of all of them together. Long work is counted apart: nobody waits for it.
const AT_ONCE_MAX: usize = 4;
const ALL_AT_ONCE_MAX: usize = 256;
const LONG_MAX: usize = 32;
/// At once of those that need no upstream.
const SETTLED_AT_ONCE_MAX: usize = 8;
/// How long a server may take to be there.
const THERE_MS_MAX: u64 = 5_000;
/// Lanes that are remembered.
const LANES_MAX: usize = 4_096;
/// Effects whose contract is gone that were logged.
const LOGGED_MAX: usize = 4_096;

/// The lanes, by upstream.
#[derive(Debug)]
pub(crate) struct RecoveryLanes {
    by_upstream: BTreeMap<String, Arc<RecoveryLane>>,
    all: Arc<Semaphore>,
    logged: BTreeSet<EffectId>,
    /// Dropped with this, lanes begin nothing more; what they have begun goes on.
    running: JoinSet<()>,
}

/// The orphans of one upstream, or, by an empty name, those that need none.
#[derive(Debug)]
struct RecoveryLane {
    /// Held while it is worked on.
    working: Arc<tokio::sync::Mutex<()>>,
    /// How far it has come: the next round goes on from here, so that any number that cannot be recovered hides none behind them.
    after: Mutex<Option<OrphanCursor>>,
    at_once: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// What a lane has to do in a round.
#[derive(Debug, Default)]
struct LaneLoad {
    orphans: Vec<Effect>,
    /// Of others than this process, how many were listed, and the last of them.
    listed: u32,
    last: Option<OrphanCursor>,
    /// Works that go on at the upstream and that nobody follows.
    left_alone: Vec<Effect>,
}

impl Default for RecoveryLanes {
    fn default() -> Self {
        Self::having_logged(BTreeSet::new())
    }
}

impl RecoveryLanes {
    /// Those effects were logged before.
    pub(crate) fn having_logged(logged: BTreeSet<EffectId>) -> Self {
        let all = Arc::new(Semaphore::new(ALL_AT_ONCE_MAX));
        Self { by_upstream: BTreeMap::new(), all, logged, running: JoinSet::new() }
    }

    /// Begins a round in every lane that is not in one. Waits for the store alone.
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
            // Those in use are held by their rounds.
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
        match core.effects.orphans(query).await {
            Err(error) => tracing::warn!(%error, "orphaned effects could not be listed"),
            Ok(orphans) => {
                for orphan in orphans {
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
            tracing::warn!(%effect, %tool, "an effect was left behind, and the contract or the upstream that could settle it is gone");
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
    /// Orphans whose server has to answer, the oldest first, while it is there. Says whether all of them had their chance.
    async fn run_with_server(self, upstream: &str, load: LaneLoad) -> bool {
        let (mut taking, mut went_through) = (Vec::new(), true);
        for orphan in load.orphans {
            if !self.is_available(upstream).await {
                went_through = false;
                break;
            }
            let (long_running, snapshot) = (Arc::clone(&self.long_running), Arc::clone(&self.snapshot));
            if takes_long(&snapshot, &orphan) {
                // Nobody waits for it: the others are looked after meanwhile. Where there is no place, the next round has one.
                let Ok(place) = Arc::clone(&self.lane.long).try_acquire_owned() else { continue };
                self.long_running.core.in_flight.spawn(async move {
                    recover_orphan(&long_running, &snapshot, orphan).await;
                    drop(place);
                });
                continue;
            }
            // In a task of its own, which goes on if nobody waits any more: what is sent is settled.
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

    /// Orphans that the store alone settles.
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

    /// Whether the server is there and is not left alone for failing. One that is gone from the configuration is nobody's to wait for.
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
