//! Sections that many contracts have in common, found and kept once: ten thousand contracts have a handful of different ones.

use serde_json::{Map, Value};

use crate::{
    ToolContract,
    shared::Shared,
    tool::{Effect, ErrorContract, Execution, Idempotency, Observability, Runtime, Security, Transactional},
};

/// Different parts of one kind that a [`Pool`] looks through. Where there are more, the rest are kept one by one.
const PARTS_MAX: usize = 64;

/// Sections of contracts that were seen, so that equal ones are kept once.
#[derive(Debug, Default)]
pub struct Pool {
    runtime: Seen<Runtime>,
    security: Seen<Security>,
    transactional: Seen<Transactional>,
    idempotency: Seen<Idempotency>,
    observability: Seen<Observability>,
    error_contract: Seen<ErrorContract>,
    execution: Seen<Execution>,
    effect: Seen<Effect>,
    output_schema: Seen<Map<String, Value>>,
}

#[derive(Debug)]
struct Seen<T>(Vec<Shared<T>>);

impl Pool {
    /// Has a contract hold the sections that were seen before wherever its own are equal. What it says stays the same.
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

impl<T: PartialEq> Seen<T> {
    fn unify(&mut self, part: &mut Shared<T>) {
        match self.0.iter().find(|seen| *seen == part) {
            Some(seen) => part.clone_from(seen),
            None if self.0.len() < PARTS_MAX => self.0.push(part.clone()),
            None => {}
        }
    }
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
