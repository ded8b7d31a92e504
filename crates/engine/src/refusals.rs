//! The engine's own refusals, in words: no such tool, no upstream, a ledger too slow, an answer kept back.

use servanda_catalog::{Hold, NotResolved};
use servanda_contract::{
    CallId, GateName, Proposal, Refusal, TaxonomyClass, refusal::EffectKnowledge, taxonomy::EnvelopeCode,
};
use servanda_gates::Fenced;

use crate::observe::Broken;

pub(crate) fn not_resolved(proposal: &Proposal, reason: NotResolved) -> Refusal {
    let call_id = proposal.call_id.clone();
    let shown: String = proposal.tool.chars().take(128).collect();
    match reason {
        NotResolved::Unknown { did_you_mean } => {
            let hint = match did_you_mean {
                Some(name) => format!("did you mean `{name}`? `tools/list` has every tool there is"),
                None => "call a tool that `tools/list` has".to_owned(),
            };
            let message = format!("there is no tool `{shown}`");
            let mut refusal =
                Refusal::new(call_id, GateName::Resolve, TaxonomyClass::StructuralViolation, message, hint);
            refusal.envelope_code = EnvelopeCode::ToolNotFound;
            refusal
        }
        NotResolved::Withdrawn { upstream } => Refusal::new(
            call_id,
            GateName::Resolve,
            TaxonomyClass::DependencyUnavailable,
            format!("`{shown}` has a contract, but the upstream `{upstream}` does not offer it any more"),
            "use another tool; operators: `servanda tools` shows what each upstream offers".to_owned(),
        ),
        NotResolved::Held { hold } => held(call_id, &shown, &hold),
    }
}

/// A tool that is held back. What its server wrote is the reason and must not reach the agent by way of the refusal: only
/// operators are shown it.
fn held(call_id: CallId, tool: &str, hold: &Hold) -> Refusal {
    let review = format!("operators: `servanda diff {tool}` shows it, `servanda pin {tool}` agrees to it");
    let (class, why, operators) = match hold {
        Hold::Quarantined { severity, .. } => (
            TaxonomyClass::PolicyViolation,
            format!("its definition at the upstream changed since somebody agreed to it ({} change)", severity.word()),
            review,
        ),
        Hold::Unpinned => (
            TaxonomyClass::PolicyViolation,
            "nobody has agreed to its definition at the upstream yet".to_owned(),
            review,
        ),
        Hold::Rejected { .. } => (
            TaxonomyClass::PolicyViolation,
            "its definition at the upstream cannot be used".to_owned(),
            format!("operators: `servanda diff {tool}` says why; tell the server's author"),
        ),
        Hold::Incompatible { reasons } => (
            TaxonomyClass::DependencyUnavailable,
            format!("it does not take what its contract says ({})", counted(reasons.len(), "difference")),
            format!("operators: `servanda diff {tool}` says where; correct the contract"),
        ),
    };
    let message = format!("`{tool}` is held back: {why}");
    Refusal::new(call_id, GateName::Resolve, class, message, format!("use another tool; {operators}"))
}

fn counted(number: usize, thing: &str) -> String {
    if number == 1 { format!("one {thing}") } else { format!("{number} {thing}s") }
}

pub(crate) fn quarantined(fenced: &Fenced, broken: Broken) -> Refusal {
    let mutates = fenced.effect_class().mutates();
    let effect = if mutates { EffectKnowledge::Happened } else { EffectKnowledge::None };
    let happened = if mutates { "; the effect happened, do not repeat the call" } else { "" };
    Refusal::new(
        fenced.call_id().clone(),
        GateName::Observe,
        TaxonomyClass::ObservationNormalizationFail,
        format!("the upstream's answer {}{happened}", broken.message),
        format!(
            "the answer was kept back; a person can look at it with `servanda explain {} --quarantined`",
            fenced.call_id()
        ),
    )
    .with_field_errors(broken.errors)
    .with_effect(effect)
}

/// A contract whose upstream is not configured.
pub(crate) fn no_upstream(call_id: CallId, id: &str) -> Box<Refusal> {
    Box::new(Refusal::new(
        call_id,
        GateName::Perform,
        TaxonomyClass::DependencyUnavailable,
        format!("no upstream `{id}` is configured"),
        "operators: add the upstream to servanda.yaml; `servanda check` finds such contracts".to_owned(),
    ))
}

/// A call that could not be put on record in the time it had.
pub(crate) fn fence_too_slow(call_id: CallId) -> Box<Refusal> {
    Box::new(Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::DependencyUnavailable,
        "the call could not be put on record in time, so it was not sent".to_owned(),
        "try again later; operators: `servanda doctor` looks at the ledger".to_owned(),
    ))
}
