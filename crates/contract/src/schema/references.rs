//! Rewrites every reference as a pointer into the document, and refuses references that cannot be rewritten.
//!
//! `#name`, the document's own `$id`, `$dynamicRef` and `$recursiveRef` are other ways to write the same reference while the
//! document is one resource. All code here that follows references (closing, defaults, the bounds on expansion) understands
//! only pointers; a reference that it does not follow would be a way around it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{SchemaError, members::ReferenceResolver};

/// Places that a document may refer to. The library recurses from each to the next, and a stack overflow ends the process. The
/// most among 6,804 real tools is 18.
const PLACES_MAX: usize = 64;
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords that contain data, not schemas.
const DATA: [&str; 4] = ["enum", "const", "examples", "default"];
/// Keywords whose member names the author chooses.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Rewrites the references of a document.
pub(super) fn localize(document: &mut Value) -> Result<(), SchemaError> {
    let mut found = SchemaReferences::default();
    found.walk(document, "", false);
    if found.references.is_empty() {
        return Ok(());
    }
    if let Some(location) = found.resources.first() {
        let reason = "an `$id` inside the schema starts another document, and references into it are not followed";
        return Err(invalid(reason.to_owned(), location));
    }
    let own = document.get("$id").and_then(Value::as_str).map(|id| id.split('#').next().unwrap_or_default().to_owned());
    let mut places = BTreeSet::new();
    for location in &found.references {
        let schema = document.pointer(location).and_then(Value::as_object);
        let pointer = match schema {
            Some(schema) => found.pointer_of(schema, own.as_deref(), location)?,
            None => continue,
        };
        if ReferenceResolver(document).resolve(&pointer).is_none() {
            return Err(outside(&pointer, location));
        }
        places.insert(pointer.clone());
        if places.len() > PLACES_MAX {
            return Err(SchemaError::References { places_max: PLACES_MAX });
        }
        if let Some(schema) = document.pointer_mut(location).and_then(Value::as_object_mut) {
            schema.retain(|keyword, _| !REFERENCES.contains(&keyword.as_str()));
            schema.insert("$ref".to_owned(), Value::String(pointer));
        }
    }
    Ok(())
}

#[derive(Default)]
struct SchemaReferences {
    /// Where a schema refers to another.
    references: Vec<String>,
    /// Anchors and their places; `None` if two places have the same anchor.
    anchors: BTreeMap<String, Option<String>>,
    /// Where an embedded document begins.
    resources: Vec<String>,
}

impl SchemaReferences {
    fn walk(&mut self, value: &Value, at: &str, names: bool) {
        match value {
            Value::Object(members) => {
                if !names {
                    self.schema(members, at);
                }
                for (keyword, inner) in members.iter().filter(|(name, _)| names || !DATA.contains(&name.as_str())) {
                    let step = keyword.replace('~', "~0").replace('/', "~1");
                    self.walk(inner, &format!("{at}/{step}"), !names && NAMED.contains(&keyword.as_str()));
                }
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(position, item)| {
                    self.walk(item, &format!("{at}/{position}"), false);
                });
            }
            _ => {}
        }
    }

    fn schema(&mut self, schema: &Map<String, Value>, at: &str) {
        let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
        if REFERENCES.iter().any(|keyword| text(keyword).is_some()) {
            self.references.push(at.to_owned());
        }
        // Draft-07 names a place with an `$id` that is only a fragment.
        let fragment = text("$id").and_then(|id| id.strip_prefix('#')).filter(|name| !name.is_empty());
        for name in [text("$anchor"), text("$dynamicAnchor"), fragment].into_iter().flatten() {
            let place = self.anchors.entry(name.to_owned()).or_insert_with(|| Some(at.to_owned()));
            if place.as_deref() != Some(at) {
                *place = None;
            }
        }
        if !at.is_empty() && text("$id").is_some_and(|id| !id.starts_with('#')) {
            self.resources.push(at.to_owned());
        }
    }

    /// The target of a schema's reference, as a pointer in a fragment.
    fn pointer_of(&self, schema: &Map<String, Value>, own: Option<&str>, at: &str) -> Result<String, SchemaError> {
        let mut pointers = Vec::new();
        for reference in REFERENCES.iter().filter_map(|keyword| schema.get(*keyword)?.as_str()) {
            let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
            if !document.is_empty() && Some(document) != own {
                return Err(outside(reference, at));
            }
            if fragment.is_empty() || fragment.starts_with('/') {
                pointers.push(format!("#{fragment}"));
            } else {
                let place = self.anchors.get(fragment).and_then(Option::as_deref);
                let place = place.ok_or_else(|| outside(reference, at))?;
                pointers.push(format!("#{}", super::defaults::fragment(place)));
            }
        }
        pointers.dedup();
        match pointers.as_slice() {
            [pointer] => Ok(pointer.clone()),
            _ => Err(invalid("one schema has several references: join them with `allOf`".to_owned(), at)),
        }
    }
}

fn outside(reference: &str, at: &str) -> SchemaError {
    invalid(format!("`{reference}` refers to nothing inside the schema, and nothing outside is ever looked up"), at)
}

fn invalid(reason: String, location: &str) -> SchemaError {
    SchemaError::Invalid { reason, location: location.to_owned() }
}
