//! What may begin while the store is running out of room: nothing new. A call with a used key is answered as
//! usual, and calls under way are settled, because that needs little room and the reserve is for it.

use servanda_contract::{GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge};
use servanda_effects::effect::{BeginRequest, EffectStore, EffectTarget};

use super::not_fenced::{FailedMark, NotFenced, NotFencedReason, mark_failure_reason};
use crate::budget::Cleared;

/// Passes a call whose key was used before on to the store; refuses a new one. The key is looked up first,
/// because the refusal says that nothing was done under it.
pub(super) async fn check(
    cleared: Cleared,
    begin: &BeginRequest,
    why: &str,
    effects: &dyn EffectStore,
) -> Result<Cleared, Box<NotFenced>> {
    match effects.find(EffectTarget::Key(begin.key.clone())).await {
        Ok(Some(_)) => Ok(cleared),
        Ok(None) => Err(out_of_room(cleared, why)),
        Err(error) => {
            let unread = FailedMark {
                key: &begin.key.client_key,
                request: begin.request,
                error: &error.clone(),
                found: Err(error),
            };
            let why = mark_failure_reason(cleared.permit(), unread);
            Err(Box::new(NotFenced { cleared, why }))
        }
    }
}

fn out_of_room(cleared: Cleared, why: &str) -> Box<NotFenced> {
    let refusal = Refusal::new(
        cleared.permit().call_id().clone(),
        GateName::Fence,
        TaxonomyClass::DependencyUnavailable,
        format!("the ledger is out of room, so the call was not sent: {why}"),
        "make the same call again later, it passes as soon as there is room".to_owned(),
    )
    .for_operators(
        "free disk space, or shorten `retention` or raise `ledger_limits` in servanda.yaml (docs/retention.md)",
    );
    let refusal = refusal.with_effect(EffectKnowledge::None);
    Box::new(NotFenced { cleared, why: NotFencedReason::NotOnRecord(Box::new(refusal)) })
}
