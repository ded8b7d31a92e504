//! `servanda call`: its output, its input and its exit codes.

use serde_json::json;

use crate::{
    contract::{changes, count_effects, get_invoice, pay_invoice, reads, slow_read},
    world::World,
};

const PAYMENT: &str = r#"{"invoice_id":"inv_1003","amount_cents":100,"currency":"CHF"}"#;

#[test]
fn a_call_that_passes() {
    let world = World::company([pay_invoice(), count_effects()]);
    let ran = world.call("company__pay_invoice", PAYMENT).ended(0);
    let paid: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(paid["amount_cents"], 100);
    assert!(ran.stderr.contains("· SUCCESS ·"), "{}", ran.stderr);
    assert_eq!(world.effects(), 1);
    let record = world.record(&ran.call_id());
    assert_eq!((&record["outcome"], &record["contract"]["effect_class"]), (&json!("completed"), &json!("N")));
    assert!(record["proposal_digest"].is_string() && record["answer_digest"].is_string());
    let gates: Vec<_> = record["verdicts"].as_array().unwrap().iter().map(|verdict| verdict["gate"].clone()).collect();
    assert_eq!(
        json!(gates),
        json!([
            "resolve",
            "parse",
            "structure",
            "types",
            "bounds",
            "semantics",
            "behaviour",
            "scope",
            "policy",
            "state",
            "confirmation",
            "budget",
            "fence",
            "perform",
            "observe"
        ])
    );
}

#[test]
fn json_is_the_whole_result_and_nothing_else() {
    let world = World::company([get_invoice(), reads("misbehave_slow")]);
    let ran = world.run(&["call", "--json", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#]).ended(0);
    assert_eq!(ran.json()["structuredContent"]["invoice_id"], "inv_1001");
    assert_eq!(ran.json()["_meta"]["servanda/call"]["class"], "SUCCESS");
    assert_eq!(ran.stderr, "");
    for (args, code) in [
        (["company__get_invoice", r#"{"invoice_id":"inv_9999"}"#], 3),
        (["company__get_invoice", r#"{"invoice_id":1}"#], 3),
        (["company__get_invoce", "{}"], 3),
    ] {
        let ran = world.run(&[&["call", "--json"], &args as &[&str]].concat()).ended(code);
        assert!(ran.json().is_object(), "{args:?}");
        let told: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(told["error"]["exit_code"], code);
    }
}

#[test]
fn arguments_come_from_the_line_from_stdin_or_not_at_all() {
    let world = World::company([get_invoice(), count_effects()]);
    world.run_with_input(&["call", "company__get_invoice", "-"], r#"{"invoice_id": "inv_1001"}"#).ended(0);
    world.run(&["call", "company__count_effects"]).ended(0);
    world.run_with_input(&["call", "company__count_effects", "-"], "").ended(0);
    for bad in ["{", "[]", "null", "{'a': 1}", r#"{"a": NaN}"#, r#"{"invoice_id":"inv_1001",}"#, "-1"] {
        let ran = world.call("company__get_invoice", bad).ended(3);
        assert!(ran.stderr.starts_with("error: refused at parse"), "{bad}: {}", ran.stderr);
    }
}

#[test]
fn an_error_of_the_tool_is_the_tools_own_text() {
    let world = World::company([get_invoice()]);
    let ran = world.call("company__get_invoice", r#"{"invoice_id":"inv_9999"}"#).ended(3);
    assert_eq!(ran.stdout, "no such invoice: `inv_9999`\n");
    assert!(ran.stderr.contains("error: the tool reported an error\nhint: servanda explain call_"), "{}", ran.stderr);
    assert_eq!(world.record(&ran.call_id())["outcome"], "tool_error");
}

#[test]
fn a_misspelt_tool_is_told_what_was_meant() {
    let world = World::company([get_invoice()]);
    for tool in ["company__get_invoce", "get_invoice"] {
        let ran = world.call(tool, "{}").ended(3);
        assert!(ran.stderr.contains("did you mean `company__get_invoice`?"), "{tool}: {}", ran.stderr);
    }
    let ran = world.call("something_else_entirely", "{}").ended(3);
    assert!(!ran.stderr.contains("did you mean"), "{}", ran.stderr);
    assert!(!world.has("books.db"), "no upstream was started for it");
}

#[test]
fn a_callers_own_limit_is_kept() {
    let world = World::company([slow_read()]);
    let ran =
        world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":60000}"#, "--timeout-ms", "2000"]).ended(3);
    assert!(ran.stderr.contains("no answer within"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: raise --timeout-ms"), "{}", ran.stderr);
    let record = world.record(&ran.call_id());
    assert_eq!(record["deadline_ms"], 2000);
    assert_eq!((&record["class"], &record["refusal"]["effect"]), (&json!("TIMEOUT"), &json!("none")));
}

/// Exit code 4: the call was sent, and its outcome is unknown.
#[test]
fn an_unknown_outcome_has_its_own_exit_code() {
    let world = World::company([changes("misbehave_die"), count_effects()]);
    let ran = world.call("company__misbehave_die", "{}").ended(4);
    assert!(ran.stderr.contains("do not send it again"), "{}", ran.stderr);
    let record = world.record(&ran.call_id());
    assert_eq!((&record["outcome"], &record["refusal"]["effect"]), (&json!("unknown"), &json!("unknown")));
    world.call("company__count_effects", "{}").ended(0);
}

/// Exit code 1: the command line is correct.
#[test]
fn a_ledger_that_cannot_be_opened_stops_everything() {
    let world = World::company([pay_invoice()]);
    world.write(".servanda", "a file where a folder should be");
    let ran = world.call("company__pay_invoice", PAYMENT).ended(1);
    assert!(ran.stderr.contains("cannot make the ledger's folder") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    assert!(!world.has("books.db"), "what cannot be recorded is not done");
    std::fs::remove_file(world.path(".servanda")).unwrap();
    world.write(".servanda/ledger.db", &"this is no database ".repeat(100));
    let ran = world.call("company__pay_invoice", PAYMENT).ended(2);
    assert!(ran.stderr.contains("ledger.db"), "{}", ran.stderr);
    assert!(!world.has("books.db"));
}
