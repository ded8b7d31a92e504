//! What becomes of an effect that its owner left behind: the same bytes again, a question, or nothing.

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

/// What becomes of an effect without an owner.
#[derive(Debug)]
pub enum Recovery {
    /// The upstream dedupes: the same bytes are to be sent again.
    Resend(Box<Fenced>, Arc<Effect>),
    /// A status tool is to be asked, and the effect settled by what it says.
    Ask(Claim, Arc<Effect>),
    /// Nothing is left to do.
    Done(EffectReply, Option<Arc<Effect>>),
}

/// Takes over what can be taken of an effect without an owner. The record is written if that changes it, a notice if that
/// ends it so.
pub async fn recover(
    id: &EffectId,
    owner: &OwnerId,
    record: Option<CallRecord>,
    notices: Vec<Notice>,
    effects: &dyn EffectStore,
) -> Result<Recovery, JournalError> {
    let event = EffectEvent::Recover(owner.clone());
    let change = EffectChange { target: EffectTarget::Id(id.clone()), event, record, quarantine: None, notices };
    let AppliedChange { reply, effect } = effects.apply(change).await?;
    Ok(match (reply, effect) {
        (EffectReply::Mine(claim), Some(effect)) if is_dispatched(&effect, &claim) => {
            Recovery::Resend(Box::new(Fenced::marked(effect.call_id.clone(), &effect)), effect)
        }
        (EffectReply::Ask(claim), Some(effect)) => Recovery::Ask(claim, effect),
        (reply, effect) => Recovery::Done(reply, effect),
    })
}
