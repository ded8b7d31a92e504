//! Announces the end of long work to requesters that follow it as a task. Deliberately not here: callbacks, whose notes are stored in the
//! same commit as the end.

use std::sync::Arc;

use servanda_effects::effect::{Effect, EffectState};

use super::task;
use crate::core::Core;

/// Announces an effect's change if it is the end of long work. The code that made the change calls this after the change is recorded.
pub(crate) async fn announce_end(core: &Arc<Core>, effect: &Effect) {
    let is_over = !matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
    if !is_over || !effect.order.keeps_answer || !is_long(core, effect) {
        return;
    }
    tracing::debug!(effect = %effect.id, state = effect.state.name(), "long work ended");
    task::announce(core, &effect.id).await;
}

fn is_long(core: &Core, effect: &Effect) -> bool {
    // An answer is kept for a key that comes again, or for a task.
    if !effect.key.client_key.can_come_again() {
        return true;
    }
    let snapshot = core.snapshot();
    snapshot.catalog.entry(&effect.order.exposed_tool).is_some_and(|entry| entry.contract.contract().is_long())
}
