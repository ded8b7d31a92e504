//! A person settles the dispatch that they looked at, and no later one, in every store alike.

use servanda_effects::effect::{DispatchEnd, EffectEvent, EffectReply, EffectState, ManualSettlement};

use super::{
    effects::apply,
    kept::Kept,
    samples::{about, begin, begun, mine, settled},
};

/// The comparison with what the person looked at happens in the store's transaction.
pub(super) async fn stale(kept: Kept) {
    let effects = &*kept.effects;
    let by_hand = |epoch| {
        let (by, evidence) = ("ada".to_owned(), "the bank's list".to_owned());
        EffectEvent::SettleByHand(ManualSettlement { epoch: Some(epoch), completed: false, by, evidence })
    };
    let unknown = || DispatchEnd::Unknown("reset".to_owned());
    let first = mine(apply(effects, begun(begin("stale"))).await.reply);
    apply(effects, settled(&first, unknown())).await;
    assert_eq!(apply(effects, about(&first, by_hand(first.epoch))).await.reply, EffectReply::Settled);
    let second = mine(apply(effects, begun(begin("stale"))).await.reply);
    apply(effects, settled(&second, unknown())).await;
    let late = apply(effects, about(&second, by_hand(first.epoch))).await;
    assert_eq!((late.reply, late.effect.unwrap().state), (EffectReply::Stale, EffectState::OutcomeUnknown));
    assert_eq!(apply(effects, about(&second, by_hand(second.epoch))).await.reply, EffectReply::Settled);
}
