//! Tools of real MCP servers, read in place.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use crate::{
    schema::{CompiledSchema, SchemaError, SchemaProfile, defaults},
    testing::shared,
};

#[test]
fn real_tools_compile() {
    let Some(file) = shared("corpora/tools/tools.jsonl") else { return };
    let text = fs::read_to_string(file).unwrap();
    let (mut tools, mut compiled, mut reasons) = (0, 0, BTreeMap::<&str, usize>::new());
    let (mut with_broken_defaults, mut unusable) = (0, Vec::new());
    for line in text.lines() {
        let tool: Value = serde_json::from_str(line).unwrap();
        let schema = tool["input_schema"].as_object().unwrap();
        tools += 1;
        match CompiledSchema::compile(schema, SchemaProfile::Arguments) {
            Ok(enforced) => {
                compiled += 1;
                let written = defaults::find(&tool["input_schema"]).len();
                with_broken_defaults += usize::from(defaults::find(enforced.effective()).len() < written);
                // A default that Servanda fills in must never make a call refused.
                let mut arguments = json!({});
                let before = enforced.judge(&arguments).into_all();
                enforced.apply_defaults(&mut arguments);
                let after = enforced.judge(&arguments).into_all();
                if after.iter().any(|error| before.iter().all(|other| other.pointer != error.pointer)) {
                    unusable.push(format!("{}: {after:?}", tool["id"]));
                }
            }
            Err(SchemaError::Pattern { .. }) => *reasons.entry("a pattern with look-around").or_default() += 1,
            Err(SchemaError::Invalid { reason, .. }) if reason == "true is not of type \"number\"" => {
                *reasons.entry("`exclusiveMinimum: true` of draft-04").or_default() += 1;
            }
            Err(error) => panic!("{}: {error}", tool["id"]),
        }
    }
    println!(
        "tools.jsonl: {compiled}/{tools} input schemas compile, {with_broken_defaults} had broken defaults: {reasons:#?}"
    );
    assert_eq!(tools, 6_804);
    assert_eq!(unusable, Vec::<String>::new());
    // Neither can be enforced as written: the first needs a backtracking engine, the second is not valid in any dialect that
    // these tools name.
    let expected = [("a pattern with look-around", 15), ("`exclusiveMinimum: true` of draft-04", 3)];
    assert_eq!(reasons, expected.into_iter().collect());
}
