//! What a failure at the upstream means to the caller: the class, what is known about the outside world, and whether the
//! same call may be made again. A pure table: only what provably never ran is called not executed.

use servanda_contract::{
    CallId, GateName, Refusal, TaxonomyClass,
    record::Outcome,
    refusal::EffectKnowledge,
    tool::{EffectClass, ToolContract},
};
use servanda_upstream::PerformFailure;

/// The refusal a failure becomes, and the outcome to record.
pub(crate) fn interpret(call_id: &CallId, contract: &ToolContract, failure: &PerformFailure) -> (Refusal, Outcome) {
    let class = class(contract, failure);
    let (effect, outcome) = knowledge(contract.effect_class(), failure);
    let hint = hint(failure, effect);
    let mut refusal =
        Refusal::new(call_id.clone(), GateName::Perform, class, failure.to_string(), hint).with_effect(effect);
    // Not executed, or nothing to execute twice: then, and only then, the same call may be made again.
    refusal.retryable = effect == EffectKnowledge::None && !matches!(failure, PerformFailure::Cancelled { .. });
    if effect == EffectKnowledge::Unknown {
        refusal.fail_closed = true;
        refusal.escalate = true;
        refusal.next_action = servanda_contract::taxonomy::NextAction::EscalateToOperator;
    }
    (refusal, outcome)
}

fn class(contract: &ToolContract, failure: &PerformFailure) -> TaxonomyClass {
    match failure {
        PerformFailure::TimedOut { .. } => TaxonomyClass::Timeout,
        PerformFailure::Unavailable { .. }
        | PerformFailure::Died { .. }
        | PerformFailure::Cancelled { .. }
        | PerformFailure::HttpStatus { .. } => TaxonomyClass::DependencyUnavailable,
        PerformFailure::Busy { .. } => TaxonomyClass::RateLimited,
        PerformFailure::TooLarge { .. } | PerformFailure::Malformed { .. } => TaxonomyClass::ObservationNormalizationFail,
        PerformFailure::Rejected { code, message, .. } => {
            mapped(contract, &code.to_string()).or_else(|| mapped_in_text(contract, message)).unwrap_or(TaxonomyClass::UnknownError)
        }
    }
}

/// After the first byte nobody knows, a clean error included; a tool that changes nothing leaves nothing to know.
fn knowledge(effect_class: EffectClass, failure: &PerformFailure) -> (EffectKnowledge, Outcome) {
    if failure.provably_not_executed() {
        (EffectKnowledge::None, Outcome::NotExecuted)
    } else if !effect_class.mutates() {
        (EffectKnowledge::None, Outcome::ToolError)
    } else {
        (EffectKnowledge::Unknown, Outcome::Unknown)
    }
}

fn hint(failure: &PerformFailure, effect: EffectKnowledge) -> String {
    match (effect, failure) {
        (EffectKnowledge::Unknown, _) => {
            "it may or may not have happened: do not send it again; look at the target with a read-only tool, or ask a person".to_owned()
        }
        (_, PerformFailure::Unavailable { .. }) => {
            "nothing was sent; try again later, or use another tool (operators: `servanda doctor`)".to_owned()
        }
        (_, PerformFailure::Busy { .. }) => "nothing was sent; wait a moment and try again".to_owned(),
        (_, PerformFailure::TimedOut { .. }) => "nothing was changed; ask for less, or try again later".to_owned(),
        (_, PerformFailure::TooLarge { .. }) => "nothing was changed; ask for less at a time".to_owned(),
        (_, PerformFailure::Cancelled { .. }) => "nothing was changed; call again if it is still wanted".to_owned(),
        (_, PerformFailure::Rejected { .. }) => "read the upstream's message and correct the call if it says how".to_owned(),
        (_, PerformFailure::Died { .. } | PerformFailure::HttpStatus { .. } | PerformFailure::Malformed { .. }) => {
            "nothing was changed; try again, and tell a person if it stays (operators: `servanda doctor`)".to_owned()
        }
    }
}

/// The taxonomy class the contract maps an upstream's own code to.
fn mapped(contract: &ToolContract, code: &str) -> Option<TaxonomyClass> {
    contract.observability.error_taxonomy_mapping.get(code).and_then(|name| TaxonomyClass::from_name(name))
}

/// The taxonomy class of the first mapped text that occurs in an upstream's message.
pub(crate) fn mapped_in_text(contract: &ToolContract, message: &str) -> Option<TaxonomyClass> {
    let message = message.to_lowercase();
    let mapping = &contract.observability.error_taxonomy_mapping;
    mapping
        .iter()
        .find(|(text, _)| !text.is_empty() && message.contains(&text.to_lowercase()))
        .and_then(|(_, name)| TaxonomyClass::from_name(name))
}
