//! The end of a long work: the one place that hears of each, once, with the record that says how it ended.

use std::sync::Arc;

use servanda_contract::CallRecord;
use servanda_gates::effect::{Effect, EffectState};

use super::task;
use crate::core::Core;

/// A change of an effect was made here that may be the end of a long work. Called by whoever made it, after it is on record;
/// the record is none where the end was learned without one. Whoever else has to hear of ends is told from here.
pub(crate) async fn ended(core: &Arc<Core>, effect: &Effect, record: Option<&CallRecord>) {
    // What keeps no answer is not long; most calls are told apart by that.
    let is_over = !matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
    if !is_over || !effect.order.keeps_answer || !is_long(core, effect) {
        return;
    }
    let outcome = record.map_or("-", |record| record.outcome.name());
    tracing::debug!(effect = %effect.id, state = effect.state.name(), outcome, "a long work ended");
    task::announce(core, &effect.id).await;
}

fn is_long(core: &Core, effect: &Effect) -> bool {
    let scene = core.scene();
    scene.catalog.entry(&effect.order.exposed_tool).is_some_and(|entry| entry.contract.contract().is_long())
}
