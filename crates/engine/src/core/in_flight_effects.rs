//! Which effects this process dispatches or settles right now. Recovery leaves them alone.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use servanda_effects::effect::EffectId;

/// Effects that this process is dispatching right now, so that it does not take them for forgotten.
#[derive(Debug, Default)]
pub(crate) struct InFlightEffects(Mutex<BTreeMap<EffectId, usize>>);

/// Holds one effect until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightEffectGuard {
    id: EffectId,
    among: Arc<InFlightEffects>,
}

impl InFlightEffects {
    pub(crate) fn hold(self: &Arc<Self>, id: &EffectId) -> InFlightEffectGuard {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(id.clone())
            .and_modify(|held| *held += 1)
            .or_insert(1);
        InFlightEffectGuard { id: id.clone(), among: Arc::clone(self) }
    }

    pub(crate) fn ids(&self) -> Vec<EffectId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    pub(crate) fn has(&self, id: &EffectId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }
}

impl Drop for InFlightEffectGuard {
    fn drop(&mut self) {
        // A settlement that is still being retried and a new dispatch may hold the same effect.
        let mut held = self.among.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&self.id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                held.remove(&self.id);
            }
        }
    }
}
