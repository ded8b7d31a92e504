//! The effects that the writer has under way, as it last wrote them. They save reading. They are valid as long
//! as no other connection writes to the file, which the database can tell.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use rusqlite::Connection;
use servanda_effects::effect::{Effect, EffectId, EffectState, EffectTarget};

use crate::LedgerError;

/// How many are remembered; the latest are kept.
const EFFECTS_MAX: usize = 4_096;
/// Effects with more bytes of arguments are not remembered but read again.
const ARGUMENTS_BYTES_MAX: usize = 8 << 10;

/// Effects under way.
#[derive(Debug, Default)]
pub(super) struct SqliteRecentEffects {
    effects: HashMap<EffectId, Arc<Effect>>,
    order: VecDeque<EffectId>,
    data_version: i64,
}

impl SqliteRecentEffects {
    /// Called at the beginning of a transaction: forgets everything if another connection has written since.
    /// Returns whether it did.
    pub(super) fn check(&mut self, transaction: &Connection) -> Result<bool, LedgerError> {
        let mut version = transaction.prepare_cached("pragma data_version")?;
        let data_version = version.query_row([], |row| row.get(0))?;
        let changed = data_version != self.data_version;
        if changed {
            self.clear();
            self.data_version = data_version;
        }
        Ok(changed)
    }

    pub(super) fn get(&self, target: &EffectTarget) -> Option<Arc<Effect>> {
        match target {
            EffectTarget::Id(id) => self.effects.get(id).cloned(),
            EffectTarget::Key(_) => None,
        }
    }

    /// Remembers an effect that was written in this transaction.
    pub(super) fn put(&mut self, effect: &Arc<Effect>) {
        let under_way = matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
        if !under_way || effect.order.arguments.len() > ARGUMENTS_BYTES_MAX {
            self.effects.remove(&effect.id);
            return;
        }
        if self.effects.insert(effect.id.clone(), Arc::clone(effect)).is_none() {
            self.order.push_back(effect.id.clone());
        }
        // The order still has ids of effects that ended; they are dropped over time.
        while self.order.len() > EFFECTS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.effects.remove(&oldest);
            }
        }
    }

    /// Forgets everything, after a transaction that failed.
    pub(super) fn clear(&mut self) {
        self.effects.clear();
        self.order.clear();
    }
}
