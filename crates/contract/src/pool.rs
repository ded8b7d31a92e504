//! Keeps equal sections of contracts once: ten thousand contracts share a handful of different sections.

use serde_json::{Map, Value};

use crate::{
    ToolContract,
    shared::Shared,
    tool::{EffectDeclaration, ErrorContract, Execution, Idempotency, Observability, Runtime, Security, Transactional},
};

/// Distinct sections of one kind that a [`SectionPool`] compares. Further ones are kept separately for each contract.
const PARTS_MAX: usize = 64;

/// Sections seen so far, so that equal ones are kept once.
#[derive(Debug, Default)]
pub struct SectionPool {
    runtime: InternedSections<Runtime>,
    security: InternedSections<Security>,
    transactional: InternedSections<Transactional>,
    idempotency: InternedSections<Idempotency>,
    observability: InternedSections<Observability>,
    error_contract: InternedSections<ErrorContract>,
    execution: InternedSections<Execution>,
    effect: InternedSections<EffectDeclaration>,
    output_schema: InternedSections<Map<String, Value>>,
}

#[derive(Debug)]
struct InternedSections<T>(Vec<Shared<T>>);

impl SectionPool {
    /// Replaces the contract's sections by equal ones that were seen before. The contract's content stays the same.
    pub fn unify(&mut self, contract: &mut ToolContract) {
        self.runtime.unify(&mut contract.runtime);
        self.security.unify(&mut contract.security);
        self.transactional.unify(&mut contract.transactional);
        self.idempotency.unify(&mut contract.idempotency);
        self.observability.unify(&mut contract.observability);
        self.error_contract.unify(&mut contract.error_contract);
        self.output_schema.unify(&mut contract.affordance.output_schema);
        if let Some(execution) = &mut contract.execution {
            self.execution.unify(execution);
        }
        if let Some(effect) = &mut contract.effect {
            self.effect.unify(effect);
        }
    }
}

impl<T: PartialEq> InternedSections<T> {
    fn unify(&mut self, part: &mut Shared<T>) {
        match self.0.iter().find(|seen| *seen == part) {
            Some(seen) => part.clone_from(seen),
            None if self.0.len() < PARTS_MAX => self.0.push(part.clone()),
            None => {}
        }
    }
}

impl<T> Default for InternedSections<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
