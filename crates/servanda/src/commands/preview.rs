//! Shows the preview of a dry run. `call` makes it; this module only writes it for a person.

use serde::Deserialize;
use serde_json::Value;
use servanda_contract::{
    CallPreview,
    preview::{
        ApprovalStanding, PreconditionStanding, PredictedEffects, PreviewedApproval, PreviewedDecision,
        PreviewedOperation, UpstreamPreview,
    },
    tool::{EffectClass, MutationClass, SideEffectOperation},
};

use crate::{failure::CommandFailure, screen::Screen};

/// The answer of a dry run: a sentence, and the preview.
#[derive(Deserialize)]
struct AnsweredPreview {
    content: [PreviewText; 2],
}

#[derive(Deserialize)]
struct PreviewText {
    text: String,
}

/// Shows the answer of a dry run. Fails if the call would not be sent now.
pub(super) fn show(json: &str, screen: Screen) -> Result<(), CommandFailure> {
    let unreadable = |error: serde_json::Error| CommandFailure::failed(format!("the preview cannot be read: {error}"));
    let AnsweredPreview { content: [_, whole] } = serde_json::from_str(json).map_err(unreadable)?;
    let preview: CallPreview = serde_json::from_str(&whole.text).map_err(unreadable)?;
    if screen.json {
        screen.json(&serde_json::from_str::<Value>(json).map_err(unreadable)?)?;
    } else {
        lines(&preview).into_iter().try_for_each(|line| screen.data(line))?;
    }
    if preview.verdict.passes() {
        return Ok(());
    }
    let hint = format!("servanda explain {}", preview.call_id);
    Err(CommandFailure::would_not_pass("the call would not be sent now").hint(hint))
}

fn lines(preview: &CallPreview) -> Vec<String> {
    let mut lines = vec![preview.summary.clone()];
    let mut add = |label: &str, text: String| lines.push(format!("  {label:<13} {text}"));
    let decided = preview.gates.iter().filter(|gate| gate.decision != PreviewedDecision::Pass);
    for gate in decided {
        add(&gate.gate.to_string(), decision_in_words(gate.decision).to_owned());
    }
    if let Some(effects) = &preview.effects {
        for (label, text) in effect_lines(effects) {
            add(label, text);
        }
    }
    if let Some(approval) = &preview.approval {
        add("approval", approval_in_words(approval));
    }
    for precondition in &preview.preconditions {
        let why = precondition.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let standing = standing_in_words(precondition.standing);
        add("precondition", format!("{} {standing}{why}", precondition.id));
    }
    preview.cost.iter().for_each(|cost| add("cost", format!("at most {cost}")));
    for budget in &preview.budgets {
        let room = if budget.has_room { "" } else { ", which is not enough" };
        add("budget", format!("{}: draws {}, {} left{room}", budget.account, budget.draws, budget.left));
    }
    preview.operation.iter().for_each(|operation| add("operation", operation_in_words(*operation).to_owned()));
    for refusal in &preview.refusals {
        let message = refusal.message.clone().unwrap_or_else(|| {
            let errors = refusal.field_errors.iter();
            errors.map(|error| format!("{} must be {}", error.pointer, error.expected)).collect::<Vec<_>>().join("; ")
        });
        add("refused", format!("at {}: {message}", refusal.gate));
        refusal.hint.iter().for_each(|hint| add("repair", hint.clone()));
    }
    match &preview.upstream_preview {
        Some(UpstreamPreview::Said(said)) => add("upstream", said.to_string()),
        Some(UpstreamPreview::NotAvailable(why)) => add("upstream", format!("said nothing: {why}")),
        None => {}
    }
    lines
}

fn effect_lines(effects: &PredictedEffects) -> Vec<(&'static str, String)> {
    let undone = match effects.mutation_class {
        Some(MutationClass::ReadOnly) => ", changes nothing",
        Some(MutationClass::WriteReversible) => ", can be undone",
        Some(MutationClass::WriteIrreversible) => ", cannot be undone",
        None => "",
    };
    let class = match effects.effect_class {
        EffectClass::R => "R",
        EffectClass::K => "K",
        EffectClass::Q => "Q",
        EffectClass::N => "N",
    };
    let mut lines = vec![("class", format!("{}, effect class {class}{undone}", effects.side_effect_class.word()))];
    for change in &effects.changes {
        let operation = match change.operation {
            SideEffectOperation::Create => "creates",
            SideEffectOperation::Update => "changes",
            SideEffectOperation::Delete => "deletes",
        };
        lines.push(("effect", format!("{operation} {} ({})", change.resource, change.scope)));
    }
    lines.extend(effects.consequence.iter().map(|text| ("consequence", text.clone())));
    lines.extend(effects.expected_after.iter().map(|text| ("afterwards", text.clone())));
    lines.extend(effects.compensation_tool.iter().map(|tool| ("undone by", tool.clone())));
    lines
}

const fn decision_in_words(decision: PreviewedDecision) -> &'static str {
    match decision {
        PreviewedDecision::Pass => "would pass",
        PreviewedDecision::Wait => "would wait for people",
        PreviewedDecision::Refuse => "would refuse",
        PreviewedDecision::NotReached => "not reached",
        PreviewedDecision::Unknown => "cannot be asked now",
    }
}

fn approval_in_words(approval: &PreviewedApproval) -> String {
    let standing = match approval.standing {
        ApprovalStanding::NotAsked => "not asked for yet",
        ApprovalStanding::Pending => "waiting for a decision",
        ApprovalStanding::Approved => "given, and not used yet",
        ApprovalStanding::Denied => "denied by a person",
        ApprovalStanding::Unknown => "cannot be looked up now",
    };
    let ticket = approval.ticket.as_ref().map_or_else(String::new, |ticket| format!(" ({ticket})"));
    format!("by {}, because {}: {standing}{ticket}", approval.by, approval.because)
}

const fn standing_in_words(standing: PreconditionStanding) -> &'static str {
    match standing {
        PreconditionStanding::Holds => "holds",
        PreconditionStanding::DoesNotHold => "does not hold",
        PreconditionStanding::NotKnown => "could not be checked",
    }
}

const fn operation_in_words(operation: PreviewedOperation) -> &'static str {
    match operation {
        PreviewedOperation::NoKey => "no key: each repetition is another operation",
        PreviewedOperation::New => "new",
        PreviewedOperation::Done => "done already; its answer is stored",
        PreviewedOperation::UnderWay => "under way",
        PreviewedOperation::OutcomeUnknown => "sent before; its outcome is unknown",
        PreviewedOperation::Conflict => "the key was used for other arguments",
        PreviewedOperation::Expired => "the key was used, and its answer is no longer stored",
        PreviewedOperation::Unknown => "cannot be looked up now",
    }
}
