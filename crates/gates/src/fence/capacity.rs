//! What may begin while the store is running out of room: nothing new. And while the verifiable log cannot keep up: nothing new that is
//! high-risk. A call with a used key is answered as usual, and calls under way are settled, because that needs little room and the reserve
//! is for it.

use servanda_contract::{GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge, tool::SideEffectClass};
use servanda_effects::effect::{BeginRequest, EffectStore, EffectTarget};

use super::not_fenced::{FailedMark, NotFenced, NotFencedReason, mark_failure_reason};
use crate::{Permit, budget::Cleared};

/// Why a store lets nothing new begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BeginStop {
    /// It is running out of room.
    OutOfRoom(String),
    /// Its verifiable log cannot keep up, and the call is high-risk.
    LogBehind(String),
}

/// Why this call would not begin if its key is new; none if it may.
pub(super) fn why_nothing_begins(permit: &Permit, effects: &dyn EffectStore) -> Option<BeginStop> {
    if let Some(why) = effects.out_of_room() {
        return Some(BeginStop::OutOfRoom(why));
    }
    if permit.side_effect_class() < SideEffectClass::HighRiskExternal {
        return None;
    }
    effects.log_is_behind().map(BeginStop::LogBehind)
}

/// Passes a call whose key was used before on to the store; refuses a new one. The key is looked up first,
/// because the refusal says that nothing was done under it.
pub(super) async fn check(
    cleared: Cleared,
    begin: &BeginRequest,
    why: &BeginStop,
    effects: &dyn EffectStore,
) -> Result<Cleared, Box<NotFenced>> {
    match effects.find(EffectTarget::Key(begin.key.clone())).await {
        Ok(Some(_)) => Ok(cleared),
        Ok(None) => Err(not_begun(cleared, why)),
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

fn not_begun(cleared: Cleared, why: &BeginStop) -> Box<NotFenced> {
    let (message, hint, for_operators) = match why {
        BeginStop::OutOfRoom(why) => (
            format!("the ledger is out of room, so the call was not sent: {why}"),
            "make the same call again later, it passes as soon as there is room",
            "free disk space, or shorten `retention` or raise `ledger_limits` in servanda.yaml (docs/retention.md)",
        ),
        BeginStop::LogBehind(why) => (
            format!("the verifiable log cannot keep up, and this call is high-risk, so it was not sent: {why}"),
            "make the same call again later, it passes as soon as the log is signed again",
            "the gateway's log says why its verifiable log is not signed; `servanda audit` shows how far it is (docs/audit-log.md)",
        ),
    };
    let (call_id, class) = (cleared.permit().call_id().clone(), TaxonomyClass::DependencyUnavailable);
    let refusal = Refusal::new(call_id, GateName::Fence, class, message, hint.to_owned()).for_operators(for_operators);
    let refusal = refusal.with_effect(EffectKnowledge::None);
    Box::new(NotFenced { cleared, why: NotFencedReason::NotOnRecord(Box::new(refusal)) })
}
