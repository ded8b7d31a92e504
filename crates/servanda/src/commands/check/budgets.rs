//! Budgets that may count less than their author expects: one for a tool that is counted in another dimension, and one for `write` beside
//! tools with graver changes. These are notes and not errors: both have a meaning, and only the author knows whether it is intended.

use servanda_contract::tool::SideEffectClass;
use servanda_effects::budget::BudgetDimension;
use servanda_gates::{CompiledContract, budget::Allowance};

use super::short_list;

/// One note for each such budget.
pub(super) fn notes(admitted: &[CompiledContract], allowances: &[Allowance]) -> Vec<String> {
    let of_single_tools = allowances.iter().filter_map(|allowance| counts_nothing(admitted, allowance));
    of_single_tools.chain(graver_than_writes(admitted, allowances)).collect()
}

fn counts_nothing(admitted: &[CompiledContract], allowance: &Allowance) -> Option<String> {
    let name = allowance.only.tool.as_ref()?;
    let dimension = allowance.dimension;
    if dimension == BudgetDimension::Financial {
        return None;
    }
    let (dimension, contract) = (dimension.name(), contract(admitted, name));
    let Some(contract) = contract else {
        return Some(format!("the budget for `{dimension}` of `{name}` counts nothing: no contract has that name"));
    };
    let counted = contract.contract().transactional.side_effect_class;
    if allowance.dimension.counts(counted) || contract.program_decides_class() {
        return None;
    }
    let (class, counted) = (counted.word(), BudgetDimension::for_class(counted).name());
    Some(format!(
        "the budget for `{dimension}` of `{name}` counts nothing: the tool is {class}, which is counted as `{counted}`"
    ))
}

/// Tools that change something but that no budget counts, if there is a budget for `write`.
fn graver_than_writes(admitted: &[CompiledContract], allowances: &[Allowance]) -> Option<String> {
    let for_all = |dimension: BudgetDimension| {
        allowances.iter().any(|allowance| allowance.dimension == dimension && allowance.only.tool.is_none())
    };
    if !for_all(BudgetDimension::Write) || for_all(BudgetDimension::Change) || for_all(BudgetDimension::External) {
        return None;
    }
    let uncounted = |contract: &&CompiledContract| {
        let (name, class) = (&contract.contract().identity.name, contract.contract().transactional.side_effect_class);
        let has_own = |allowance: &Allowance| allowance.only.tool.as_ref() == Some(name);
        class == SideEffectClass::HighRiskExternal && !allowances.iter().any(has_own)
    };
    let names: Vec<String> =
        admitted.iter().filter(uncounted).map(|contract| contract.contract().identity.name.clone()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the budget for `write` does not count HIGH_RISK_EXTERNAL tools, and no other does (`dimension: change` counts every \
             change): {}",
            short_list(&names)
        )
    })
}

fn contract<'a>(admitted: &'a [CompiledContract], name: &str) -> Option<&'a CompiledContract> {
    admitted.iter().find(|contract| contract.contract().identity.name == name)
}
