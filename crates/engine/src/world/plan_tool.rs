//! The gateway's own tool by which an agent proposes a plan: several calls that a person allows at once. It has a contract like any tool and
//! passes the gates like any call, but the engine itself performs it (`call/proposing`).

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_approval::CostCeiling;
use servanda_catalog::{Availability, ListedTool};
use servanda_contract::ToolContract;
use servanda_gates::{CompiledContract, Permit, RegisteredContracts, admit};

/// The exposed name of the tool.
pub(crate) const PLAN_TOOL: &str = "servanda__propose_plan";

/// The arguments of a call of this tool.
#[derive(Debug, Deserialize)]
pub(crate) struct PlanToolArgs {
    /// What the plan is for, in the words of the agent.
    pub(crate) purpose: String,
    /// The calls.
    pub(crate) calls: Vec<PlannedToolCall>,
    /// For how many days.
    #[serde(default = "one_day")]
    pub(crate) days: u32,
    /// The most that all calls together may cost.
    #[serde(default)]
    pub(crate) cost_max: Option<CostCeiling>,
}

/// A call of a plan, as the agent proposes it.
#[derive(Debug, Deserialize)]
pub(crate) struct PlannedToolCall {
    /// The exposed name.
    pub(crate) tool: String,
    arguments: Box<RawValue>,
    /// How many times.
    pub(crate) times: u32,
}

impl PlannedToolCall {
    /// The arguments, as they stand in the canonical bytes of the proposal.
    pub(crate) fn arguments(&self) -> Bytes {
        Bytes::copy_from_slice(self.arguments.get().as_bytes())
    }
}

const fn one_day() -> u32 {
    1
}

/// The tool's contract and its listing; none if the contract in this program is invalid, which a test excludes.
pub(crate) fn plan_tool() -> Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)> {
    static TOOL: OnceLock<Option<(Arc<CompiledContract>, Arc<ListedTool>)>> = OnceLock::new();
    TOOL.get_or_init(|| {
        let contract = ToolContract::from_document("plan_tool.yaml", include_str!("plan_tool.yaml")).ok()?;
        let contract = admit(contract, &RegisteredContracts::new()).ok()?;
        let listed = ListedTool::render(PLAN_TOOL, &contract, Availability::Available).ok()?;
        Some((Arc::new(contract), Arc::new(listed)))
    })
    .as_ref()
}

/// The arguments of a permitted call, which keep the contract.
pub(crate) fn plan_tool_args(permit: &Permit) -> Option<PlanToolArgs> {
    serde_json::from_slice(permit.arguments().bytes()).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_contract_is_one_that_is_admitted() {
        let (contract, listed) = super::plan_tool().expect("admitted");
        assert!(!contract.contract().effect_class().mutates());
        let listed: serde_json::Value = serde_json::from_str(listed.definition.get()).unwrap();
        assert_eq!(listed["name"], "servanda__propose_plan");
        assert!(listed.get("outputSchema").is_none());
    }
}
