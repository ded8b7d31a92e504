//! `servanda policy explain`: what gate 8 decided about a recorded call and because of which policies, and what the current policies would
//! decide.

use std::{fmt::Write as _, io::Read as _, path::Path};

use bytes::Bytes;
use serde_json::json;
use servanda_approval::{ApprovalDemand, ApprovalSettings};
use servanda_contract::{
    CallRecord, Digest, GateName,
    digest::DigestDomain,
    json::CanonicalBytes,
    record::{Decision, PolicyRecord},
};
use servanda_engine::{Authorities, RecordedPolicyRequest};
use servanda_policy::{ApprovalQuestion, DecidingPolicy, Outlook, Policies, PolicyCall, PolicyExplanation};

use super::{
    PolicyCommandContext,
    recorded_calls::{RecordedCalls, canonical},
};
use crate::{
    failure::CommandFailure,
    screen::{Screen, TextStyle, paint},
};

/// How many bytes of arguments are read.
const ARGUMENTS_BYTES_MAX: u64 = 16 << 20;

/// The source of the arguments.
enum ExplainedArguments {
    Given { bytes: Bytes, canonical: CanonicalBytes },
    OfEffect(CanonicalBytes),
    Unknown,
}

/// What the current policies would decide.
enum CurrentPolicyDecision {
    Explained(PolicyExplanation),
    Foreseen {
        outlook: Outlook,
        /// The approval that the call would need, if it is certainly allowed with one.
        approval: Option<Box<ApprovalDemand>>,
        /// For a call that nothing permits: the permits that were considered, and which of their conditions are not met.
        lacking: Option<PolicyExplanation>,
    },
    /// The call never reached the policies, or the caller cannot be described to them.
    NotAsked(String),
}

pub(super) async fn run(
    context: &PolicyCommandContext<'_>,
    call_id: &str,
    arguments: Option<&Path>,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let authorities = context.authorities()?;
    let given = arguments.map(read).transpose()?;
    let calls = RecordedCalls::open(context).await?;
    let found = look_up(&calls, call_id, given).await;
    calls.close().await;
    let (record, arguments) = found?;
    let in_force = (authorities.policies(), authorities.approvals());
    let present = present(context, in_force, &record, &arguments);
    if screen.json {
        return screen.json(&as_json(&record, &present));
    }
    screen.page(page(&authorities, &record, &arguments, &present))?;
    if matches!(&present, CurrentPolicyDecision::Foreseen { outlook: Outlook::Depends { .. }, .. }) {
        screen.hint(format_args!(
            "servanda policy explain {} --arguments FILE decides it again with them",
            record.call_id
        ));
    }
    Ok(())
}

async fn look_up(
    calls: &RecordedCalls,
    call_id: &str,
    given: Option<ExplainedArguments>,
) -> Result<(CallRecord, ExplainedArguments), CommandFailure> {
    let record = calls.by_id(call_id).await?;
    let arguments = match given {
        Some(given) => given,
        None => calls.arguments(&record).await?.map_or(ExplainedArguments::Unknown, ExplainedArguments::OfEffect),
    };
    Ok((record, arguments))
}

fn read(file: &Path) -> Result<ExplainedArguments, CommandFailure> {
    let mut bytes = Vec::new();
    let unreadable = |error: std::io::Error| {
        CommandFailure::bad_input(format!("cannot read the arguments in `{}`: {error}", file.display()))
    };
    if file == Path::new("-") {
        std::io::stdin().take(ARGUMENTS_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        opened.take(ARGUMENTS_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    let bytes = Bytes::from(bytes.trim_ascii().to_vec());
    let canonical = canonical(&bytes).ok_or_else(|| {
        CommandFailure::bad_input("the arguments are not a JSON object")
            .hint("give them as the client sent them: '{...}'")
    })?;
    Ok(ExplainedArguments::Given { bytes, canonical })
}

fn present(
    context: &PolicyCommandContext<'_>,
    (policies, approvals): (&Policies, &ApprovalSettings),
    record: &CallRecord,
    arguments: &ExplainedArguments,
) -> CurrentPolicyDecision {
    let recalled = match RecordedPolicyRequest::from_record(record, policies.vocabulary(), context.environment()) {
        Ok(Some(recalled)) => recalled,
        Ok(None) => {
            return CurrentPolicyDecision::NotAsked(
                "the call never reached the policies: an earlier stage ended it".to_owned(),
            );
        }
        Err(error) => return CurrentPolicyDecision::NotAsked(error.to_string()),
    };
    let RecordedPolicyRequest { principal, tool, circumstances, groups_known } = &recalled;
    let looking = policies.look_at_groups(tool);
    if !groups_known && !looking.is_empty() {
        let by = looking.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
        return CurrentPolicyDecision::NotAsked(format!(
            "it is not known: the record lacks the caller's groups, and {by} look at them"
        ));
    }
    match arguments {
        ExplainedArguments::Given { canonical: arguments, .. } | ExplainedArguments::OfEffect(arguments) => {
            let call = PolicyCall { principal, tool, arguments, circumstances };
            CurrentPolicyDecision::Explained(policies.explain(&call, approvals))
        }
        ExplainedArguments::Unknown => {
            let outlook = policies.outlook(principal, tool, circumstances);
            let is_lacking =
                matches!(&outlook, Outlook::Certain(decision) if !decision.is_allowed() && decision.by().is_empty());
            let nothing = is_lacking.then(|| canonical(&Bytes::from_static(b"{}"))).flatten();
            let explained = nothing.map(|arguments| {
                policies.explain(&PolicyCall { principal, tool, arguments: &arguments, circumstances }, approvals)
            });
            let program_class = circumstances.program_class;
            let question = ApprovalQuestion { principal, tool, program_class, payload: None };
            let approval = match &outlook {
                Outlook::Certain(decision) => policies.approval_needed(decision, &question, approvals).map(Box::new),
                Outlook::Depends { .. } => None,
            };
            CurrentPolicyDecision::Foreseen {
                outlook,
                approval,
                lacking: explained.filter(|explanation| !explanation.allowed),
            }
        }
    }
}

fn page(
    authorities: &Authorities,
    record: &CallRecord,
    arguments: &ExplainedArguments,
    present: &CurrentPolicyDecision,
) -> String {
    let mut lines = vec![format!("{}  {}", paint(record.call_id.as_str(), TextStyle::Strong), record.tool)];
    lines.extend(then(authorities, record));
    lines.push(String::new());
    lines.push("what the policies in force would say now".to_owned());
    match present {
        CurrentPolicyDecision::NotAsked(why) => lines.push(format!("  nothing: {why}")),
        CurrentPolicyDecision::Explained(explanation) => {
            lines.push(format!("  {}", source(record, arguments)));
            lines.extend(explanation.to_string().lines().map(|line| format!("  {line}")));
        }
        CurrentPolicyDecision::Foreseen { outlook: Outlook::Certain(decision), approval, lacking } => {
            let word = verdict(decision.is_allowed(), approval.as_deref());
            let contract = record.contract.as_ref().map_or("", |contract| contract.name.as_str());
            let whatever = if authorities.policies().vocabulary().program_decides_class(contract) {
                "for a program of this class, whatever else its arguments were"
            } else {
                "whatever its arguments were"
            };
            lines.push(format!("  {word}, {whatever}"));
            lines.extend(decision.by().iter().map(|by| policy_line(&by.policy, Some(by))));
            let looked_at = lacking
                .iter()
                .flat_map(|explanation| explanation.to_string().lines().map(str::to_owned).collect::<Vec<_>>());
            lines.extend(looked_at.map(|line| format!("  {line}")));
        }
        CurrentPolicyDecision::Foreseen { outlook: Outlook::Depends { on }, .. } => {
            lines.push("  it depends on the call's arguments, which are not on record".to_owned());
            lines.extend(on.iter().map(|id| policy_line_by_id(authorities, id)));
        }
    }
    lines.join("\n")
}

/// What was decided then, from the record.
fn then(authorities: &Authorities, record: &CallRecord) -> Vec<String> {
    let verdict = record.verdicts.iter().rfind(|verdict| verdict.gate == GateName::Policy);
    let Some((verdict, policy)) = verdict.zip(record.policy.as_ref()) else {
        return vec!["  it never reached the policies".to_owned()];
    };
    let word = if verdict.decision == Decision::Passed { "allowed" } else { "refused" };
    let mut lines = vec![format!("  {word} by the policies at {}", record.received_at)];
    lines.extend(policy.by.as_slice().iter().map(|id| policy_line_by_id(authorities, id)));
    lines.extend(shadow(authorities, policy));
    lines
}

fn shadow(authorities: &Authorities, policy: &PolicyRecord) -> Vec<String> {
    let Some(shadow) = &policy.shadow else { return Vec::new() };
    let cause = shadow.cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
    let mut lines = vec![format!("  in shadow, deciding nothing: would have {}{cause}", shadow.would_have.word())];
    lines.extend(shadow.by.as_slice().iter().map(|id| policy_line_by_id(authorities, id)));
    lines
}

fn policy_line_by_id(authorities: &Authorities, id: &str) -> String {
    let in_shadow = || authorities.shadow().and_then(|shadow| shadow.policies().deciding_policy(id));
    policy_line(id, authorities.policies().deciding_policy(id).or_else(in_shadow))
}

fn policy_line(id: &str, known: Option<&DecidingPolicy>) -> String {
    let mut line = format!("    by `{id}`");
    // Writing to a string cannot fail.
    let _ = match known {
        Some(DecidingPolicy { place, reason, approval, .. }) => {
            let approval = approval.as_ref().map_or_else(String::new, |approval| format!(", {}", approval.describe()));
            let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            write!(line, " ({place}){approval}{reason}")
        }
        None => write!(line, " (not among the present policies)"),
    };
    line
}

fn verdict(is_allowed: bool, approval: Option<&ApprovalDemand>) -> String {
    match approval {
        Some(demand) => format!("allowed, with approval by {}", demand.describe()),
        None if is_allowed => "allowed".to_owned(),
        None => "refused".to_owned(),
    }
}

fn source(record: &CallRecord, arguments: &ExplainedArguments) -> &'static str {
    match arguments {
        ExplainedArguments::Given { bytes, .. } => {
            let digest = Digest::compute(DigestDomain::Arguments, &[record.tool.as_bytes(), bytes]);
            if digest == record.arguments_digest {
                "with the arguments that were given: by their digest they are the call's own"
            } else {
                "with the arguments that were given: they are not, byte for byte, the call's own"
            }
        }
        _ => "with the call's arguments, which its effect keeps because its outcome is unknown",
    }
}

fn as_json(record: &CallRecord, present: &CurrentPolicyDecision) -> serde_json::Value {
    let now = match present {
        CurrentPolicyDecision::Explained(explanation) => json!({ "decided": explanation }),
        CurrentPolicyDecision::Foreseen { outlook: Outlook::Certain(decision), approval, .. } => {
            let mut certain = json!({ "allowed": decision.is_allowed(), "by": decision.by() });
            if let (Some(members), Some(demand)) = (certain.as_object_mut(), approval) {
                members.insert("approval".to_owned(), json!(demand));
            }
            json!({ "whatever_the_arguments": certain })
        }
        CurrentPolicyDecision::Foreseen { outlook: Outlook::Depends { on }, .. } => {
            json!({ "depends_on_arguments": { "by": on } })
        }
        CurrentPolicyDecision::NotAsked(why) => json!({ "not_asked": why }),
    };
    let verdict = record.verdicts.iter().rfind(|verdict| verdict.gate == GateName::Policy);
    json!({
        "call_id": record.call_id,
        "tool": record.tool,
        "verdict": verdict.map(|verdict| verdict.decision),
        "policy": record.policy,
        "now": now,
    })
}
