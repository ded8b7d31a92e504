//! Gate 6, behaviour: the tool is of the expected kind, and its arguments would do only what such a tool may
//! do.
//!
//! The expectation comes with the call: from its task, its stated intent, a rule of the operator, or an earlier
//! call. Without an expectation nothing is compared. Deliberately not here: which other tools would fit, which
//! only the catalog knows.

use servanda_contract::{
    GateName, Refusal, TaxonomyClass, ToolContract,
    expectation::{BehaviourPattern, Expectation},
    refusal::EffectKnowledge,
};

use crate::{resolve::ToolExpectation, semantics::CanonicalCall, structure};

/// Evidence: the tool, and what its arguments would do, meet the expectations.
#[derive(Debug)]
pub(crate) struct FittingCall {
    pub(crate) meant: CanonicalCall,
}

pub(crate) fn gate(meant: CanonicalCall) -> Result<FittingCall, Box<Refusal>> {
    let contract = meant.resolved.contract.contract();
    for expected in &meant.resolved.expectations {
        let (message, hint) = match expected {
            ToolExpectation::Known(expectation) if expectation.is_met_by(contract) => continue,
            ToolExpectation::Known(expectation) => mismatch(&meant.resolved.proposal.tool, contract, expectation),
            ToolExpectation::Unclear { message, hint } => (message.clone(), hint.clone()),
        };
        return Err(refuse(&meant, message, hint));
    }
    let errors = meant.resolved.contract.programs().violations(contract, &meant.arguments);
    if errors.is_empty() {
        return Ok(FittingCall { meant });
    }
    let hint = "this tool only reads: use a tool that is made for changes, if the change is really wanted".to_owned();
    let class = TaxonomyClass::SemanticInvalidity;
    Err(structure::refuse(&meant.resolved, GateName::Behaviour, class, errors, hint))
}

/// The identity of a tool, in words: `PURE|READ|DATA (3f…)`.
fn in_words(contract: &ToolContract) -> String {
    let mutability = contract.mutability().word();
    contract.behaviour.as_ref().map_or_else(
        || format!("{mutability}, and declares no more"),
        |behaviour| format!("{} ({})", behaviour.words(), behaviour.identity()),
    )
}

fn mismatch(tool: &str, contract: &ToolContract, expectation: &Expectation) -> (String, String) {
    let allowed: Vec<String> = expectation.allowed.iter().map(BehaviourPattern::to_string).collect();
    let allowed = if allowed.is_empty() { "nothing at all".to_owned() } else { allowed.join(" or ") };
    let message = format!("`{tool}` is {}; {} expects {allowed}", in_words(contract), expectation.source);
    (message, "choose a tool of the kind that is expected, or ask the user what is meant".to_owned())
}

fn refuse(meant: &CanonicalCall, message: String, hint: String) -> Box<Refusal> {
    let call_id = meant.resolved.proposal.call_id.clone();
    let class = TaxonomyClass::SemanticInvalidity;
    Box::new(Refusal::new(call_id, GateName::Behaviour, class, message, hint).with_effect(EffectKnowledge::None))
}
