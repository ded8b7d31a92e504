//! Closes objects by default: a property that the schema does not name is refused, because models invent parameters. A schema
//! that itself says `additionalProperties` or `unevaluatedProperties` stays as it is, and an object without any named property
//! stays free-form.
//!
//! Closing adds a constraint where a whole value is described, and removes none: a value that is refused without it stays
//! refused. Definitions are closed where they are used, because a definition may also be one part of an `allOf`.

use serde_json::{Map, Value, json};

use super::members::{IN_PLACE_LISTS, MemberDeclaration, ReferenceResolver};

/// Keywords that describe the values inside this one.
const INSIDE: [&str; 5] =
    ["items", "additionalItems", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"];

/// Closes every object of a document. `unevaluated` is whether the dialect has `unevaluatedProperties`.
pub(super) fn close_objects(document: &mut Value, unevaluated: bool) {
    if let Some(root) = document.as_object_mut() {
        // A tool without declared parameters takes none.
        root.entry("properties").or_insert_with(|| json!({}));
    }
    let written = document.clone();
    ObjectCloser { written: ReferenceResolver(&written), unevaluated }.whole(document);
}

struct ObjectCloser<'a> {
    written: ReferenceResolver<'a>,
    unevaluated: bool,
}

impl ObjectCloser<'_> {
    /// Closes a schema that describes a whole value, and the values inside.
    fn whole(&self, schema: &mut Value) {
        if self.written.members(schema) == MemberDeclaration::Named {
            self.close(schema);
        }
        self.part(schema);
    }

    /// Handles a schema that describes only a part of a value; another schema describes the rest. Conditions (`if`, `not`,
    /// `contains`) stay open, because closed ones would match fewer values.
    fn part(&self, schema: &mut Value) {
        let Some(schema) = schema.as_object_mut() else { return };
        for keyword in ["properties", "patternProperties"] {
            each_member(schema, keyword, |inner| self.whole(inner));
        }
        for keyword in INSIDE {
            if let Some(inner) = schema.get_mut(keyword) {
                self.whole(inner);
            }
        }
        for keyword in ["prefixItems", "items"] {
            each_item(schema, keyword, |inner| self.whole(inner));
        }
        for keyword in ["dependentSchemas", "$defs", "definitions"] {
            each_member(schema, keyword, |inner| self.part(inner));
        }
        for keyword in IN_PLACE_LISTS {
            each_item(schema, keyword, |inner| self.part(inner));
        }
        for keyword in ["then", "else"] {
            if let Some(inner) = schema.get_mut(keyword) {
                self.part(inner);
            }
        }
    }

    fn close(&self, schema: &mut Value) {
        let all = self.written.declared_members(schema);
        let Some(members) = schema.as_object_mut() else { return };
        if members.contains_key("additionalProperties") || members.contains_key("unevaluatedProperties") {
            return;
        }
        let own = |keyword: &str, name: &String| members.get(keyword).is_some_and(|named| named.get(name).is_some());
        let complete = all.names.iter().all(|name| own("properties", name))
            && all.patterns.iter().all(|pattern| own("patternProperties", pattern));
        if complete {
            members.insert("additionalProperties".to_owned(), Value::Bool(false));
        } else if self.unevaluated {
            members.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
        } else {
            // Draft-07 has no `unevaluatedProperties`, and ignores everything beside a `$ref`.
            if let Some(reference) = members.remove("$ref") {
                *members = Map::from_iter([("allOf".to_owned(), json!([{ "$ref": reference }]))]);
            }
            declare(members, "properties", all.names);
            declare(members, "patternProperties", all.patterns);
            members.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
}

/// Declares members without constraining them.
fn declare(schema: &mut Map<String, Value>, keyword: &str, names: impl IntoIterator<Item = String>) {
    let declared = schema.entry(keyword).or_insert_with(|| json!({}));
    if let Some(declared) = declared.as_object_mut() {
        for name in names {
            declared.entry(name).or_insert(Value::Bool(true));
        }
    }
}

fn each_member(schema: &mut Map<String, Value>, keyword: &str, visit: impl FnMut(&mut Value)) {
    if let Some(Value::Object(members)) = schema.get_mut(keyword) {
        members.values_mut().for_each(visit);
    }
}

fn each_item(schema: &mut Map<String, Value>, keyword: &str, visit: impl FnMut(&mut Value)) {
    if let Some(Value::Array(items)) = schema.get_mut(keyword) {
        items.iter_mut().for_each(visit);
    }
}
