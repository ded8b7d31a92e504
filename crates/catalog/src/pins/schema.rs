//! What a change of a JSON Schema means to a sender of values (input) or a reader of values (output).
//!
//! A changed keyword that this comparison does not understand counts as breaking: asking for a review is better than guessing.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::difference::{DifferenceCollector, DifferenceSeverity, shorten, text};

/// The side of a schema: a change that narrows one side widens the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaSide {
    Input,
    Output,
}

/// Limits and the direction in which each narrows.
const LIMITS: [(&str, bool); 10] = [
    ("minimum", true),
    ("exclusiveMinimum", true),
    ("minLength", true),
    ("minItems", true),
    ("minProperties", true),
    ("maximum", false),
    ("exclusiveMaximum", false),
    ("maxLength", false),
    ("maxItems", false),
    ("maxProperties", false),
];
/// Keywords that only narrow: adding one narrows, removing one widens, changing one is not comparable.
const NARROWING: [&str; 5] = ["pattern", "format", "multipleOf", "uniqueItems", "const"];
/// Keywords that do not constrain values.
const SILENT: [&str; 6] = ["$schema", "$id", "$comment", "examples", "deprecated", "x-token-cost"];

pub(super) fn compare_input(found: &mut DifferenceCollector, before: &Map<String, Value>, after: &Map<String, Value>) {
    compare(found, "/inputSchema", before, after, SchemaSide::Input);
}

pub(super) fn compare_output(
    found: &mut DifferenceCollector,
    before: Option<&Map<String, Value>>,
    after: Option<&Map<String, Value>>,
) {
    match (before, after) {
        (None, None) => {}
        (None, Some(_)) => {
            found.add(DifferenceSeverity::Additive, "/outputSchema", "it now promises a structured result");
        }
        (Some(_), None) => {
            found.add(DifferenceSeverity::Breaking, "/outputSchema", "it no longer promises a structured result");
        }
        (Some(before), Some(after)) => compare(found, "/outputSchema", before, after, SchemaSide::Output),
    }
}

fn compare(
    found: &mut DifferenceCollector,
    at: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    side: SchemaSide,
) {
    let keywords: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for keyword in keywords {
        let (old, new) = (before.get(keyword), after.get(keyword));
        if old == new || SILENT.contains(&keyword.as_str()) {
            continue;
        }
        let pointer = format!("{at}/{keyword}");
        match keyword.as_str() {
            "description" | "title" => text(found, &pointer, old.and_then(Value::as_str), new.and_then(Value::as_str)),
            "properties" | "$defs" | "definitions" => members(found, &pointer, (old, new), after, side),
            "required" => required(found, &pointer, (old, new), after, side),
            "type" => set(found, &pointer, "the type", (old, new), side),
            "enum" => set(found, &pointer, "the values", (old, new), side),
            "items" | "additionalProperties" | "additionalItems" => inner(found, &pointer, (old, new), side),
            _ => plain(found, &pointer, keyword, (old, new), side),
        }
    }
}

type SchemaPair<'a> = (Option<&'a Value>, Option<&'a Value>);

fn members(
    found: &mut DifferenceCollector,
    at: &str,
    (old, new): SchemaPair<'_>,
    after: &Map<String, Value>,
    side: SchemaSide,
) {
    let empty = Map::new();
    let old = old.and_then(Value::as_object).unwrap_or(&empty);
    let new = new.and_then(Value::as_object).unwrap_or(&empty);
    for (name, member) in old {
        let pointer = format!("{at}/{name}");
        match new.get(name) {
            None => {
                found.add_with(
                    DifferenceSeverity::Breaking,
                    &pointer,
                    format!("`{name}` is gone"),
                    Some(shown(member)),
                    None,
                );
            }
            Some(now) => inner(found, &pointer, (Some(member), Some(now)), side),
        }
    }
    for (name, member) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let pointer = format!("{at}/{name}");
        let required = after.get("required").and_then(Value::as_array);
        let demanded = required.is_some_and(|names| names.iter().any(|required| required == name));
        let (severity, what) = if side == SchemaSide::Input && is_free_text(member) {
            (DifferenceSeverity::Dangerous, "is new and takes free text")
        } else if side == SchemaSide::Input && demanded && member.get("default").is_none() {
            (DifferenceSeverity::Breaking, "is new and required")
        } else {
            (DifferenceSeverity::Additive, "is new")
        };
        found.add_with(severity, &pointer, format!("`{name}` {what}"), None, Some(shown(member)));
    }
}

/// A schema as text.
fn shown(schema: &Value) -> String {
    shorten(&schema.to_string())
}

/// A place for arbitrary text: secrets can leave through it and instructions can enter.
fn is_free_text(schema: &Value) -> bool {
    let has = |keyword: &str| schema.get(keyword).is_some();
    let text = match schema.get("type") {
        Some(Value::String(named)) => named == "string",
        Some(Value::Array(named)) => named.iter().any(|named| named == "string"),
        _ => !has("properties") && !has("items") && !has("enum") && !has("const"),
    };
    text && !has("enum") && !has("const") && !has("pattern") && !has("format")
}

fn required(
    found: &mut DifferenceCollector,
    at: &str,
    (old, new): SchemaPair<'_>,
    after: &Map<String, Value>,
    side: SchemaSide,
) {
    let names = |value: Option<&Value>| -> BTreeSet<String> {
        let names = value.and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (old, new) = (names(old), names(new));
    for name in new.difference(&old) {
        let schema = after.get("properties").and_then(|properties| properties.get(name));
        // A new required property was already reported at its own place.
        let excused = schema.is_some_and(|schema| schema.get("default").is_some());
        if side == SchemaSide::Input && !excused {
            found.add(DifferenceSeverity::Breaking, at, format!("`{name}` is now required"));
        }
    }
    for name in old.difference(&new) {
        let severity =
            if side == SchemaSide::Input { DifferenceSeverity::Additive } else { DifferenceSeverity::Breaking };
        found.add(severity, at, format!("`{name}` is no longer required"));
    }
}

/// Compares a keyword whose value is one word or a list: fewer words narrow, more widen.
fn set(found: &mut DifferenceCollector, at: &str, what: &str, (old, new): SchemaPair<'_>, side: SchemaSide) {
    let values = |value: Option<&Value>| -> Option<Vec<Value>> {
        value.map(|value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]))
    };
    let (old, new) = (values(old), values(new));
    let within = |inner: &Option<Vec<Value>>, outer: &Option<Vec<Value>>| match (inner, outer) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(inner), Some(outer)) => inner.iter().all(|value| outer.contains(value)),
    };
    match (within(&old, &new), within(&new, &old)) {
        (true, true) => {}
        (true, false) => found.add(widened(side), at, format!("{what} became wider")),
        (false, true) => found.add(narrowed(side), at, format!("{what} became narrower")),
        (false, false) => found.add(DifferenceSeverity::Breaking, at, format!("{what} changed")),
    }
}

/// A schema inside a schema; `true` and absence accept anything, `false` nothing.
fn inner(found: &mut DifferenceCollector, at: &str, (old, new): SchemaPair<'_>, side: SchemaSide) {
    let open = Map::new();
    let object = |value: Option<&Value>| match value {
        None | Some(Value::Bool(true)) => Some(open.clone()),
        Some(Value::Object(schema)) => Some(schema.clone()),
        _ => None,
    };
    match (object(old), object(new)) {
        (Some(old), Some(new)) => compare(found, at, &old, &new, side),
        (None, Some(_)) if old == Some(&Value::Bool(false)) => found.add(widened(side), at, "it takes more now"),
        (Some(_), None) if new == Some(&Value::Bool(false)) => found.add(narrowed(side), at, "it takes less now"),
        _ => found.add(DifferenceSeverity::Breaking, at, "it changed"),
    }
}

fn plain(found: &mut DifferenceCollector, at: &str, keyword: &str, (old, new): SchemaPair<'_>, side: SchemaSide) {
    let shown = |value: Option<&Value>| value.map(|value| shorten(&value.to_string()));
    let limit = LIMITS.iter().find(|(name, _)| *name == keyword);
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let narrows = match (limit, number(old), number(new)) {
        (Some((_, rising)), Some(old), Some(new)) => Some((new > old) == *rising),
        (Some(_), None, Some(_)) => Some(true),
        (Some(_), Some(_), None) => Some(false),
        _ if NARROWING.contains(&keyword) && old.is_none() => Some(true),
        _ if NARROWING.contains(&keyword) && new.is_none() => Some(false),
        _ => None,
    };
    let (severity, what) = match narrows {
        Some(true) => (narrowed(side), format!("`{keyword}` is tighter")),
        Some(false) => (widened(side), format!("`{keyword}` is looser")),
        None => (DifferenceSeverity::Breaking, format!("`{keyword}` changed")),
    };
    found.add_with(severity, at, what, shown(old), shown(new));
}

/// Accepting less breaks senders. Returning less still keeps what readers were promised.
const fn narrowed(side: SchemaSide) -> DifferenceSeverity {
    match side {
        SchemaSide::Input => DifferenceSeverity::Breaking,
        SchemaSide::Output => DifferenceSeverity::Additive,
    }
}

const fn widened(side: SchemaSide) -> DifferenceSeverity {
    match side {
        SchemaSide::Input => DifferenceSeverity::Additive,
        SchemaSide::Output => DifferenceSeverity::Breaking,
    }
}
