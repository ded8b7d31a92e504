//! Every vector of tool identity, through the code of the `vectors` example.

use std::collections::BTreeMap;

use serde_json::{Value, json};

#[path = "../examples/vectors/runner/mod.rs"]
mod runner;

const VECTORS: &str = include_str!("tool-identity.json");

#[test]
fn all_core_vectors_pass_and_the_declined_ones_are_known() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let report = runner::run(&file).unwrap();
    assert!(!report.core_failed(), "{report}");
    assert_eq!(report.totals().0 + report.totals().1, 1548, "{report}");
    let declined = BTreeMap::from([
        ("approval_keys", 6),
        ("invocation_scope", 7),
        ("mcp_base_name", 2),
        ("mcp_prefixed_names", 1),
        ("mcp_server_display_name", 19),
        ("required_call_id_shell", 4),
    ]);
    assert_eq!(report.failed("reference"), declined, "{report}");
}

/// A runner that accepts everything would pass the test above.
#[test]
fn a_wrong_answer_an_unknown_function_and_a_vector_without_an_answer_fail() {
    let vector = |function: &str, members: Value| {
        let mut vector = json!({ "id": "x", "tier": "core", "function": function, "input": { "name": "search" } });
        vector.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let report = runner::run(&json!({ "vectors": [vector] })).unwrap();
        report.core_failed()
    };
    assert!(!vector("qualified_name", json!({ "expected": "search" })));
    assert!(vector("qualified_name", json!({ "expected": "other" })));
    assert!(vector("qualified_name", json!({ "expected": null })));
    assert!(vector("qualified_name", json!({ "error": { "type": "UserError", "code": "x" } })));
    assert!(vector("qualified_name", json!({})));
    assert!(vector("no_such_function", json!({ "expected": null })));
}
