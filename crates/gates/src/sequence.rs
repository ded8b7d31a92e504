//! Gates 1 to 10 in order. Gate 11 is in `budget`, because it needs state that other calls share.

use servanda_contract::{GateName, Refusal, TaxonomyClass};

use crate::{
    Confirmation, GateLimits, Mandate, PreviewedCall, ResolvedCall, Trail, behaviour, bounds, budget::Cleared,
    confirmation, mandate::CallOrigin, parse, policy, scope, semantics, state, structure, types,
};

/// Takes a caller's call through gates 1 to 10. The trail gets a verdict of each gate that was reached.
pub fn pass_all(
    resolved: ResolvedCall,
    mandate: &Mandate<'_>,
    limits: GateLimits,
    trail: &mut Trail<'_>,
) -> Result<Confirmation, Box<Refusal>> {
    pass(resolved, &CallOrigin::Caller(*mandate), limits, trail)
}

/// Judges a caller's call that is not to be made: the same gates, and at their end a [`PreviewedCall`], which cannot be cleared, fenced or
/// performed.
pub fn pass_preview(
    resolved: ResolvedCall,
    mandate: &Mandate<'_>,
    limits: GateLimits,
    trail: &mut Trail<'_>,
) -> Result<PreviewedCall, Box<Refusal>> {
    pass(resolved, &CallOrigin::Caller(*mandate), limits, trail).map(PreviewedCall::new)
}

/// Takes a question that the gateway asks on its own account through the gates. No credential, policy or budget
/// applies, so the tool has to be one that changes nothing.
pub fn pass_question(
    resolved: ResolvedCall,
    limits: GateLimits,
    trail: &mut Trail<'_>,
) -> Result<Cleared, Box<Refusal>> {
    let contract = resolved.contract.contract();
    if contract.effect_class().mutates() {
        let message = format!("`{}` changes something, so it is not asked", contract.identity.name);
        let hint = "name a tool that only reads".to_owned();
        let (call_id, class) = (resolved.proposal.call_id.clone(), TaxonomyClass::PolicyViolation);
        return Err(Box::new(Refusal::new(call_id, GateName::Behaviour, class, message, hint)));
    }
    let confirmation = pass(resolved, &CallOrigin::Gateway, limits, trail)?;
    confirmation.permitted().map(Cleared::for_question).map_err(|held| confirmation::not_asked(&held))
}

pub(crate) fn pass(
    resolved: ResolvedCall,
    account: &CallOrigin<'_>,
    limits: GateLimits,
    trail: &mut Trail<'_>,
) -> Result<Confirmation, Box<Refusal>> {
    trail.begin_laps();
    let parsed = trail.judge_next(GateName::Parse, || parse::gate(resolved, limits))?;
    let structured = trail.judge_next(GateName::Structure, || structure::gate(parsed))?;
    let typed = trail.judge_next(GateName::Types, || types::gate(structured))?;
    let bounded = trail.judge_next(GateName::Bounds, || bounds::gate(typed))?;
    let meant = trail.judge_next(GateName::Semantics, || semantics::gate(bounded))?;
    let fitting = trail.judge_next(GateName::Behaviour, || behaviour::gate(meant))?;
    let covered = trail.judge_next(GateName::Scope, || scope::gate(fitting, account))?;
    let mut told = None;
    let sanctioned = trail.judge_next(GateName::Policy, || policy::gate(covered, account, &mut told));
    trail.note_policy(told);
    let sanctioned = sanctioned?;
    let in_time = trail.judge_next(GateName::State, || state::gate(sanctioned))?;
    let judged = confirmation::gate(in_time, account);
    // A held call has no verdict yet: its ticket decides.
    if !matches!(judged, Ok(Confirmation::Held(_))) {
        trail.note_next(GateName::Confirmation, judged.is_ok());
    }
    judged
}
