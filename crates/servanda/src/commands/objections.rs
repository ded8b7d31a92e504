//! Messages about tools that seem to do more than their contracts say: who objects, why, and what to do.
//!
//! Without starting anything, objections are based on the pinned definition; without a pin, there are none.

use servanda_catalog::{pins::LockFile, review};
use servanda_contract::{ToolContract, legibility::reveal};
use servanda_identity::classifier::{Objection, ReviewOutcome};

/// What to do about an objection.
pub(crate) const NEXT_STEP: &str =
    "correct `effect` and `behaviour` in its contract, or answer there with `behaviour.reviewed: \"why it is right\"`";

/// Reviews a contract against its pinned definition.
pub(crate) fn review_offline(contract: &ToolContract, lock: Option<&LockFile>) -> ReviewOutcome {
    let binding = &contract.binding;
    let pin = lock.and_then(|lock| lock.pin(&binding.upstream, &binding.tool));
    pin.map_or(ReviewOutcome::Unclear, |pin| review(contract, &pin.definition))
}

/// An objection on one line, with hidden characters in the server's text made visible.
pub(crate) fn sentence(objection: &Objection) -> String {
    reveal(&objection.to_string()).replace(['\n', '\r', '\t'], " ")
}

/// Several objections.
pub(crate) fn sentences(objections: &[Objection]) -> String {
    objections.iter().map(sentence).collect::<Vec<_>>().join("; ")
}
