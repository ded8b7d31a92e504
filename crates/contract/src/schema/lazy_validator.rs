//! Dormant schemas. A gateway has thousands of tools and uses a few of them, so a schema's validator is built when the first
//! value is validated, from a schema that compiled before.
//!
//! Only a schema that compiled becomes dormant, so validation never finds a fault that admission would have refused.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{CompiledSchema, CompiledValidator};
use crate::shared::SchemaDocument;

/// Where the enforced schema is kept.
#[derive(Debug)]
pub(super) enum EffectiveSchema {
    /// In the compiled validator: the schema was never dormant.
    InValidator,
    /// It equals the written schema.
    AsWritten,
    /// As compact JSON, which has a fraction of a tree's size.
    Text(Box<str>),
    /// As a tree, if its text does not parse to the same tree: a number may be rounded.
    Tree(Box<Value>),
}

impl CompiledSchema {
    /// Drops the validator until a value is validated.
    #[must_use]
    pub fn without_validator(mut self) -> Self {
        let Some(Some(CompiledValidator { effective, .. })) = self.compiled.take() else { return self };
        if matches!(self.effective, EffectiveSchema::InValidator) {
            self.effective = EffectiveSchema::compact(effective, &self.written);
        }
        self
    }

    /// The enforced schema. A dormant schema stays dormant.
    pub fn effective_members(&self) -> Cow<'_, Map<String, Value>> {
        match (&self.effective, self.compiled.get()) {
            (EffectiveSchema::AsWritten, _) => Cow::Borrowed(&self.written),
            (_, Some(Some(ready))) => ready.effective.as_object().map_or_else(Cow::default, Cow::Borrowed),
            (EffectiveSchema::Tree(tree), _) => tree.as_object().map_or_else(Cow::default, Cow::Borrowed),
            (EffectiveSchema::Text(text), _) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
            (EffectiveSchema::InValidator, _) => Cow::default(),
        }
    }

    /// The validator, built now if it does not exist.
    pub(super) fn compiled_validator(&self) -> Option<&CompiledValidator> {
        self.compiled
            .get_or_init(|| CompiledValidator::build(self.effective.tree(&self.written)?, self.profile, None).ok())
            .as_ref()
    }
}

impl EffectiveSchema {
    fn compact(tree: Value, written: &SchemaDocument) -> Self {
        if is_same(&tree, written) {
            return Self::AsWritten;
        }
        let text = tree.to_string();
        match serde_json::from_str::<Value>(&text) {
            Ok(read) if read == tree => Self::Text(text.into()),
            _ => Self::Tree(Box::new(tree)),
        }
    }

    fn tree(&self, written: &SchemaDocument) -> Option<Value> {
        match self {
            Self::InValidator => None,
            Self::AsWritten => Some(Value::Object((**written).clone())),
            Self::Text(text) => serde_json::from_str(text).ok(),
            Self::Tree(tree) => Some((**tree).clone()),
        }
    }
}

/// Whether both are equal and in the same order, because agents see the order.
fn is_same(tree: &Value, written: &Map<String, Value>) -> bool {
    tree.as_object().is_some_and(|tree| tree == written && in_same_order(tree, written))
}

fn in_same_order(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.iter().zip(other).all(|((name, value), (other_name, other_value))| {
        name == other_name && values_in_same_order(value, other_value)
    })
}

fn values_in_same_order(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => in_same_order(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.iter().zip(other).all(|(one, other)| values_in_same_order(one, other))
        }
        _ => true,
    }
}
