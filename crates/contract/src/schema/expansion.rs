//! Refuses schemas that expand without end, or far beyond their size. References, `allOf` and similar keywords apply several
//! schemas to one value. A schema that applies itself to the same value has no meaning and would exhaust the stack. A few
//! definitions with two references each multiply to billions of evaluations.

use std::{collections::BTreeMap, rc::Rc};

use serde_json::{Map, Value};

use super::{
    SchemaError,
    members::{ReferenceResolver, in_place},
};

/// Schemas applied to one value, counting all that apply to the value itself and not to its members.
const UNFOLDED_MAX: u64 = 10_000;

/// Schemas that are compiled because of a reference, counted once per reference.
const INLINED_MAX: u64 = 20_000;

/// Checks every schema of a document.
pub(super) fn check(document: &Value) -> Result<(), SchemaError> {
    let mut unfolding = ExpansionCounter { document: ReferenceResolver(document), known: BTreeMap::new() };
    unfolding.everywhere(document, "")?;
    let (_, references) = inside(document);
    let mut inlining =
        InliningCounter { document: ReferenceResolver(document), known: BTreeMap::new(), open: Vec::new(), count: 0 };
    inlining.follow(&references)
}

/// Follows references like the library does when it compiles a schema: it compiles the target again for each reference, unless
/// it is already compiling that target. Definitions that each refer twice to the next would keep it busy for ever.
struct InliningCounter<'a> {
    document: ReferenceResolver<'a>,
    /// By place: the number of schemas there, and their references.
    known: BTreeMap<String, Rc<(u64, Vec<String>)>>,
    open: Vec<String>,
    count: u64,
}

impl InliningCounter<'_> {
    fn follow(&mut self, references: &[String]) -> Result<(), SchemaError> {
        for reference in references {
            if self.open.contains(reference) {
                continue;
            }
            let document = self.document;
            let stands = || Rc::new(document.resolve(reference).map_or((1, Vec::new()), inside));
            let place = Rc::clone(self.known.entry(reference.clone()).or_insert_with(stands));
            self.count = self.count.saturating_add(place.0.max(1));
            if self.count > INLINED_MAX {
                return Err(SchemaError::Unfolds { unfolded_max: INLINED_MAX });
            }
            self.open.push(reference.clone());
            self.follow(&place.1)?;
            self.open.pop();
        }
        Ok(())
    }
}

/// The number of objects in a value, including itself, and all references in it.
fn inside(value: &Value) -> (u64, Vec<String>) {
    let (mut count, mut references, mut rest) = (0, Vec::new(), vec![value]);
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(members) => {
                count += 1;
                references.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                rest.extend(members.values());
            }
            Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
    (count, references)
}

struct ExpansionCounter<'a> {
    document: ReferenceResolver<'a>,
    /// By target of a reference: how many schemas it applies; `None` while it is being counted.
    known: BTreeMap<String, Option<u64>>,
}

impl<'a> ExpansionCounter<'a> {
    fn everywhere(&mut self, value: &'a Value, at: &str) -> Result<(), SchemaError> {
        match value {
            Value::Object(members) => {
                if self.count(members, at)? > UNFOLDED_MAX {
                    return Err(SchemaError::Unfolds { unfolded_max: UNFOLDED_MAX });
                }
                members.iter().try_for_each(|(name, inner)| self.everywhere(inner, &format!("{at}/{name}")))
            }
            Value::Array(items) => {
                items.iter().enumerate().try_for_each(|(index, item)| self.everywhere(item, &format!("{at}/{index}")))
            }
            _ => Ok(()),
        }
    }

    /// How many schemas one schema applies to one value.
    fn count(&mut self, schema: &'a Map<String, Value>, at: &str) -> Result<u64, SchemaError> {
        let mut count: u64 = 1;
        for inner in in_place(schema).filter_map(Value::as_object) {
            count = count.saturating_add(self.count(inner, at)?);
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            count = count.saturating_add(self.behind(reference, at)?);
        }
        Ok(count)
    }

    fn behind(&mut self, reference: &str, at: &str) -> Result<u64, SchemaError> {
        match self.known.get(reference) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => return Err(SchemaError::Endless { location: at.to_owned() }),
            None => {}
        }
        let Some(target) = self.document.resolve(reference).and_then(Value::as_object) else { return Ok(1) };
        self.known.insert(reference.to_owned(), None);
        let count = self.count(target, at)?;
        self.known.insert(reference.to_owned(), Some(count));
        Ok(count)
    }
}
