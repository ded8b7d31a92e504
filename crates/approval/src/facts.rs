//! The part of a tool's contract that decides about approvals. Gate 10 and the cases of policies make it in the same way, so they cannot
//! disagree about a call.

use servanda_contract::{
    ToolContract,
    tool::{ApprovalTerms, DataClassification, EffectDeclaration, MutationClass, Security, SideEffect, Transactional},
};

/// What a tool's contract says about approvals.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalFacts<'a> {
    /// Whether the change can be undone.
    pub mutation: Option<MutationClass>,
    /// The changes that the contract declares.
    pub manifest: &'a [SideEffect],
    /// How sensitive the tool's data is.
    pub data: DataClassification,
    /// `transactional.confirmation_required`.
    pub confirmation_required: bool,
    /// The contract's section about approvals.
    pub terms: Option<&'a ApprovalTerms>,
}

impl<'a> ApprovalFacts<'a> {
    /// The facts of a contract.
    pub fn from_contract(contract: &'a ToolContract) -> Self {
        let (effect, terms) = (contract.effect.as_deref(), contract.approval.as_deref());
        Self::from_sections(&contract.security, &contract.transactional, effect, terms)
    }

    /// The facts of a contract of which only these sections are kept.
    pub fn from_sections(
        security: &Security,
        transactional: &Transactional,
        effect: Option<&'a EffectDeclaration>,
        terms: Option<&'a ApprovalTerms>,
    ) -> Self {
        Self {
            mutation: effect.and_then(|effect| effect.mutation_class),
            manifest: effect.map(|effect| effect.manifest.as_slice()).unwrap_or_default(),
            data: security.data_classification,
            confirmation_required: transactional.confirmation_required,
            terms,
        }
    }

    /// Whether the contract asks for an approval, whatever the class and the policies say.
    pub fn asks_by_itself(&self) -> bool {
        self.confirmation_required || self.terms.is_some_and(|terms| terms.required == Some(true))
    }
}
