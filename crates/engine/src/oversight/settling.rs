//! A person settles an effect whose outcome is unknown: as happened, or as not happened, with evidence.

use servanda_effects::{
    JournalError,
    effect::{
        AppliedChange, Effect, EffectChange, EffectEvent, EffectId, EffectReply, EffectState, EffectStore,
        EffectTarget, ManualSettlement,
    },
};

use super::{Oversight, checked_statement};
use crate::{approvals::Person, callbacks::CallbackNotices};

/// What a person says about an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonSettlement {
    /// The effect.
    pub effect: EffectId,
    /// The epoch of the effect that the person was shown.
    pub epoch: u64,
    /// Whether it happened.
    pub completed: bool,
    /// How they know.
    pub evidence: String,
}

/// Why a settlement does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettlementError {
    /// There is no such effect, or it is not this person's to see.
    #[error("there is no effect `{0}`")]
    NoEffect(EffectId),
    /// The person's role does not include it.
    #[error("the role `operator` settles effects")]
    NotPermitted,
    /// The evidence is missing, too long, or more than a line.
    #[error("evidence is one line that says how you know it")]
    Evidence,
    /// Its outcome is known, or it is under way.
    #[error("the effect is {}, and only what is outcome_unknown can be settled", .0.name())]
    NotUnknown(EffectState),
    /// It was sent again since the person looked.
    #[error("the effect went on since you looked at it: look again")]
    WentOn,
    /// The store did not take it, or it is not known whether it did.
    #[error("the store did not confirm the settlement: {0}")]
    Store(String),
}

/// Stores a person's settlement and the notifications of those who asked to be told, in one transaction.
pub async fn settle_by_hand(
    effects: &dyn EffectStore,
    effect: &Effect,
    settlement: ManualSettlement,
    callbacks: &CallbackNotices<'_>,
) -> Result<AppliedChange, JournalError> {
    let notices = callbacks.for_effect(effect);
    let (target, event) = (EffectTarget::Id(effect.id.clone()), EffectEvent::SettleByHand(settlement));
    effects.apply(EffectChange { notices, ..EffectChange::new(target, event) }).await
}

impl Oversight<'_> {
    /// Settles an effect by a person's word.
    pub async fn settle(&self, person: &Person, settlement: PersonSettlement) -> Result<Effect, SettlementError> {
        let PersonSettlement { effect: id, epoch, completed, evidence } = settlement;
        let view = self.view(person);
        let found = self.visible_effect(&view, id.clone()).await;
        let found = found.map_err(|error| SettlementError::Store(error.reason().to_owned()))?;
        let effect = found.ok_or_else(|| SettlementError::NoEffect(id.clone()))?;
        if !view.may_operate() {
            return Err(SettlementError::NotPermitted);
        }
        let evidence = checked_statement(&evidence).ok_or(SettlementError::Evidence)?.to_owned();
        let by_hand = ManualSettlement { epoch: Some(epoch), completed, by: view.name(), evidence };
        let callbacks = self.core.callback_notices(&view.snapshot);
        let applied = settle_by_hand(self.core.effects.as_ref(), &effect, by_hand, &callbacks).await;
        let applied = applied.map_err(|error| SettlementError::Store(error.reason().to_owned()))?;
        let (person, tenant) = (person.principal.as_str(), person.tenant.as_str());
        match (applied.reply, applied.effect) {
            (EffectReply::Settled, Some(settled)) => {
                self.core.outbox.wake();
                tracing::info!(effect = %id, person, tenant, completed, "a person settled an effect");
                Ok((*settled).clone())
            }
            (reply, now) => {
                tracing::info!(effect = %id, person, tenant, completed, ?reply, "a settlement does not count");
                let state = now.map_or(effect.state, |now| now.state);
                Err(if reply == EffectReply::Stale {
                    SettlementError::WentOn
                } else {
                    SettlementError::NotUnknown(state)
                })
            }
        }
    }
}
