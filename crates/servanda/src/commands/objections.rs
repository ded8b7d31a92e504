//! Tools that seem to do more than their contracts say, as people are told of them: who objects, why, and what to do.
//!
//! What can be said without starting anything stands on the definition that was agreed to; where there is none, nobody is heard.

use servanda_catalog::{pins::LockFile, review};
use servanda_contract::{ToolContract, legibility::reveal};
use servanda_identity::classifier::{Objection, ReviewOutcome};

/// What to do about an objection.
pub(crate) const NEXT_STEP: &str =
    "correct `effect` and `behaviour` in its contract, or answer there with `behaviour.reviewed: \"why it is right\"`";

/// Hears what is known here about a contract.
pub(crate) fn review_offline(contract: &ToolContract, lock: Option<&LockFile>) -> ReviewOutcome {
    let binding = &contract.binding;
    let pin = lock.and_then(|lock| lock.pin(&binding.upstream, &binding.tool));
    pin.map_or(ReviewOutcome::Unclear, |pin| review(contract, &pin.definition))
}

/// An objection in one line; what a server wrote is made visible in it.
pub(crate) fn sentence(objection: &Objection) -> String {
    reveal(&objection.to_string()).replace(['\n', '\r', '\t'], " ")
}

/// Several of them.
pub(crate) fn sentences(objections: &[Objection]) -> String {
    objections.iter().map(sentence).collect::<Vec<_>>().join("; ")
}
