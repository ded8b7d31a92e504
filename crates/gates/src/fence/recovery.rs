//! What happens to an effect that its owner left behind: the same bytes are sent again, a status tool is asked,
//! or nothing.

use std::sync::Arc;

use servanda_contract::CallRecord;
use servanda_effects::{
    JournalError,
    effect::{
        AppliedChange, Claim, Effect, EffectChange, EffectEvent, EffectId, EffectReply, EffectStore, EffectTarget,
        Notice, OwnerId,
    },
};

use super::{Fenced, is_dispatched};

/// How an effect without an owner is recovered.
#[derive(Debug)]
pub enum Recovery {
    /// The upstream deduplicates: the same bytes have to be sent again.
    Resend(Box<Fenced>, Arc<Effect>),
    /// A status tool has to be asked, and its answer settles the effect.
    Ask(Claim, Arc<Effect>),
    /// Nothing is left to do.
    Done(EffectReply, Option<Arc<Effect>>),
}

/// Takes over an effect without an owner, as far as possible. The record is written if the effect changes, a
/// notice if the effect ends as the notice says.
pub async fn recover(
    id: &EffectId,
    owner: &OwnerId,
    record: Option<CallRecord>,
    notices: Vec<Notice>,
    effects: &dyn EffectStore,
) -> Result<Recovery, JournalError> {
    let event = EffectEvent::Recover(owner.clone());
    let change = EffectChange { record, notices, ..EffectChange::new(EffectTarget::Id(id.clone()), event) };
    let AppliedChange { reply, effect } = effects.apply(change).await?;
    Ok(match (reply, effect) {
        (EffectReply::Mine(claim), Some(effect)) if is_dispatched(&effect, &claim) => {
            Recovery::Resend(Box::new(Fenced::marked(effect.call_id.clone(), &effect)), effect)
        }
        (EffectReply::Ask(claim), Some(effect)) => Recovery::Ask(claim, effect),
        (reply, effect) => Recovery::Done(reply, effect),
    })
}
