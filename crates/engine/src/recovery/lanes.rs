//! Who is looked after when: each upstream's orphans in a lane of their own, so that a server that is slow or down holds up nobody
//! else's, and what needs no server in another. A lane stops for the round as soon as its server is not there or its breaker is open.
//!
//! Deliberately not here: what is done about an orphan.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use servanda_gates::effect::{Effect, EffectId};
use tokio::{
    sync::{OwnedMutexGuard, Semaphore},
    task::{JoinHandle, JoinSet},
};

use super::{exposed, follow_on, needs_its_tool, take, takes_long};
use crate::{
    core::{Core, within_ms},
    scene::Scene,
    works,
};

/// Orphans of each upstream in a round, and as many that need none.
const EACH_MAX: u32 = 64;
/// Of one upstream at once, and of all of them together. Long work is counted apart: nobody waits for it.
const AT_ONCE_MAX: usize = 4;
const ALL_AT_ONCE_MAX: usize = 64;
const LONG_MAX: usize = 32;
/// At once of those that need no upstream.
const SETTLED_AT_ONCE_MAX: usize = 8;
/// How long a server may take to be there.
const THERE_MS_MAX: u64 = 5_000;
/// Lanes that are remembered.
const LANES_MAX: usize = 4_096;
/// Effects whose contract is gone that were told of.
const TOLD_MAX: usize = 4_096;

/// The lanes, by upstream.
#[derive(Debug)]
pub(crate) struct Lanes {
    by_upstream: BTreeMap<Option<String>, Arc<Lane>>,
    all: Arc<Semaphore>,
    told: BTreeSet<EffectId>,
    /// Dropped with this, lanes begin nothing more; what they have begun goes on.
    running: JoinSet<()>,
}

/// The orphans of one upstream, or those that need none.
#[derive(Debug)]
struct Lane {
    /// Held while it is worked on.
    turn: Arc<tokio::sync::Mutex<()>>,
    at_once: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// What a lane has to do in a round.
#[derive(Debug, Default)]
struct Load {
    orphans: Vec<Effect>,
    /// Works that go on at the upstream and that nobody follows.
    left_alone: Vec<Effect>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self::telling(BTreeSet::new())
    }
}

impl Lanes {
    /// Those effects were told of before.
    pub(crate) fn telling(told: BTreeSet<EffectId>) -> Self {
        let all = Arc::new(Semaphore::new(ALL_AT_ONCE_MAX));
        Self { by_upstream: BTreeMap::new(), all, told, running: JoinSet::new() }
    }

    /// Begins a round in every lane that is not in one. Waits for the store alone.
    pub(crate) async fn begin(&mut self, core: &Arc<Core>) {
        while self.running.try_join_next().is_some() {}
        let scene = core.scene();
        for (upstream, load) in self.loads(core, &scene).await {
            let lane = Arc::clone(self.by_upstream.entry(upstream.clone()).or_default());
            let Ok(turn) = Arc::clone(&lane.turn).try_lock_owned() else { continue };
            let (core, scene, all) = (Arc::clone(core), Arc::clone(&scene), Arc::clone(&self.all));
            self.running.spawn(async move {
                let round = Round { core, scene, lane, all };
                match upstream {
                    Some(upstream) => round.with(&upstream, load, turn).await,
                    None => round.without(load, turn).await,
                }
            });
        }
        if self.by_upstream.len() > LANES_MAX {
            // Those in use are held by their rounds, and a lane is nothing but what is in use.
            self.by_upstream.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
    }

    /// Waits until all lanes have ended, and says whom was told of.
    #[cfg(test)]
    pub(crate) async fn ended(mut self) -> BTreeSet<EffectId> {
        while self.running.join_next().await.is_some() {}
        self.told
    }

    async fn loads(&mut self, core: &Arc<Core>, scene: &Scene) -> BTreeMap<Option<String>, Load> {
        let mut loads: BTreeMap<Option<String>, Load> = BTreeMap::new();
        match core.effects.orphans(core.owner.clone(), EACH_MAX).await {
            Err(error) => tracing::warn!(%error, "it could not be looked for effects that were left behind"),
            Ok(orphans) => {
                for orphan in orphans.into_iter().filter(|orphan| !core.in_hand.has(&orphan.id)) {
                    if needs_its_tool(&orphan) && exposed(scene, &orphan).is_none() {
                        self.tell_once(&orphan);
                    } else {
                        loads.entry(orphan.recovers_at().map(str::to_owned)).or_default().orphans.push(orphan);
                    }
                }
            }
        }
        for left in works::left_alone(core).await {
            loads.entry(Some(left.order.upstream.clone())).or_default().left_alone.push(left);
        }
        loads
    }

    fn tell_once(&mut self, effect: &Effect) {
        if self.told.len() < TOLD_MAX && self.told.insert(effect.id.clone()) {
            let (effect, tool) = (&effect.id, &effect.key.tool);
            tracing::warn!(%effect, %tool, "an effect was left behind, and the contract or the upstream that could settle it is gone");
        }
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            turn: Arc::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE_MAX)),
            long: Arc::new(Semaphore::new(LONG_MAX)),
        }
    }
}

/// One round of one lane.
struct Round {
    core: Arc<Core>,
    scene: Arc<Scene>,
    lane: Arc<Lane>,
    all: Arc<Semaphore>,
}

impl Round {
    /// Orphans whose server has to answer, the oldest first, while it is there.
    async fn with(self, upstream: &str, load: Load, turn: OwnedMutexGuard<()>) {
        let mut taking = Vec::new();
        for orphan in load.orphans {
            if !self.is_there(upstream).await {
                break;
            }
            let (core, scene) = (Arc::clone(&self.core), Arc::clone(&self.scene));
            if takes_long(&scene, &orphan) {
                // Nobody waits for it: the others are looked after meanwhile. Where there is no place, the next round has one.
                let Ok(place) = Arc::clone(&self.lane.long).try_acquire_owned() else { continue };
                self.core.in_flight.spawn(async move {
                    take(&core, &scene, orphan).await;
                    drop(place);
                });
                continue;
            }
            // In a task of its own, which goes on if nobody waits any more: what is sent is settled.
            let places =
                (Arc::clone(&self.lane.at_once).acquire_owned().await, Arc::clone(&self.all).acquire_owned().await);
            taking.push(self.core.in_flight.spawn(async move {
                take(&core, &scene, orphan).await;
                drop(places);
            }));
        }
        for left in load.left_alone {
            if !self.is_there(upstream).await {
                break;
            }
            let (core, scene) = (Arc::clone(&self.core), Arc::clone(&self.scene));
            self.core.in_flight.spawn(async move { follow_on(&core, &scene, left).await });
        }
        join(taking).await;
        drop(turn);
    }

    /// Orphans that the store alone settles.
    async fn without(self, load: Load, turn: OwnedMutexGuard<()>) {
        let places = Arc::new(Semaphore::new(SETTLED_AT_ONCE_MAX));
        let mut taking = Vec::new();
        for orphan in load.orphans {
            let (core, scene) = (Arc::clone(&self.core), Arc::clone(&self.scene));
            let place = Arc::clone(&places).acquire_owned().await;
            taking.push(self.core.in_flight.spawn(async move {
                take(&core, &scene, orphan).await;
                drop(place);
            }));
        }
        join(taking).await;
        drop(turn);
    }

    /// Whether the server is there and is not left alone for failing. One that is gone from the configuration is nobody's to wait for.
    async fn is_there(&self, upstream: &str) -> bool {
        let Some(member) = self.scene.member(upstream) else { return true };
        !member.guard.is_shut() && member.server.offer(within_ms(THERE_MS_MAX)).await.is_ok()
    }
}

async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        let _ = task.await;
    }
}
