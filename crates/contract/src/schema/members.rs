//! What a schema says about the members of an object, collected from everything that applies to the same object: `allOf`,
//! `anyOf`, `oneOf`, `if`, local references.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords with one schema that applies to the same object, except references.
const IN_PLACE: [&str; 3] = ["if", "then", "else"];
/// Keywords with a list of such schemas.
pub(super) const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const ALTERNATIVES: [&str; 2] = ["anyOf", "oneOf"];
/// The limit for references that refer to themselves.
const DEPTH_MAX: usize = 32;

/// A document whose local references can be resolved.
#[derive(Clone, Copy)]
pub(super) struct ReferenceResolver<'a>(pub(super) &'a Value);

/// What a schema says about the members of an object. If several schemas apply, the greatest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemberDeclaration {
    /// Any object is valid.
    Free,
    /// No object is valid.
    None,
    /// The schema names members.
    Named,
    /// The schema itself says whether other members are allowed, or it cannot be determined.
    Explicit,
}

/// The names and patterns of an object's members, wherever they are declared.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DeclaredMembers {
    pub(super) names: BTreeSet<String>,
    pub(super) patterns: BTreeSet<String>,
}

impl<'a> ReferenceResolver<'a> {
    /// What a reference inside this document points to.
    pub(super) fn resolve(self, reference: &str) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#')?;
        self.0.pointer(&percent_decoded(fragment)?)
    }

    /// The schema behind a chain of references. The caller handles defaults beside each reference.
    pub(super) fn behind_references(self, mut schema: &'a Value) -> Option<&'a Map<String, Value>> {
        for _ in 0..DEPTH_MAX {
            let members = schema.as_object()?;
            match members.get("$ref").and_then(Value::as_str) {
                Some(reference) => schema = self.resolve(reference)?,
                None => return Some(members),
            }
        }
        None
    }

    /// What a schema says about an object's members.
    pub(super) fn members(self, schema: &Value) -> MemberDeclaration {
        self.members_at(schema, 0)
    }

    /// Every name and pattern a schema declares for an object's members.
    pub(super) fn declared_members(self, schema: &Value) -> DeclaredMembers {
        let mut names = DeclaredMembers::default();
        self.collect_names(schema, &mut names, 0);
        names
    }

    fn members_at(self, schema: &Value, depth: usize) -> MemberDeclaration {
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return MemberDeclaration::None,
            _ => return MemberDeclaration::Free,
        };
        if depth > DEPTH_MAX || schema.contains_key("$dynamicRef") || schema.contains_key("$recursiveRef") {
            return MemberDeclaration::Explicit;
        }
        let mut found = own_members(schema);
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let referred = self
                .resolve(reference)
                .map_or(MemberDeclaration::Explicit, |target| self.members_at(target, depth + 1));
            found = found.max(referred);
        }
        for part in list(schema, "allOf") {
            found = found.max(self.members_at(part, depth + 1));
        }
        for keyword in ALTERNATIVES {
            let alternatives = list(schema, keyword);
            if found < MemberDeclaration::Named && !alternatives.is_empty() {
                let alternatives = alternatives.iter().map(|alternative| self.members_at(alternative, depth + 1));
                found = found.max(among(alternatives));
            }
        }
        found
    }

    fn collect_names(self, schema: &Value, into: &mut DeclaredMembers, depth: usize) {
        let Some(schema) = schema.as_object() else { return };
        if depth > DEPTH_MAX {
            return;
        }
        into.names.extend(keys(schema, "properties"));
        into.patterns.extend(keys(schema, "patternProperties"));
        let referred = schema.get("$ref").and_then(Value::as_str).and_then(|reference| self.resolve(reference));
        let single = IN_PLACE.iter().filter_map(|keyword| schema.get(*keyword));
        let listed = IN_PLACE_LISTS.iter().flat_map(|keyword| list(schema, keyword));
        let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
        let dependent = dependent.into_iter().flat_map(|schemas| schemas.values());
        for inner in referred.into_iter().chain(single).chain(listed).chain(dependent) {
            self.collect_names(inner, into, depth + 1);
        }
    }
}

/// What a schema says by itself, without references and subschemas.
fn own_members(schema: &Map<String, Value>) -> MemberDeclaration {
    let others = schema.get("additionalProperties").or_else(|| schema.get("unevaluatedProperties"));
    match others {
        Some(Value::Bool(false)) => return MemberDeclaration::Named,
        Some(_) => return MemberDeclaration::Explicit,
        None => {}
    }
    if schema.contains_key("properties") || schema.contains_key("patternProperties") {
        return MemberDeclaration::Named;
    }
    let is_object = |name: &Value| name == "object";
    let may_be_object = match (schema.get("type"), schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(names)), ..) => names.iter().any(is_object),
        (Some(name), ..) => is_object(name),
        (None, Some(Value::Array(options)), _) => options.iter().any(Value::is_object),
        (None, _, Some(constant)) => constant.is_object(),
        _ => true,
    };
    if may_be_object { MemberDeclaration::Free } else { MemberDeclaration::None }
}

/// If one of several alternatives takes any object, any object is valid.
fn among(alternatives: impl Iterator<Item = MemberDeclaration>) -> MemberDeclaration {
    let objects: Vec<MemberDeclaration> = alternatives.filter(|members| *members != MemberDeclaration::None).collect();
    if objects.contains(&MemberDeclaration::Explicit) {
        return MemberDeclaration::Explicit;
    }
    objects.into_iter().min().unwrap_or(MemberDeclaration::None)
}

/// Every schema that a schema applies to the same value, except references.
pub(super) fn in_place(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let single = ["if", "then", "else", "not"].iter().filter_map(|keyword| schema.get(*keyword));
    let listed = IN_PLACE_LISTS.iter().flat_map(|keyword| list(schema, keyword));
    // Draft-07 has them under `dependencies`, mixed with lists of names.
    let dependent = ["dependentSchemas", "dependencies"].iter().filter_map(|keyword| schema.get(*keyword)?.as_object());
    single.chain(listed).chain(dependent.flat_map(Map::values))
}

pub(super) fn list<'s>(schema: &'s Map<String, Value>, keyword: &str) -> &'s [Value] {
    schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn keys(schema: &Map<String, Value>, keyword: &str) -> impl Iterator<Item = String> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(|members| members.keys().cloned())
}

/// A decoded URI fragment; `None` if it is not UTF-8 or an escape is broken.
fn percent_decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
