//! Whether a tool accepts what agents are told that it accepts: compares the contract's input schema with the live one.
//!
//! Compares members and types only. Limits and patterns may differ, because a contract may be stricter. Changes since the
//! definition was pinned are handled by `pins`.

mod shape;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use serde::Serialize;
use serde_json::{Map, Value, json};
use servanda_contract::tool::{KeyPlacement, ToolContract};

use self::shape::{TypeSet, ValueShape};

/// The most pairs of schemas that are compared; no tool's parameters need more.
const PAIRS_MAX: usize = 10_000;

/// How well two schemas match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaMatch {
    /// Everything the contract names is offered.
    Full,
    /// Something optional is missing.
    Partial {
        /// What is missing.
        gaps: Vec<SchemaGap>,
    },
    /// Something required is missing, or the tool requires what the contract does not have.
    Incompatible {
        /// All reasons.
        reasons: Vec<SchemaGap>,
    },
}

/// A place where the live schema differs from the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaGap {
    /// JSON Pointer into the contract's input schema.
    pub pointer: String,
    /// The difference, in words.
    pub what: String,
}

/// Compares what calls of a contract send, including our key if it is an argument, with what the upstream offers.
pub fn fits(contract: &ToolContract, offered: &Map<String, Value>) -> SchemaMatch {
    let schema = &contract.affordance.input_schema;
    let Some(KeyPlacement::Argument(name)) = contract.effect.as_ref().and_then(|effect| effect.key.as_ref()) else {
        return negotiate(schema, offered);
    };
    let mut sent = schema.clone();
    if let Some(properties) = sent.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        properties.insert(name.clone(), json!({ "type": "string" }));
    }
    if let Some(required) = sent.entry("required").or_insert_with(|| json!([])).as_array_mut() {
        required.push(Value::from(name.as_str()));
    }
    negotiate(&sent, offered)
}

/// Compares what is expected with what is offered.
pub fn negotiate(expected: &Map<String, Value>, offered: &Map<String, Value>) -> SchemaMatch {
    let mut comparison = SchemaComparison {
        expected: shape::SchemaRoot(expected),
        offered: shape::SchemaRoot(offered),
        compared: BTreeSet::new(),
        gaps: Vec::new(),
        reasons: Vec::new(),
    };
    let mut told = comparison.expected.shape_of_root();
    let taken = comparison.offered.shape_of_root();
    // A contract without parameters accepts none; a server that names none may still accept any.
    told.open &= !told.members.is_empty() || told.says_open;
    comparison.shapes("", &told, &taken);
    let SchemaComparison { compared, gaps, mut reasons, .. } = comparison;
    if compared.len() >= PAIRS_MAX {
        reasons
            .push(SchemaGap { pointer: String::new(), what: "the schemas are too complex to be compared".to_owned() });
    }
    match (reasons.is_empty(), gaps.is_empty()) {
        (false, _) => SchemaMatch::Incompatible { reasons },
        (true, false) => SchemaMatch::Partial { gaps },
        (true, true) => SchemaMatch::Full,
    }
}

struct SchemaComparison<'a> {
    expected: shape::SchemaRoot<'a>,
    offered: shape::SchemaRoot<'a>,
    /// Pairs of schemas that were already compared: schemas may contain themselves.
    compared: BTreeSet<(Vec<usize>, Vec<usize>)>,
    gaps: Vec<SchemaGap>,
    reasons: Vec<SchemaGap>,
}

impl<'a> SchemaComparison<'a> {
    fn schemas(&mut self, at: &str, told: &[&'a Value], taken: &[&'a Value]) {
        let place = |schemas: &[&Value]| schemas.iter().map(|schema| std::ptr::from_ref(*schema).addr()).collect();
        if self.compared.len() >= PAIRS_MAX || !self.compared.insert((place(told), place(taken))) {
            return;
        }
        let (told, taken) = (self.expected.shape_of(told), self.offered.shape_of(taken));
        self.shapes(at, &told, &taken);
    }

    fn shapes(&mut self, at: &str, told: &ValueShape<'a>, taken: &ValueShape<'a>) {
        self.types(at, &told.types, &taken.types);
        self.values(at, told, taken);
        self.members(at, told, taken);
        self.demands(at, told, taken);
        if !told.items.is_empty() && !taken.items.is_empty() {
            self.schemas(&format!("{at}/items"), &told.items, &taken.items);
        }
    }

    fn types(&mut self, at: &str, told: &TypeSet<'a>, taken: &TypeSet<'a>) {
        if !told.meets(taken) {
            self.reasons.push(gap(at, format!("the contract has {told}, the tool takes {taken}")));
        } else if !told.within(taken) {
            self.gaps.push(gap(at, format!("the contract has {told}, the tool takes only {taken}")));
        }
    }

    fn values(&mut self, at: &str, told: &ValueShape<'a>, taken: &ValueShape<'a>) {
        let Some(taken) = &taken.values else { return };
        let Some(told) = &told.values else {
            return self.gaps.push(gap(at, "the tool takes only certain values, the contract allows any".to_owned()));
        };
        let missing = told.iter().filter(|value| !taken.contains(value)).count();
        if missing == told.len() && missing > 0 {
            self.reasons.push(gap(at, "the tool takes none of the contract's values".to_owned()));
        } else if missing > 0 {
            self.gaps.push(gap(at, format!("the tool does not take {missing} of the contract's values")));
        }
    }

    fn members(&mut self, at: &str, told: &ValueShape<'a>, taken: &ValueShape<'a>) {
        for (name, told_schemas) in &told.members {
            let pointer = format!("{at}/properties/{}", name.replace('~', "~0").replace('/', "~1"));
            match taken.members.get(name) {
                Some(taken_schemas) => self.schemas(&pointer, told_schemas, taken_schemas),
                None if taken.open => {}
                None if told.required.contains(name) => {
                    self.reasons.push(gap(&pointer, "the contract demands it, the tool does not have it".to_owned()));
                }
                None => self.gaps.push(gap(&pointer, "the tool does not have it".to_owned())),
            }
        }
    }

    /// Checks what the tool requires.
    fn demands(&mut self, at: &str, told: &ValueShape<'a>, taken: &ValueShape<'a>) {
        let has_default = |schemas: Option<&Vec<&Value>>| {
            schemas.is_some_and(|schemas| schemas.iter().any(|schema| schema.get("default").is_some()))
        };
        for name in taken.required.difference(&told.required) {
            let pointer = format!("{at}/properties/{}", name.replace('~', "~0").replace('/', "~1"));
            match told.members.get(name) {
                // The contract's default is filled in before the call is sent.
                Some(_) if has_default(told.members.get(name)) => {}
                Some(_) => self.gaps.push(gap(&pointer, "the tool demands it, the contract does not".to_owned())),
                None if told.open || has_default(taken.members.get(name)) => {}
                None => {
                    self.reasons.push(gap(&pointer, "the tool demands it, the contract does not have it".to_owned()));
                }
            }
        }
    }
}

fn gap(at: &str, what: String) -> SchemaGap {
    SchemaGap { pointer: at.to_owned(), what }
}

impl fmt::Display for SchemaGap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = if self.pointer.is_empty() { "/" } else { &self.pointer };
        write!(formatter, "`{}`: {}", servanda_contract::legibility::reveal(pointer), self.what)
    }
}
