//! The end of a long work, as those hear of it who follow it as a task. Callbacks are not told from here: theirs is written in
//! the same commit as the end.

use std::sync::Arc;

use servanda_effects::effect::{Effect, EffectState};

use super::task;
use crate::core::Core;

/// A change of an effect was made here that may be the end of a long work. Called by whoever made it, after it is on record.
pub(crate) async fn announce_end(core: &Arc<Core>, effect: &Effect) {
    let is_over = !matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
    if !is_over || !effect.order.keeps_answer || !is_long(core, effect) {
        return;
    }
    tracing::debug!(effect = %effect.id, state = effect.state.name(), "a long work ended");
    task::announce(core, &effect.id).await;
}

fn is_long(core: &Core, effect: &Effect) -> bool {
    let snapshot = core.snapshot();
    snapshot.catalog.entry(&effect.order.exposed_tool).is_some_and(|entry| entry.contract.contract().is_long())
}
