//! The approval function: whether a call needs an approval, and which. It depends on the side-effect class, whether the change can be
//! undone, how far it reaches, how far the caller is trusted, and the environment; contracts and policies have the last word.
//!
//! | class | outside production | in production |
//! |---|---|---|
//! | `READ_ONLY` | none | none |
//! | `EPHEMERAL_WRITE`, `LOW_RISK_INTERNAL` | none | none, unless the scope is critical |
//! | `MEDIUM_RISK_WRITE` | an operator if the caller is not trusted | an operator if it cannot be undone or the caller is not trusted |
//! | `HIGH_RISK_EXTERNAL` | the user or an approver | an operator |
//! | `CRITICAL_MUTATION` | two people | two people |
//!
//! A gateway for one user has one person who can decide: there the user consents, and signs in again for critical changes. A contract that
//! was inferred says of every write that it cannot be undone, because nothing else is known. So that word alone asks for an approval only
//! from `MEDIUM_RISK_WRITE` on, and only in production.

use std::collections::BTreeSet;

use servanda_contract::{
    Digest,
    tool::{ApprovalPattern, DataClassification, MutationClass, Presence, SideEffectClass},
};

use crate::{
    ApprovalCause, ApprovalDemand, ApprovalFacts, ApprovalSettings, EscalationTier, PolicyApproval, TrustLevel,
};

/// What the approval function depends on.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalInputs<'a> {
    /// The class of the call.
    pub class: SideEffectClass,
    /// What the contract says.
    pub facts: ApprovalFacts<'a>,
    /// How far the caller is trusted.
    pub trust: TrustLevel,
    /// What the policies that permit the call say about approvals.
    pub policies: &'a [PolicyApproval],
    /// The digest of the call's payload, which decides whether a call of a review queue is held. Without it every call counts as held.
    pub payload: Option<&'a Digest>,
}

/// The approval that a call needs, if it needs one.
pub fn demand(inputs: &ApprovalInputs<'_>, settings: &ApprovalSettings) -> Option<ApprovalDemand> {
    let asking: Vec<&PolicyApproval> = inputs.policies.iter().filter(|policy| policy.asks()).collect();
    let by_contract = inputs.facts.asks_by_itself();
    let mut causes = Vec::new();
    let mut pattern = None;
    if by_contract {
        causes.push(ApprovalCause::Contract);
        let wanted = inputs.facts.terms.and_then(|terms| terms.pattern);
        pattern = Some(wanted.unwrap_or_else(|| pattern_of_class(inputs, settings)));
    }
    let is_lifted = inputs.policies.iter().any(PolicyApproval::lifts)
        || inputs.facts.terms.is_some_and(|terms| terms.required == Some(false));
    if settings.by_class
        && !is_lifted
        && !by_contract
        && let Some((wanted, cause)) = wanted_by_class(inputs, settings)
    {
        causes.push(cause);
        pattern = Some(inputs.facts.terms.and_then(|terms| terms.pattern).unwrap_or(wanted));
    }
    for policy in &asking {
        causes.push(ApprovalCause::Policy(policy.policy.clone()));
        pattern = pattern.max(Some(policy.pattern.unwrap_or_else(|| pattern_of_class(inputs, settings))));
    }
    let pattern = pattern?;
    let demand = complete(inputs, settings, &asking, pattern, causes);
    let is_only_sampled = demand.pattern == ApprovalPattern::Queue;
    (!is_only_sampled || is_sampled(inputs)).then_some(demand)
}

/// Fills in what the pattern, the contract and the policies say about an approval.
fn complete(
    inputs: &ApprovalInputs<'_>,
    settings: &ApprovalSettings,
    asking: &[&PolicyApproval],
    pattern: ApprovalPattern,
    causes: Vec<ApprovalCause>,
) -> ApprovalDemand {
    let of_pattern = settings.pattern(pattern);
    let is_critical = inputs.class == SideEffectClass::CriticalMutation;
    let terms = inputs.facts.terms;
    let by_policy: BTreeSet<String> = asking.iter().flat_map(|policy| policy.groups.iter().cloned()).collect();
    let by_contract = terms.map(|terms| terms.groups.clone()).unwrap_or_default();
    let groups = [by_policy, by_contract, of_pattern.groups].into_iter().find(|groups| !groups.is_empty());
    let quorums = asking.iter().filter_map(|policy| policy.quorum).chain(terms.and_then(|terms| terms.quorum));
    // What a policy or a contract says replaces the pattern's number, and never falls below what the pattern needs.
    let least = if pattern == ApprovalPattern::Dual { 2 } else { 1 };
    let quorum = quorums.max().map_or_else(|| settings.quorum(pattern), |quorum| quorum.max(least));
    let own = if settings.is_single_user && is_critical { Presence::Fresh } else { Presence::Session };
    let presences = asking.iter().filter_map(|policy| policy.presence).chain(terms.and_then(|terms| terms.presence));
    let presence = presences.chain([of_pattern.presence, own]).max().unwrap_or_default();
    let decide = asking.iter().filter_map(|policy| policy.decide_within_ms).min();
    let decide = decide.or_else(|| terms.and_then(|terms| terms.decide_within_sec).map(|sec| sec.saturating_mul(1000)));
    let use_within = terms.and_then(|terms| terms.use_within_sec).map(|sec| sec.saturating_mul(1000));
    ApprovalDemand {
        pattern,
        groups: groups.unwrap_or_default(),
        quorum,
        presence,
        decide_within_ms: decide.unwrap_or_else(|| settings.decide_within_ms(inputs.class)),
        use_within_ms: use_within.unwrap_or(settings.use_within_ms),
        escalation: in_order(of_pattern.escalation),
        causes,
        class: inputs.class,
    }
}

fn in_order(mut tiers: Vec<EscalationTier>) -> Vec<EscalationTier> {
    tiers.sort_by_key(|tier| tier.after_percent);
    tiers
}

/// What the class asks for, and why.
fn wanted_by_class(
    inputs: &ApprovalInputs<'_>,
    settings: &ApprovalSettings,
) -> Option<(ApprovalPattern, ApprovalCause)> {
    if inputs.class == SideEffectClass::ReadOnly {
        return None;
    }
    let pattern = pattern_of_class(inputs, settings);
    if inputs.class >= SideEffectClass::HighRiskExternal {
        return Some((pattern, ApprovalCause::Class));
    }
    let critical = inputs.facts.manifest.iter().find(|change| settings.critical_scopes.contains(&change.scope));
    if let Some(change) = critical.filter(|_| settings.is_production) {
        return Some((pattern, ApprovalCause::CriticalScope(change.scope.clone())));
    }
    if inputs.class < SideEffectClass::MediumRiskWrite {
        return None;
    }
    if settings.is_production && inputs.facts.mutation != Some(MutationClass::WriteReversible) {
        return Some((pattern, ApprovalCause::Irreversible));
    }
    (inputs.trust < settings.trust_needed).then_some((pattern, ApprovalCause::Untrusted))
}

/// Who decides about calls of a class.
fn pattern_of_class(inputs: &ApprovalInputs<'_>, settings: &ApprovalSettings) -> ApprovalPattern {
    if settings.is_single_user {
        return ApprovalPattern::Consent;
    }
    match inputs.class {
        SideEffectClass::CriticalMutation => ApprovalPattern::Dual,
        SideEffectClass::HighRiskExternal if inputs.facts.data == DataClassification::Regulated => {
            ApprovalPattern::Compliance
        }
        SideEffectClass::HighRiskExternal if settings.is_production => ApprovalPattern::Operator,
        SideEffectClass::HighRiskExternal | SideEffectClass::ReadOnly => ApprovalPattern::Consent,
        SideEffectClass::MediumRiskWrite | SideEffectClass::LowRiskInternal | SideEffectClass::EphemeralWrite => {
            ApprovalPattern::Operator
        }
    }
}

/// Whether a call of a review queue is held. The payload decides, so that a repetition of a call is treated like the call.
fn is_sampled(inputs: &ApprovalInputs<'_>) -> bool {
    let percent = inputs.facts.terms.and_then(|terms| terms.sample_percent).unwrap_or(100);
    let Some([first, second, ..]) = inputs.payload.map(Digest::as_bytes) else { return true };
    u16::from_be_bytes([*first, *second]) % 100 < u16::from(percent)
}
