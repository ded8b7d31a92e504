//! `servanda identity`: what tools do, which can be mixed up, and what statements would do.

use serde_json::{Value, json};

use crate::{
    contract::{changes, reads},
    snapshot::Page,
    world::World,
};

/// The sample company with the demo's contracts, and two that declare less.
fn world() -> World {
    let world = World::empty();
    world.configure(&json!({ "company": world.sample(&[]) }));
    for (file, text) in servanda_sample::CONTRACTS {
        world.write(&format!("contracts/{file}"), text);
    }
    let query = json!({ "query": { "type": "string", "minLength": 1, "maxLength": 4000 } });
    world.add(&reads("peek").named("company.peek").input(&["query"], &query));
    world.add(&changes("poke").named("company.poke").input(&["query"], &query));
    world
}

#[test]
fn one_tool_is_shown() {
    let world = world();
    let mut page = Page::new(&world);
    for tool in ["company__read_query", "company__write_file", "company__get_invoice", "company__peek"] {
        page.run(&["identity", "show", tool]).ended(0);
    }
    page.run(&["identity", "show", "company__read_query", "--json"]).ended(0).json();
    page.run(&["identity", "show", "read_qery"]).ended(2);
    page.run(&["identity", "show", "company__read_query", "--config", "nope.yaml"]).ended(2);
    page.compare("identity_show");
}

#[test]
fn what_takes_the_same_arguments_is_listed() {
    let world = world();
    let mut page = Page::new(&world);
    let ran = page.run(&["identity", "confusions"]).ended(0);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    page.compare("identity_confusions");
    let groups = world.run(&["identity", "confusions", "--json"]).ended(0).json();
    let queries = groups.as_array().unwrap().iter().find(|group| group["parameters"] == json!(["query"])).unwrap();
    assert_eq!(queries["severity"], "high", "one reads and another writes");
    let named = |name: &str| queries["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == name).unwrap();
    assert_ne!(named("company__read_query")["identity"], named("company__write_query")["identity"]);
    assert_eq!(named("company__peek")["identity"], Value::Null);

    let alone = World::company([reads("get_invoice")]);
    let ran = alone.run(&["identity", "confusions"]).ended(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "no two of 1 tool take the same arguments\n"));
}

#[test]
fn definitions_are_classified_line_by_line() {
    let world = World::empty();
    let lines = [
        json!({ "id": "a:1", "server": "a", "name": "delete_file", "input_schema": { "type": "object", "properties": { "path": {} } },
            "annotations": { "readOnlyHint": false, "destructiveHint": true } }),
        json!({ "name": "list_invoices", "description": "List the invoices of a customer.", "inputSchema": { "type": "object" } }),
        json!({ "id": 3, "name": "frobnicate", "annotations": { "readOnlyHint": true } }),
    ];
    let text = format!("{}\n", lines.each_ref().map(Value::to_string).join("\n"));
    world.write("tools.jsonl", &format!("{text}nonsense\n"));
    let told = |args: &[&str], code: i32| -> Vec<Value> {
        let ran = world.run(&[&["identity", "classify"], args].concat()).ended(code);
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let whole = told(&["tools.jsonl"], 2);
    let ids: Vec<&Value> = whole.iter().map(|line| &line["id"]).collect();
    assert_eq!(json!(ids), json!(["a:1", "list_invoices", 3, null]), "in order, and each with its id");
    assert_eq!((&whole[0]["mutability"], &whole[0]["action"]), (&json!("MUTATES"), &json!("DELETE")));
    assert_eq!(whole[1]["mutability"], "PURE");
    assert!(whole[3]["error"].as_str().unwrap().contains("could not be read"));
    for field in ["mutability", "action", "output_domain", "content_type"] {
        assert!(whole[0]["confidence"][field].is_number() && whole[0]["evidence"][field].is_array(), "{}", whole[0]);
    }
    world.write("good.jsonl", &text);
    let nameless = told(&["good.jsonl", "--without-names"], 0);
    let evidence = |line: &Value| line["evidence"].to_string();
    assert_ne!(evidence(&whole[0]), evidence(&nameless[0]), "a name is evidence");
    let unhinted = told(&["good.jsonl", "--without-names", "--ignore-annotations"], 0);
    assert_ne!(evidence(&nameless[0]), evidence(&unhinted[0]), "an author's hint is evidence");
    assert_eq!(told(&["good.jsonl"], 0)[..3], whole[..3], "the same every time");
}

/// One answer per line, in order, whatever the lines contain.
#[test]
fn statements_are_answered_line_by_line() {
    let world = World::empty();
    let lines = [
        r#"{"id": 7, "sql": "SELECT 1", "dialect": "sqlite"}"#,
        r#"{"sql": "DELETE FROM users", "dialect": "postgresql", "effect": "read", "source": "a liar"}"#,
        r#"{"shell": "ls | sort", "dialect": "bash"}"#,
        r#"{"id": "x", "shell": "rm -r /tmp/a"}"#,
        r#"{"sql": "CREATE TABLE t (a)"}"#,
        r#"{"sql": "SELECT launch()", "dialect": "postgresql"}"#,
    ];
    let bad = [
        "not json",
        "",
        r#"{"id": 9, "dialect": "sqlite"}"#,
        r#"{"sql": "SELECT 1", "shell": "ls"}"#,
        r#"{"sql": "SELECT 1", "dialect": "klingon"}"#,
        r#"{"sql": "SELECT 1", "sql": "DELETE FROM a"}"#,
    ];
    world.write("good.jsonl", &lines.join("\n"));
    world.write("bad.jsonl", &format!("{}\n{}\n", bad.join("\n"), lines[0]));
    let mut page = Page::new(&world);
    let ran = page.run(&["identity", "effects", "good.jsonl"]).ended(0);
    let effects: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["effect"].clone()).collect();
    assert_eq!(json!(effects), json!(["read", "write", "read", "unknown", "ddl", "unknown"]));
    let ran = page.run(&["identity", "effects", "bad.jsonl"]).ended(2);
    assert_eq!(ran.stdout.lines().count(), bad.len() + 1, "order and count are kept");
    page.run(&["identity", "effects", "missing.jsonl"]).ended(2);
    page.compare("identity_effects");

    let piped = world.run_with_input(&["identity", "effects", "-"], lines[0]).ended(0);
    assert_eq!(piped.stdout.lines().count(), 1);
    let long = format!("{{\"sql\": \"SELECT '{}'\"}}\n{}", "x".repeat(5 * 1024 * 1024), lines[0]);
    let ran = world.run_with_input(&["identity", "effects", "-"], &long).ended(2);
    let answers: Vec<&str> = ran.stdout.lines().collect();
    assert!(answers[0].contains("unknown") && answers[1].contains("read") && answers.len() == 2, "{answers:?}");
    assert!(ran.stderr.starts_with("line 1: it is longer than"), "{}", ran.stderr);
}
