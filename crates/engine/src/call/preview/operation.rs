//! What is known about the operation that a previewed call names. The key is looked up and not claimed.

use std::time::Duration;

use servanda_contract::{Refusal, preview::PreviewedOperation, tool::EffectClass};
use servanda_effects::effect::{self, Effect, EffectReply, EffectTarget};
use servanda_gates::PreviewedCall;

use crate::{
    answers::{approvals, existing_effect, refusals},
    call::state::CallPipeline,
};

/// How long the store may take to say whether a key was used.
const FIND_MS_MAX: u64 = 5_000;

impl CallPipeline<'_> {
    /// Looks up the operation of a call. The refusal is the one that the call would get because of it.
    pub(super) async fn look_at_operation(
        &self,
        previewed: &PreviewedCall,
    ) -> (Option<PreviewedOperation>, Option<Refusal>) {
        let call_id = previewed.call_id();
        let mutates = previewed.effect_class().mutates();
        let key = match self.calls.keys.key_for(previewed).await {
            Ok(key) => key,
            Err(error) => {
                let refusal = refusals::no_key(call_id.clone(), &error);
                return (Some(PreviewedOperation::Unknown), Some(*refusal));
            }
        };
        if let Some(done) = self.done_late(previewed, &key) {
            let refusal = existing_effect::done_late(call_id.clone(), &done);
            return (Some(PreviewedOperation::NoKey), Some(refusal));
        }
        if !key.can_come_again() {
            return (mutates.then_some(PreviewedOperation::NoKey), None);
        }
        let finding = self.core.effects.find(EffectTarget::Key(previewed.effect_key(key)));
        match tokio::time::timeout(Duration::from_millis(FIND_MS_MAX), finding).await {
            Ok(Ok(None)) => (Some(PreviewedOperation::New), None),
            Ok(Ok(Some(found))) => of_effect(previewed, &found),
            Ok(Err(error)) => {
                let refusal = *approvals::store_away(call_id, &error);
                (Some(PreviewedOperation::Unknown), Some(refusal))
            }
            Err(_) => (Some(PreviewedOperation::Unknown), None),
        }
    }
}

fn of_effect(previewed: &PreviewedCall, found: &Effect) -> (Option<PreviewedOperation>, Option<Refusal>) {
    let Some(reply) = effect::standing_reply(found, previewed.payload_digest()) else {
        return (Some(PreviewedOperation::New), None);
    };
    let refusal = || Some(existing_effect::refusal(previewed.call_id(), &reply, Some(found)));
    match reply {
        EffectReply::Replay(_) => (Some(PreviewedOperation::Done), None),
        EffectReply::Mismatch => (Some(PreviewedOperation::Conflict), refusal()),
        EffectReply::KeyExpired => (Some(PreviewedOperation::Expired), refusal()),
        EffectReply::Running { .. } => (Some(PreviewedOperation::UnderWay), refusal()),
        // Where the upstream knows our key, the gateway sends it again or asks; people are not asked about an unknown outcome.
        EffectReply::Unknown if found.class != EffectClass::N && previewed.demand().is_none() => {
            (Some(PreviewedOperation::OutcomeUnknown), None)
        }
        _ => (Some(PreviewedOperation::OutcomeUnknown), refusal()),
    }
}
