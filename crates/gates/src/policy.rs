//! Gate 8, policy: the operator's policies permit this caller this call, and none forbids it.
//!
//! The policy crate decides; this gate asks it and words the refusal. An agent is told which policy refused the
//! call and the author's reason, never what it would have to say instead, because policies are not negotiable
//! for agents.
//!
//! Policies that are only tried out are evaluated after the decision, and only the record contains what they
//! say.

use std::sync::Arc;

use servanda_approval::PolicyApproval;
use servanda_contract::{GateName, Refusal, TaxonomyClass, record::PolicyRecord, tool::QuestionKind};
use servanda_policy::{CallCircumstances, PolicyCall, PolicyDecision, PolicyRefusalCause, RefusedByPolicy};

use crate::{
    Mandate,
    mandate::{CallOrigin, PoliciesInForce},
    scope::CoveredCall,
    semantics::CanonicalCall,
};

/// Evidence: the policies permit the call.
#[derive(Debug)]
pub(crate) struct PolicyApprovedCall {
    pub(crate) meant: CanonicalCall,
    /// What the policies that permit the call say about approvals.
    pub(crate) approvals: Arc<[PolicyApproval]>,
}

/// Judges the call. Whatever the decision, `told` receives what the record should say.
pub(crate) fn gate(
    covered: CoveredCall,
    account: &CallOrigin<'_>,
    told: &mut Option<PolicyRecord>,
) -> Result<PolicyApprovedCall, Box<Refusal>> {
    let CoveredCall { meant } = covered;
    let CallOrigin::Caller(mandate) = account else {
        return Ok(PolicyApprovedCall { meant, approvals: Arc::default() });
    };
    let PoliciesInForce { policies, shadow, principal, environment } = mandate.policy;
    let circumstances = circumstances(&meant, environment);
    let call = PolicyCall {
        principal,
        tool: &meant.resolved.contract.contract().identity.name,
        arguments: &meant.arguments,
        circumstances: &circumstances,
    };
    let decision = policies.decide(&call);
    let aims = &meant.resolved.proposal.aims;
    *told = Some(PolicyRecord {
        by: decision.ids(),
        scopes: principal.scopes(),
        groups: Some(principal.groups()),
        task: aims.task.clone(),
        intent: aims.intent.clone(),
        program_class: meant.program_class,
        shadow: shadow
            .map(|shadow| shadow.would_have(&call, mandate.approvals, Some(&meant.proposal_digest)).to_record()),
    });
    match decision {
        PolicyDecision::Allowed(allowed) => Ok(PolicyApprovedCall { meant, approvals: allowed.approvals() }),
        PolicyDecision::Refused(refused) => Err(refuse(&meant, &refused)),
    }
}

fn circumstances<'a>(meant: &'a CanonicalCall, environment: &'a str) -> CallCircumstances<'a> {
    let proposal = &meant.resolved.proposal;
    CallCircumstances {
        tenant: &proposal.caller.tenant,
        environment,
        time: proposal.received_at,
        client: proposal.caller.client.as_deref(),
        task: proposal.aims.task.as_deref(),
        intent: proposal.aims.intent.as_deref(),
        question: None,
        program_class: meant.program_class,
    }
}

/// The questions that the policies forbid the upstream to ask the caller during the call.
pub(crate) fn refused_questions(meant: &CanonicalCall, mandate: &Mandate<'_>) -> Vec<QuestionKind> {
    let PoliciesInForce { policies, principal, environment, .. } = mandate.policy;
    if !policies.look_at_questions() {
        return Vec::new();
    }
    let tool = &meant.resolved.contract.contract().identity.name;
    let refuses = |kind: &QuestionKind| {
        let circumstances = CallCircumstances { question: Some(*kind), ..circumstances(meant, environment) };
        let call = PolicyCall { principal, tool, arguments: &meant.arguments, circumstances: &circumstances };
        matches!(policies.decide(&call), PolicyDecision::Refused(_))
    };
    QuestionKind::ALL.into_iter().filter(refuses).collect()
}

fn refuse(meant: &CanonicalCall, refused: &RefusedByPolicy) -> Box<Refusal> {
    let proposal = &meant.resolved.proposal;
    let by: Vec<String> =
        refused.by().iter().map(|policy| policy_in_words(&policy.policy, policy.reason.as_deref())).collect();
    let by = by.join("; ");
    let why = match refused.cause() {
        PolicyRefusalCause::Forbidden => format!("is forbidden by {by}"),
        PolicyRefusalCause::NotPermitted => "is permitted by no policy".to_owned(),
        PolicyRefusalCause::ErrorInPolicy { .. } => format!("cannot be decided: there is an error in {by}"),
        PolicyRefusalCause::UnknownTool => "is a tool that the policies do not know".to_owned(),
        PolicyRefusalCause::Arguments { reason } => format!("cannot be decided: its arguments have {reason}"),
        PolicyRefusalCause::Engine { .. } => "cannot be decided by the policies".to_owned(),
    };
    let hint = "do not try another way around it; tell the user";
    let counted = if meant.resolved.contract.program_decides_class() {
        format!(" (its program counts as {})", meant.side_effect_class().word())
    } else {
        String::new()
    };
    let message = format!("`{}` {why}{counted}", proposal.tool);
    let class = TaxonomyClass::PolicyViolation;
    let refusal = Refusal::new(proposal.call_id.clone(), GateName::Policy, class, message, hint.to_owned());
    let explain = format!("`servanda policy explain {}` says which policy decided", proposal.call_id);
    Box::new(refusal.for_operators(explain))
}

fn policy_in_words(policy: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| format!("policy `{policy}`"), |reason| format!("policy `{policy}`: {reason}"))
}
