//! What a schema says about members and types once its references and combinations are resolved. An approximation that errs on
//! the side of a match: a member of any alternative counts as known, and only a member that all alternatives require counts as
//! required.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Value};
use servanda_contract::schema::type_name;

/// How deep references and combinations are followed in place.
const DEPTH_MAX: usize = 16;
/// The most schemas that one shape is made of.
const PARTS_MAX: usize = 1_000;

/// A whole schema, within which references are resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaRoot<'a>(pub(super) &'a Map<String, Value>);

/// What a value may be.
#[derive(Debug, Clone, Default)]
pub(super) struct ValueShape<'a> {
    pub(super) types: TypeSet<'a>,
    /// The only allowed values; `None` if any is allowed.
    pub(super) values: Option<Vec<&'a Value>>,
    /// Members that are named.
    pub(super) members: BTreeMap<&'a str, Vec<&'a Value>>,
    pub(super) required: BTreeSet<&'a str>,
    /// Whether unnamed members are accepted.
    pub(super) open: bool,
    /// Whether the schema says so, and it does not merely follow from naming none.
    pub(super) says_open: bool,
    pub(super) items: Vec<&'a Value>,
}

/// The JSON types that a value may have; all of them if the schema names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TypeSet<'a>(Option<BTreeSet<&'a str>>);

impl<'a> SchemaRoot<'a> {
    pub(super) fn shape_of_root(self) -> ValueShape<'a> {
        let mut parts = 0;
        self.object(self.0, 0, &mut parts)
    }

    /// The shape of a value that one of these schemas describes.
    pub(super) fn shape_of(self, schemas: &[&'a Value]) -> ValueShape<'a> {
        let mut parts = 0;
        self.any_of(schemas.iter().copied(), 0, &mut parts).unwrap_or_default()
    }

    fn schema(self, schema: &'a Value, depth: usize, parts: &mut usize) -> ValueShape<'a> {
        match schema {
            Value::Object(schema) => self.object(schema, depth, parts),
            _ => ValueShape { open: true, ..ValueShape::default() },
        }
    }

    fn object(self, schema: &'a Map<String, Value>, depth: usize, parts: &mut usize) -> ValueShape<'a> {
        *parts += 1;
        let mut shape = plain(schema);
        if depth >= DEPTH_MAX || *parts >= PARTS_MAX {
            return shape;
        }
        let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
        let referred = schema.get("$ref").and_then(Value::as_str).and_then(|reference| self.resolve(reference));
        for part in referred.into_iter().chain(list("allOf")) {
            shape.and(self.schema(part, depth + 1, parts));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(either) = self.any_of(list(keyword), depth, parts) {
                shape.and(either);
            }
        }
        let dependent = schema.get("dependentSchemas").and_then(Value::as_object).into_iter().flat_map(Map::values);
        for part in ["then", "else"].iter().filter_map(|keyword| schema.get(*keyword)).chain(dependent) {
            let sometimes = self.schema(part, depth + 1, parts);
            shape.and(ValueShape { members: sometimes.members, open: sometimes.open, ..ValueShape::default() });
        }
        // An object that names none of its members accepts any.
        shape.open |= shape.members.is_empty() && schema.get("additionalProperties") != Some(&Value::Bool(false));
        shape
    }

    /// `None` if there are no alternatives.
    fn any_of(
        self,
        alternatives: impl Iterator<Item = &'a Value>,
        depth: usize,
        parts: &mut usize,
    ) -> Option<ValueShape<'a>> {
        alternatives.map(|schema| self.schema(schema, depth + 1, parts)).reduce(ValueShape::or)
    }

    /// What a reference within the document refers to.
    fn resolve(self, reference: &str) -> Option<&'a Value> {
        let mut steps = reference.strip_prefix("#/")?.split('/').map(|step| {
            let step = step.replace("%24", "$").replace("%20", " ");
            step.replace("~1", "/").replace("~0", "~")
        });
        let first = self.0.get(&steps.next()?)?;
        steps.try_fold(first, |value, step| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(&step),
        })
    }
}

/// What a schema itself says, without references and combinations.
fn plain(schema: &Map<String, Value>) -> ValueShape<'_> {
    let values = match (schema.get("enum").and_then(Value::as_array), schema.get("const")) {
        (Some(values), _) => Some(values.iter().collect()),
        (None, Some(value)) => Some(vec![value]),
        (None, None) => None,
    };
    let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let opens = |keyword: &str| schema.get(keyword).is_some_and(|inner| *inner != Value::Bool(false));
    let says_open = opens("additionalProperties") || opens("unevaluatedProperties") || opens("patternProperties");
    ValueShape {
        types: TypeSet::from_keyword(schema.get("type")).or_types_of(values.as_deref()),
        values,
        members: members.map(|(name, member)| (name.as_str(), vec![member])).collect(),
        required: required.filter_map(Value::as_str).collect(),
        open: says_open,
        says_open,
        items: schema.get("items").filter(|items| !items.is_array()).into_iter().collect(),
    }
}

impl<'a> ValueShape<'a> {
    /// Both shapes must hold.
    fn and(&mut self, other: Self) {
        self.types = TypeSet(match (self.types.0.take(), other.types.0) {
            (Some(one), Some(other)) => Some(one.intersection(&other).copied().collect()),
            (one, other) => one.or(other),
        });
        self.values = match (self.values.take(), other.values) {
            (Some(one), Some(other)) => Some(one.into_iter().filter(|value| other.contains(value)).collect()),
            (one, other) => one.or(other),
        };
        self.take_members(other.members);
        self.required.extend(other.required);
        self.open |= other.says_open;
        self.says_open |= other.says_open;
        self.items.extend(other.items);
    }

    /// One of the shapes must hold.
    fn or(mut self, other: Self) -> Self {
        self.types = TypeSet(match (self.types.0.take(), other.types.0) {
            (Some(one), Some(other)) => Some(one.union(&other).copied().collect()),
            _ => None,
        });
        self.values = match (self.values.take(), other.values) {
            (Some(one), Some(other)) => Some(one.into_iter().chain(other).collect()),
            _ => None,
        };
        self.take_members(other.members);
        self.required = self.required.intersection(&other.required).copied().collect();
        self.open |= other.open;
        self.says_open |= other.says_open;
        self.items.extend(other.items);
        self
    }

    fn take_members(&mut self, members: BTreeMap<&'a str, Vec<&'a Value>>) {
        for (name, schemas) in members {
            self.members.entry(name).or_default().extend(schemas);
        }
    }
}

impl<'a> TypeSet<'a> {
    fn from_keyword(keyword: Option<&'a Value>) -> Self {
        Self(match keyword {
            Some(Value::String(named)) => Some(BTreeSet::from([named.as_str()])),
            Some(Value::Array(named)) => Some(named.iter().filter_map(Value::as_str).collect()),
            _ => None,
        })
    }

    /// If no type is named, the types of the only allowed values.
    fn or_types_of(self, values: Option<&[&Value]>) -> Self {
        Self(self.0.or_else(|| values.map(|values| values.iter().map(|value| type_name(value)).collect())))
    }

    /// Whether a value can have a type of both. A value that can have no type is never sent, so it matches.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (Some(one), Some(other)) = (&self.0, &other.0) else { return true };
        one.is_empty() || one.iter().any(|named| takes(other, named)) || other.iter().any(|named| takes(one, named))
    }

    /// Whether the other accepts every type of this one.
    pub(super) fn within(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(one), Some(other)) => one.iter().all(|named| takes(other, named)),
        }
    }
}

fn takes(types: &BTreeSet<&str>, named: &str) -> bool {
    types.contains(named) || (named == "integer" && types.contains("number"))
}

impl fmt::Display for TypeSet<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => formatter.write_str("any type"),
            Some(types) => {
                let known: Vec<&str> = types.iter().copied().filter(|named| KNOWN.contains(named)).collect();
                formatter.write_str(&if known.is_empty() { "nothing".to_owned() } else { known.join(" or ") })
            }
        }
    }
}

/// A server may write any text as a type, so only these are accepted.
const KNOWN: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
