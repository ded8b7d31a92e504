//! The effects that this process has under way, as it last wrote them. They save reading. A write that builds
//! on one of them is only made if the database still has the same state.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_effects::effect::{Effect, EffectId, EffectState};

use super::batch::EffectRevision;

/// How many are remembered; the latest are kept.
const EFFECTS_MAX: usize = 4_096;
/// Effects with more bytes of arguments are not remembered but read again.
const ARGUMENTS_BYTES_MAX: usize = 8 << 10;

/// Effects under way, shared by all writers.
#[derive(Debug, Clone, Default)]
pub(super) struct PostgresRecentEffects {
    kept: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    effects: HashMap<EffectId, (Arc<Effect>, EffectRevision)>,
    order: VecDeque<EffectId>,
}

impl PostgresRecentEffects {
    pub(super) fn get(&self, id: &EffectId) -> Option<(Arc<Effect>, EffectRevision)> {
        self.kept().effects.get(id).cloned()
    }

    /// Notes an effect that was written on top of the revision `before`.
    pub(super) fn record_written(&self, effect: &Arc<Effect>, before: Option<EffectRevision>) {
        let under_way = matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
        let mut kept = self.kept();
        if !under_way || effect.order.arguments.len() > ARGUMENTS_BYTES_MAX {
            kept.effects.remove(&effect.id);
            return;
        }
        let revision = before.map_or(1, |before| before.revision + 1);
        let now = EffectRevision { epoch: effect.epoch, state: effect.state, revision };
        if kept.effects.insert(effect.id.clone(), (Arc::clone(effect), now)).is_none() {
            kept.order.push_back(effect.id.clone());
        }
        // The order still has ids of effects that ended; they are dropped over time.
        while kept.order.len() > EFFECTS_MAX {
            if let Some(oldest) = kept.order.pop_front() {
                kept.effects.remove(&oldest);
            }
        }
    }

    /// Forgets an effect whose state in the database may have changed.
    pub(super) fn forget(&self, id: &EffectId) {
        self.kept().effects.remove(id);
    }

    fn kept(&self) -> MutexGuard<'_, State> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
