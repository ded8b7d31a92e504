//! Exposed names: without prefix for a single upstream, and always acceptable to every provider.

use serde_json::{Value, json};

use crate::{
    contract::{count_effects, get_invoice, reads},
    pipe::modern,
    world::{World, until},
};

#[test]
fn bare_names_for_a_single_upstream() {
    let world = World::company([get_invoice(), count_effects()]);
    world.change_config(|config| config["names"] = json!("bare"));
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

/// Names that no provider would accept: long ones that differ only at their end, blanks, other scripts.
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
    // The upstream is called with its own names.
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

/// `init` writes valid contracts for such names.
#[test]
fn init_takes_every_name() {
    let world = World::empty();
    let result = json!({ "content": [] });
    let long = "x".repeat(150);
    let stub = world.stub(&["../../etc/passwd", "read file", "読む", &long, ".hidden", "list_things"], Some(&result));
    world.write(".mcp.json", &json!({ "mcpServers": { "the server": stub } }).to_string());
    let decided = world.run(&["init", "--yes", "--json"]).ended(0).json();
    for decision in decided["tools"].as_array().unwrap() {
        let file = decision["file"].as_str().unwrap_or_else(|| panic!("left out: {decision}"));
        assert_eq!(file, "contracts/the_server.yaml");
    }
    assert_eq!(decided["tools"].as_array().unwrap().len(), 6);
    world.run(&["check"]).ended(0);
}

/// The names of a tool while the gateway runs, after a restart, and after the tool is gone.
#[test]
fn a_name_that_an_agent_heard_means_its_tool_or_nothing() {
    let world = World::company([get_invoice(), count_effects()]).unpinned();
    let mut config: Value = serde_json::from_str(&world.read("servanda.yaml")).unwrap();
    let invoice = json!({ "invoice_id": "inv_1001" });
    let gateway = world.serve();
    let agent = gateway.modern();
    agent.call("company__get_invoice", invoice.clone()).success();
    config["names"] = json!("bare");
    world.configure_with(&config);
    until("the other names to be listed", || (agent.tools() == ["count_effects", "get_invoice"]).then_some(()));
    for agent in [gateway.modern(), gateway.legacy()] {
        for name in ["company__get_invoice", "get_invoice"] {
            assert_eq!(agent.call(name, invoice.clone()).success()["structuredContent"]["invoice_id"], "inv_1001");
        }
    }
    drop(gateway);
    // Another process, which never listed the old names.
    let ran = world.call("company__get_invoice", &invoice.to_string()).ended(0);
    assert!(ran.stdout.contains("inv_1001"), "{}", ran.stdout);
    std::fs::remove_file(world.path(&format!("contracts/{}.json", get_invoice().file_stem()))).unwrap();
    let gateway = world.serve();
    for name in ["company__get_invoice", "get_invoice"] {
        let reply = gateway.modern().call(name, invoice.clone());
        let told = format!("`{name}` is no longer offered by `company`");
        assert_eq!(
            (&reply.message["error"]["code"], &reply.message["error"]["message"]),
            (&json!(-32602), &json!(told))
        );
        world.record_of(name, "refused");
    }
    drop(gateway);
    // The same server with another id: agents know `count_effects` as the first one's tool.
    config["upstreams"] = json!({ "firm": config["upstreams"]["company"] });
    world.configure_with(&config);
    std::fs::remove_file(world.path(&format!("contracts/{}.json", count_effects().file_stem()))).unwrap();
    world.add(&count_effects().of("firm"));
    let gateway = world.serve();
    let [name] = &gateway.modern().tools()[..] else { panic!("one tool") };
    assert!(name.starts_with("count_effects_"), "{name}");
    gateway.modern().call(name, json!({})).success();
    let reply = gateway.modern().call("count_effects", json!({}));
    assert!(reply.message["error"]["message"].as_str().unwrap().contains("by `company`"), "{}", reply.message);
    let listed = world.run(&["tools", "--json"]).ended(0).json();
    assert_eq!(listed[0]["name"], json!(name), "people are shown what agents are");
    world.run(&["identity", "show", name]).ended(0);
}

#[test]
fn a_profile_is_chosen_in_the_configuration() {
    let world = World::empty();
    let result = json!({ "content": [{ "type": "text", "text": "done" }] });
    world.configure(&json!({ "company": world.stub(&["read.it"], Some(&result)) }));
    world.add(&reads("read.it").named("company.read"));
    let mut config: Value = serde_json::from_str(&world.read("servanda.yaml")).unwrap();
    let name = |world: &World| world.run(&["tools", "--json", "--offline"]).ended(0).json()[0]["name"].clone();
    let portable = name(&world);
    assert_ne!(portable, "company__read.it");
    world.call(portable.as_str().unwrap(), "{}").ended(0);
    for (profile, plain) in
        [("portable", false), ("openai", false), ("anthropic", false), ("gemini", true), ("mcp", true)]
    {
        config["name_profile"] = json!(profile);
        world.configure_with(&config);
        assert_eq!(name(&world) == "company__read.it", plain, "{profile}");
    }
    world.call(portable.as_str().unwrap(), "{}").ended(0);
    config["name_profile"] = json!("cohere");
    world.configure_with(&config);
    let ran = world.run(&["check"]).ended(2);
    assert!(ran.stderr.contains("name_profile") && ran.stderr.contains("anthropic"), "{}", ran.stderr);
}
