//! What the labels of a tool's series say about its contract, which records do not repeat.

use std::fmt;

use servanda_contract::{
    ToolContract,
    record::ContractReference,
    tool::{EffectClass, MutationClass, TimeoutClass},
};

/// What is known of a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ContractFacts {
    /// `read_only`, `write_reversible`, `write_irreversible`; empty if it is not known.
    pub(super) mutation_class: &'static str,
    /// The timeout class; empty if there is none.
    pub(super) timeout_class: &'static str,
    /// Whether the contract asks to verify afterwards.
    pub(super) asks_to_verify: bool,
}

/// Finds a contract by its reference. It is asked once for each series, not for each call.
pub trait ContractFactSource: Send + Sync + fmt::Debug {
    /// What is known of it; none if it is not the present contract of its tool.
    fn facts(&self, contract: &ContractReference) -> Option<ContractFacts>;
}

impl ContractFacts {
    /// What a contract says.
    pub fn of_contract(contract: &ToolContract) -> Self {
        let named = contract.effect.as_ref().and_then(|effect| effect.mutation_class);
        let mutation_class = match (named, contract.effect_class().mutates()) {
            (Some(MutationClass::ReadOnly), _) | (None, false) => "read_only",
            (Some(MutationClass::WriteReversible), _) => "write_reversible",
            (None, true) if contract.transactional.compensation_tool.is_some() => "write_reversible",
            (Some(MutationClass::WriteIrreversible), _) | (None, true) => "write_irreversible",
        };
        let timeout_class = match contract.execution.as_ref().map(|execution| execution.timeout_class) {
            None => "",
            Some(TimeoutClass::Interactive) => "interactive",
            Some(TimeoutClass::Standard) => "standard",
            Some(TimeoutClass::Unmeasured) => "unmeasured",
            Some(TimeoutClass::LongRunning) => "long_running",
            Some(TimeoutClass::Async) => "async",
        };
        let asks_to_verify = contract.transactional.post_action_verification_required;
        Self { mutation_class, timeout_class, asks_to_verify }
    }

    /// What the effect class alone says.
    pub(super) fn of_effect_class(class: EffectClass) -> Self {
        Self { mutation_class: if class.mutates() { "" } else { "read_only" }, ..Self::default() }
    }
}
