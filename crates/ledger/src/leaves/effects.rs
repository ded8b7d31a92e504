//! The leaves of effects.

use servanda_audit::leaf::{AuditEvent, ChangeLeaf, ChangedThing, EffectLeaf, LeafEffectState};
use servanda_effects::effect::{Effect, EffectState, Settlement};

use super::text;

/// The effect's state now.
pub(super) fn event(effect: &Effect) -> AuditEvent {
    AuditEvent::Effect(EffectLeaf {
        call: effect.call_id.to_string(),
        effect: effect.id.to_string(),
        epoch: effect.epoch,
        to: state(effect.state),
    })
}

/// That a person settled an effect whose outcome was unknown.
pub(super) fn settled(effect: &Effect, settlement: &Settlement) -> AuditEvent {
    AuditEvent::Change(ChangeLeaf {
        by: text(&settlement.by),
        call: Some(effect.call_id.to_string()),
        change: effect.state.name().to_owned(),
        digest: None,
        id: effect.id.to_string(),
        thing: ChangedThing::Settlement,
    })
}

const fn state(state: EffectState) -> LeafEffectState {
    match state {
        EffectState::Claimed => LeafEffectState::Claimed,
        EffectState::Dispatching => LeafEffectState::Dispatching,
        EffectState::Completed => LeafEffectState::Completed,
        EffectState::FailedFinal => LeafEffectState::FailedFinal,
        EffectState::FailedRetryable => LeafEffectState::FailedRetryable,
        EffectState::OutcomeUnknown => LeafEffectState::OutcomeUnknown,
        EffectState::Compensated => LeafEffectState::Compensated,
        EffectState::Expired => LeafEffectState::Expired,
    }
}
