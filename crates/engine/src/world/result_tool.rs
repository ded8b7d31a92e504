//! The gateway's one tool of its own: it fetches what a long work ended with, for clients that do not know tasks. It has a
//! contract like any tool and goes through the gates like any call; only who performs it is the engine itself.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use servanda_catalog::{Availability, ListedTool};
use servanda_contract::document;
use servanda_gates::{CompiledContract, Permit, RegisteredContracts, admit};

/// Its exposed name.
pub(crate) const RESULT_TOOL: &str = "servanda__result";

/// What a caller wants of it.
#[derive(Debug, Deserialize)]
pub(crate) struct ResultToolArgs {
    /// Which work.
    pub(crate) handle: String,
    /// How long to wait for its end.
    #[serde(default)]
    pub(crate) wait_ms: u64,
}

/// Its contract and how it is listed; none if the contract that is part of this program is not one, which a test looks after.
pub(crate) fn result_tool() -> Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)> {
    static TOOL: OnceLock<Option<(Arc<CompiledContract>, Arc<ListedTool>)>> = OnceLock::new();
    TOOL.get_or_init(|| {
        let contract = document::read("result_tool.yaml", include_str!("result_tool.yaml")).ok()?;
        let contract = admit(contract, &RegisteredContracts::new()).ok()?;
        let listed = ListedTool::render(RESULT_TOOL, &contract, Availability::Available).ok()?;
        Some((Arc::new(contract), Arc::new(listed)))
    })
    .as_ref()
}

/// What a permitted call wants; its arguments keep the contract.
pub(crate) fn result_tool_args(permit: &Permit) -> Option<ResultToolArgs> {
    serde_json::from_slice(permit.arguments().bytes()).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_contract_is_one_that_is_admitted() {
        let (contract, listed) = super::result_tool().expect("admitted");
        assert!(!contract.contract().effect_class().mutates());
        let listed: serde_json::Value = serde_json::from_str(listed.definition.get()).unwrap();
        assert_eq!(
            (&listed["name"], &listed["annotations"]["readOnlyHint"]),
            (&"servanda__result".into(), &true.into())
        );
        assert!(listed.get("outputSchema").is_none(), "what it answers is another tool's result");
    }
}
