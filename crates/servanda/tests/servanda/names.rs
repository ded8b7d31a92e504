//! Exposed names: without prefix for a single upstream, and always such that every provider takes them.

use serde_json::{Value, json};

use crate::{
    contract::{count_effects, get_invoice, reads},
    pipe::modern,
    world::World,
};

#[test]
fn bare_names_for_a_single_upstream() {
    let world = World::company([get_invoice(), count_effects()]);
    let mut config: Value = serde_json::from_str(&world.read("servanda.yaml")).unwrap();
    config["names"] = json!("bare");
    world.configure_with(&config);
    world.run(&["check"]).ended(0);
    let listed = world.run(&["tools", "--json"]).ended(0).json();
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&json!("count_effects"), &json!("get_invoice")));
    world.call("get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(0);
    let ran = world.call("company__get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(3);
    assert!(ran.stderr.contains("refused at resolve"), "a prefix is not taken off: {}", ran.stderr);
    let gateway = world.serve();
    for agent in [gateway.legacy(), gateway.modern()] {
        assert_eq!(agent.tools(), ["count_effects", "get_invoice"]);
        let reply = agent.call("get_invoice", json!({ "invoice_id": "inv_1001" }));
        assert_eq!(reply.success()["structuredContent"]["invoice_id"], "inv_1001");
    }
    let mut pipe = world.stdio();
    pipe.ask(&modern(1, "tools/call", json!({ "name": "count_effects" }))).success();
}

/// Names that no provider would take: long ones that differ only at their end, blanks, other scripts.
#[test]
fn names_that_providers_would_refuse() {
    let long = "summarize_everything_that_ever_happened_between_two_dates_in_the_company_";
    let tools =
        [format!("{long}a"), format!("{long}b"), "read file".to_owned(), "読む".to_owned(), "9lives".to_owned()];
    let world = World::empty();
    let result = json!({ "content": [{ "type": "text", "text": "done" }] });
    let offered: Vec<&str> = tools.iter().map(String::as_str).collect();
    world.configure(&json!({ "company": world.stub(&offered, Some(&result)) }));
    for (number, tool) in tools.iter().enumerate() {
        world.add(&reads(tool).named(&format!("company.tool_{number}")));
    }
    world.run(&["check"]).ended(0);
    let gateway = world.serve();
    let agent = gateway.modern();
    let names = agent.tools();
    assert_eq!(names.len(), tools.len(), "{names:?}");
    for name in &names {
        assert!(name.len() <= 63 && name.starts_with("company_"), "{name}");
        assert!(name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character)), "{name}");
        agent.call(name, json!({})).success();
    }
    // The upstream is called by its own names.
    let heard = world.stub_heard("tools/call");
    for tool in &tools {
        assert!(heard.contains(&format!("\"name\":\"{tool}\"")), "{tool}:\n{heard}");
    }
    drop(gateway);
    assert_eq!(world.serve().modern().tools(), names, "a name stays");
    let listed = world.run(&["tools", "--json"]).ended(0).json();
    let states: Vec<&Value> = listed.as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert!(states.iter().all(|state| **state == "offered"), "{states:?}");
}

/// `init` on such names writes contracts that are good.
#[test]
fn init_takes_every_name() {
    let world = World::empty();
    let result = json!({ "content": [] });
    let long = "x".repeat(150);
    let stub = world.stub(&["../../etc/passwd", "read file", "読む", &long, ".hidden", "list_things"], Some(&result));
    world.write(".mcp.json", &json!({ "mcpServers": { "the server": stub } }).to_string());
    let decided = world.run(&["init", "--json"]).ended(0).json();
    for decision in decided["tools"].as_array().unwrap() {
        let file = decision["file"].as_str().unwrap_or_else(|| panic!("left out: {decision}"));
        let name = file.strip_prefix("contracts/the_server/").unwrap_or_else(|| panic!("outside: {file}"));
        assert!(!name.contains('/') && !name.starts_with('.'), "{file}");
    }
    assert_eq!(decided["tools"].as_array().unwrap().len(), 6);
    world.run(&["check"]).ended(0);
}
