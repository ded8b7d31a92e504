//! Bounds the work of validating a value before any of it is done.
//!
//! If several schemas apply to one value and each describes the same member by a schema that does so again, then members at
//! depth 1, 2, 3 are validated 2, 4, 8 times: two hundred bytes of arguments are enough for a minute. The schema alone
//! determines how often a value at each depth is validated at most.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    SchemaError,
    members::{ReferenceResolver, in_place, list},
};

/// The most schemas that may be applied to one value.
const APPLIED_MAX: u64 = 10_000;
/// Up to this many schemas per value, the work is proportional to what was sent, which is bounded in bytes.
const APPLIED_PLAIN_MAX: u64 = 64;
/// The most schemas that may be applied, in total, to the values that exceed `APPLIED_PLAIN_MAX`.
const STEPS_MAX: u64 = 250_000;
/// Deeper than any value that the decoder accepts.
const LEVELS_MAX: usize = 130;
/// The most visits to schemas of the document while the bound is computed.
const LOOKS_MAX: usize = 1_000_000;

/// How often the values at each depth are validated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ValidationCost {
    /// By depth, the whole value first. If deeper values are possible, they are like the last one.
    applied: Vec<u64>,
    /// The greatest depth at which a value may have members, if there is one.
    depth_max: Option<usize>,
}

/// Why a value is not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CostExceeded {
    /// Deeper than this.
    Depth(usize),
    /// Too many values that are validated too often.
    Steps,
}

impl ValidationCost {
    /// Computes the growth of one of a document's schemas; `None` if it is too small to matter for any value.
    pub(super) fn measure(schema: &Value, document: &Value) -> Result<Option<Self>, SchemaError> {
        let graph = SchemaGraph::build(schema, document)?;
        let mut levels: Vec<u64> = graph.nodes.iter().map(|node| node.applied).collect();
        let mut applied = Vec::new();
        let mut depth_max = None;
        while let Some(whole) = levels.first().copied().filter(|whole| *whole > 0 && applied.len() < LEVELS_MAX) {
            if whole > APPLIED_MAX && !applied.is_empty() {
                depth_max = Some(applied.len() - 1);
                break;
            }
            applied.push(whole);
            levels = graph.nodes.iter().map(|node| node.deeper(&levels)).collect();
        }
        let plain = applied.iter().all(|times| *times <= APPLIED_PLAIN_MAX);
        Ok((!plain || depth_max.is_some()).then_some(Self { applied, depth_max }))
    }

    /// The greatest depth at which a value may have members, if there is one.
    pub(super) fn depth_max(&self) -> Option<usize> {
        self.depth_max
    }

    /// Whether a value may be validated.
    pub(super) fn check(&self, value: &Value) -> Result<(), CostExceeded> {
        let mut steps: u64 = 0;
        let mut level = vec![value];
        let mut depth = 0;
        while !level.is_empty() {
            if let Some(depth_max) = self.depth_max.filter(|depth_max| depth > *depth_max) {
                return Err(CostExceeded::Depth(depth_max));
            }
            // Values that no schema describes are not validated.
            let times = self.applied.get(depth).copied().unwrap_or_default();
            if times > APPLIED_PLAIN_MAX {
                steps = steps.saturating_add(times.saturating_mul(level.len() as u64));
            }
            if steps > STEPS_MAX {
                return Err(CostExceeded::Steps);
            }
            level = level.into_iter().flat_map(inside).collect();
            depth += 1;
        }
        Ok(())
    }
}

fn inside(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(members) => members.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// The schemas that describe a whole value, and the schemas that each applies to the values inside.
struct SchemaGraph {
    nodes: Vec<SchemaNode>,
}

#[derive(Default)]
struct SchemaNode {
    /// Schemas applied to the value itself.
    applied: u64,
    /// For each kind of member or item: the nodes applied to it, and how often.
    members: Vec<BTreeMap<usize, u64>>,
}

impl SchemaNode {
    /// How many schemas are applied to the worst value one level deeper than `levels`.
    fn deeper(&self, levels: &[u64]) -> u64 {
        let times = |(node, times): (&usize, &u64)| levels.get(*node).map_or(0, |level| level.saturating_mul(*times));
        self.members.iter().map(|member| member.iter().map(times).fold(0, u64::saturating_add)).max().unwrap_or(0)
    }
}

impl SchemaGraph {
    fn build(schema: &Value, document: &Value) -> Result<Self, SchemaError> {
        let mut walk =
            SchemaWalk { document: ReferenceResolver(document), known: BTreeMap::new(), schemas: Vec::new(), looks: 0 };
        walk.index(schema);
        let mut nodes = Vec::new();
        while let Some(schema) = walk.schemas.get(nodes.len()).copied() {
            let node = walk.node(schema)?;
            nodes.push(node);
        }
        Ok(Self { nodes })
    }
}

struct SchemaWalk<'a> {
    document: ReferenceResolver<'a>,
    /// The number of a schema, by its address in memory.
    known: BTreeMap<*const Value, usize>,
    schemas: Vec<&'a Value>,
    looks: usize,
}

impl<'a> SchemaWalk<'a> {
    fn index(&mut self, schema: &'a Value) -> usize {
        let next = self.schemas.len();
        let index = *self.known.entry(std::ptr::from_ref(schema)).or_insert(next);
        if index == next {
            self.schemas.push(schema);
        }
        index
    }

    fn node(&mut self, schema: &'a Value) -> Result<SchemaNode, SchemaError> {
        let applied = self.applied(schema)?;
        let names: BTreeSet<&String> = applied.iter().flat_map(|schema| properties(schema)).collect();
        let tuple = applied.iter().map(|schema| prefix(schema).len()).max().unwrap_or(0);
        self.look(applied.len().saturating_mul(names.len() + tuple))?;
        let declared = names.into_iter().map(|name| member(&applied, Some(name)));
        let others = std::iter::once_with(|| member(&applied, None));
        let items = (0..=tuple).map(|position| item(&applied, position));
        let mut members = Vec::new();
        for inner in declared.chain(others).chain(items) {
            let mut times = BTreeMap::new();
            for schema in inner.into_iter().filter(|schema| schema.is_object()) {
                *times.entry(self.index(schema)).or_insert(0) += 1;
            }
            if !times.is_empty() {
                members.push(times);
            }
        }
        Ok(SchemaNode { applied: applied.len() as u64, members })
    }

    /// Every schema that applies to the same value.
    fn applied(&mut self, schema: &'a Value) -> Result<Vec<&'a Map<String, Value>>, SchemaError> {
        let mut applied = Vec::new();
        let mut rest = vec![schema];
        while let Some(schema) = rest.pop() {
            let Some(schema) = schema.as_object() else { continue };
            self.look(1)?;
            rest.extend(in_place(schema));
            if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
                rest.push(self.document.resolve(reference).ok_or_else(|| unresolved(reference))?);
            }
            applied.push(schema);
        }
        Ok(applied)
    }

    fn look(&mut self, times: usize) -> Result<(), SchemaError> {
        self.looks = self.looks.saturating_add(times);
        if self.looks > LOOKS_MAX { Err(SchemaError::Unfolds { unfolded_max: LOOKS_MAX as u64 }) } else { Ok(()) }
    }
}

/// Everything that may apply to a member of this name, or of an undeclared name.
fn member<'a>(applied: &[&'a Map<String, Value>], name: Option<&String>) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for schema in applied {
        found.extend(schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values));
        found.extend(schema.get("propertyNames"));
        match name.and_then(|name| schema.get("properties")?.get(name)) {
            Some(own) => found.push(own),
            None => found
                .extend(["additionalProperties", "unevaluatedProperties"].iter().filter_map(|word| schema.get(*word))),
        }
    }
    found
}

/// Everything that may apply to the item at a position.
fn item<'a>(applied: &[&'a Map<String, Value>], position: usize) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for schema in applied {
        found.extend(schema.get("contains"));
        match prefix(schema).get(position) {
            Some(own) => found.push(own),
            None => found
                .extend(["items", "additionalItems", "unevaluatedItems"].iter().filter_map(|word| schema.get(*word))),
        }
    }
    found
}

fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = &String> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys)
}

/// The schemas of single positions, in either dialect.
fn prefix(schema: &Map<String, Value>) -> &[Value] {
    let items = list(schema, "items");
    if items.is_empty() { list(schema, "prefixItems") } else { items }
}

fn unresolved(reference: &str) -> SchemaError {
    SchemaError::Invalid { reason: format!("`{reference}` is not inside the schema"), location: String::new() }
}
