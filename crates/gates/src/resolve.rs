//! Pairs a proposal with the contract that will judge it. [`resolve`] is the only way to a [`ResolvedCall`] call.

use std::sync::Arc;

use servanda_contract::{GateName, Proposal, Refusal, expectation::Expectation};

use crate::{CompiledContract, Trail};

/// Says which contract the tool name of a proposal means, or why none judges it. Implemented where the catalog is known.
pub trait ContractResolver {
    /// The contract that judges the proposal.
    fn contract_of(&self, proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>>;
}

/// A proposal and the contract it will be judged by.
#[derive(Debug)]
pub struct ResolvedCall {
    /// Boxed, because every gate hands it on.
    pub(crate) proposal: Box<Proposal>,
    pub(crate) contract: Arc<CompiledContract>,
    pub(crate) expectations: Vec<ToolExpectation>,
}

/// Something that is expected of the tool of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolExpectation {
    /// Known well enough to be compared.
    Known(Expectation),
    /// The call states its purpose in words that the gateway does not know. What cannot be compared does not fit.
    Unclear {
        /// What is wrong with it.
        message: String,
        /// What to do next.
        hint: String,
    },
}

/// Finds the contract of a proposal, and notes the verdict.
pub fn resolve(
    proposal: Box<Proposal>,
    contracts: &dyn ContractResolver,
    trail: &mut Trail<'_>,
) -> Result<ResolvedCall, Box<Refusal>> {
    let contract = trail.judge(GateName::Resolve, || contracts.contract_of(&proposal))?;
    Ok(ResolvedCall::new(proposal, contract))
}

impl ResolvedCall {
    pub(crate) fn new(proposal: Box<Proposal>, contract: Arc<CompiledContract>) -> Self {
        Self { proposal, contract, expectations: Vec::new() }
    }

    /// The same, with what is expected of the tool. All of it has to be met.
    #[must_use]
    pub fn expecting(self, expectations: Vec<ToolExpectation>) -> Self {
        Self { expectations, ..self }
    }

    /// The proposal.
    pub fn proposal(&self) -> &Proposal {
        &self.proposal
    }

    /// The contract it will be judged by.
    pub fn contract(&self) -> &Arc<CompiledContract> {
        &self.contract
    }
}
