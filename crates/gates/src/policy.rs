//! Gate 8, policy: what the operator has written permits this caller this call, and nothing forbids it.
//!
//! The decision is the policy crate's; this gate asks it and puts a refusal into words. An agent is told which policy refused it
//! and what its author says about it, never what it would have to say instead: that is not an agent's to negotiate.
//!
//! Policies that are tried out are asked after the decision is made, and only a record hears what they say.

use servanda_contract::{GateName, Refusal, TaxonomyClass, record::PolicyRecord, tool::QuestionKind};
use servanda_policy::{Call, Cause, Circumstances, Decision, Refused};

use crate::{
    Mandate,
    mandate::{Account, InForce},
    scope::Covered,
    semantics::Meant,
};

/// Evidence: the policies permit the call.
#[derive(Debug)]
pub(crate) struct Sanctioned {
    pub(crate) meant: Meant,
}

/// Judges. What the record is to say is put into `told`, whichever way it goes.
pub(crate) fn gate(
    covered: Covered,
    account: &Account<'_>,
    told: &mut Option<PolicyRecord>,
) -> Result<Sanctioned, Box<Refusal>> {
    let Covered { meant } = covered;
    let Account::Caller(Mandate { policy, .. }) = account else { return Ok(Sanctioned { meant }) };
    let InForce { policies, shadow, principal, environment } = *policy;
    let circumstances = circumstances(&meant, environment);
    let call = Call {
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
        shadow: shadow.map(|shadow| shadow.would_have(&call).to_record()),
    });
    match decision {
        Decision::Allowed(_) => Ok(Sanctioned { meant }),
        Decision::Refused(refused) => Err(refuse(&meant, &refused)),
    }
}

fn circumstances<'a>(meant: &'a Meant, environment: &'a str) -> Circumstances<'a> {
    let proposal = &meant.resolved.proposal;
    Circumstances {
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

/// What the upstream may not ask of the caller during the call, by the policies.
pub(crate) fn refused_questions(meant: &Meant, mandate: &Mandate<'_>) -> Vec<QuestionKind> {
    let InForce { policies, principal, environment, .. } = mandate.policy;
    if !policies.look_at_questions() {
        return Vec::new();
    }
    let tool = &meant.resolved.contract.contract().identity.name;
    let refuses = |kind: &QuestionKind| {
        let circumstances = Circumstances { question: Some(*kind), ..circumstances(meant, environment) };
        let call = Call { principal, tool, arguments: &meant.arguments, circumstances: &circumstances };
        matches!(policies.decide(&call), Decision::Refused(_))
    };
    QuestionKind::ALL.into_iter().filter(refuses).collect()
}

fn refuse(meant: &Meant, refused: &Refused) -> Box<Refusal> {
    let proposal = &meant.resolved.proposal;
    let by: Vec<String> = refused.by().iter().map(|policy| told(&policy.policy, policy.reason.as_deref())).collect();
    let by = by.join("; ");
    let why = match refused.cause() {
        Cause::Forbidden => format!("is forbidden by {by}"),
        Cause::NotPermitted => "is permitted by no policy".to_owned(),
        Cause::ErrorInPolicy { .. } => format!("cannot be decided: there is an error in {by}"),
        Cause::UnknownTool => "is a tool that the policies do not know".to_owned(),
        Cause::Arguments { reason } => format!("cannot be decided: its arguments have {reason}"),
        Cause::Engine { .. } => "cannot be decided by the policies".to_owned(),
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

fn told(policy: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| format!("policy `{policy}`"), |reason| format!("policy `{policy}`: {reason}"))
}
