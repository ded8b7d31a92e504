//! Compares the pinned definition with the live one: texts, hints and schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Definition,
    difference::{Difference, DifferenceCollector, DifferenceSeverity, text},
    schema,
};

/// Every difference between the pinned definition and the live one; empty if they are identical.
pub fn compare(pinned: &Definition, live: &Definition) -> Vec<Difference> {
    let mut found = DifferenceCollector::default();
    text(&mut found, "/name", Some(&pinned.name), Some(&live.name));
    text(&mut found, "/title", pinned.title.as_deref(), live.title.as_deref());
    text(&mut found, "/description", pinned.description.as_deref(), live.description.as_deref());
    hints(&mut found, pinned, live);
    schema::compare_input(&mut found, &pinned.input_schema, &live.input_schema);
    schema::compare_output(&mut found, pinned.output_schema.as_deref(), live.output_schema.as_deref());
    found.sorted()
}

fn hints(found: &mut DifferenceCollector, pinned: &Definition, live: &Definition) {
    // A missing hint means the careful default of the protocol: not read-only, destructive, open world.
    let rows = [
        ("readOnlyHint", false, false, "it no longer says that it only reads"),
        ("destructiveHint", true, true, "it now says that it may destroy"),
        ("idempotentHint", false, false, "it no longer says that calling it twice has the effect of one call"),
        ("openWorldHint", true, true, "it now says that it reaches outside"),
    ];
    for (name, default, worse, what) in rows {
        let (before, after) = (pinned.hint(name).unwrap_or(default), live.hint(name).unwrap_or(default));
        let pointer = format!("/annotations/{name}");
        if before != after {
            let severity = if after == worse { DifferenceSeverity::Dangerous } else { DifferenceSeverity::Additive };
            let what = if after == worse { what } else { "its hint became milder" };
            found.add_with(severity, &pointer, what, Some(before.to_string()), Some(after.to_string()));
        }
    }
    let names: BTreeSet<&String> = live.annotations.keys().chain(pinned.annotations.keys()).collect();
    for name in names {
        let known = rows.iter().any(|(hint, ..)| hint == name);
        let (before, after) = (pinned.annotations.get(name), live.annotations.get(name));
        let pointer = format!("/annotations/{name}");
        if name == "title" {
            text(found, &pointer, before.and_then(Value::as_str), after.and_then(Value::as_str));
        } else if !known && before != after {
            found.add(DifferenceSeverity::Additive, &pointer, "an annotation changed");
        }
    }
}
