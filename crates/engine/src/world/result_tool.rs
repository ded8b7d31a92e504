//! The gateway's own tool for results. It fetches the result of long work for clients that do not know tasks. It has a contract like any
//! tool and passes the gates like any call, but the engine itself performs it.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use servanda_catalog::{Availability, ListedTool};
use servanda_contract::ToolContract;
use servanda_gates::{CompiledContract, Permit, RegisteredContracts, admit};

/// The exposed name of the tool.
pub(crate) const RESULT_TOOL: &str = "servanda__result";

/// The arguments of a call of this tool.
#[derive(Debug, Deserialize)]
pub(crate) struct ResultToolArgs {
    /// The handle of the long work.
    pub(crate) handle: String,
    /// How long to wait for its end.
    #[serde(default)]
    pub(crate) wait_ms: u64,
}

/// The tool's contract and its listing; none if the contract in this program is invalid, which a test excludes.
pub(crate) fn result_tool() -> Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)> {
    static TOOL: OnceLock<Option<(Arc<CompiledContract>, Arc<ListedTool>)>> = OnceLock::new();
    TOOL.get_or_init(|| {
        let contract = ToolContract::from_document("result_tool.yaml", include_str!("result_tool.yaml")).ok()?;
        let contract = admit(contract, &RegisteredContracts::new()).ok()?;
        let listed = ListedTool::render(RESULT_TOOL, &contract, Availability::Available).ok()?;
        Some((Arc::new(contract), Arc::new(listed)))
    })
    .as_ref()
}

/// The arguments of a permitted call, which keep the contract.
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
        assert!(listed.get("outputSchema").is_none(), "its result is another tool's result");
    }
}
