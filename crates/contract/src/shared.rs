//! Parts that many contracts have in common, kept once: ten thousand contracts have a handful of different sections.
//!
//! A [`Shared`] part reads and is written like the part itself. A change to one never shows in another: it is copied first.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::ToolContract;

/// Different parts of one kind that a [`Pool`] looks through. Where there are more, the rest are kept one by one.
const PARTS_MAX: usize = 64;

/// A value that other owners may hold too.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

/// A JSON Schema as a contract or a definition has it.
pub type SchemaDocument = Shared<Map<String, Value>>;

/// Sections of contracts that were seen, so that equal ones are kept once.
#[derive(Debug, Default)]
pub struct Pool {
    runtime: Seen<crate::tool::Runtime>,
    security: Seen<crate::tool::Security>,
    transactional: Seen<crate::tool::Transactional>,
    idempotency: Seen<crate::tool::Idempotency>,
    observability: Seen<crate::tool::Observability>,
    error_contract: Seen<crate::tool::ErrorContract>,
    execution: Seen<crate::tool::Execution>,
    effect: Seen<crate::tool::Effect>,
    output_schema: Seen<Map<String, Value>>,
}

#[derive(Debug)]
struct Seen<T>(Vec<Shared<T>>);

impl<T> Shared<T> {
    /// A value that is not shared yet.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Whether both are one value in memory, and not only equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: PartialEq> Shared<T> {
    /// Takes the other's place in memory where both are equal.
    pub fn unify(&mut self, other: &Self) {
        if self == other {
            self.clone_from(other);
        }
    }
}

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

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

impl<T: JsonSchema> JsonSchema for Shared<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
