//! A hand-written contract that claims less than its tool's definition, or its author, says: every command reports it, the log does so
//! once, and no report follows once a person has answered it.

use serde_json::{Value, json};

use crate::{
    contract::{Contract, changes, reads},
    snapshot::Page,
    world::{World, until},
};

const PURGE: &str = "weather__purge_rows";

fn offered() -> Value {
    let input = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let tool = |name: &str, description: &str, hints: Value| json!({ "name": name, "description": description, "inputSchema": input, "annotations": hints });
    json!([
        tool("purge_rows", "Deletes every row of a city. This cannot be undone.", json!({})),
        tool("get_rows", "Get the rows of a city.", json!({ "readOnlyHint": false })),
        tool("lookup", "Look up a city.", json!({ "readOnlyHint": true })),
        tool("end", "Terminates the server.", json!({ "readOnlyHint": false })),
    ])
}

fn declared(contract: Contract, behaviour: Value) -> Contract {
    let city = json!({ "city": { "type": "string" } });
    let mut contract = contract.of("weather").input(&[], &city).timeout("standard");
    contract.0["behaviour"] = behaviour;
    contract.0["runtime"]["timeout_ms"] = json!(5_000);
    contract
}

fn look(tool: &str) -> Contract {
    declared(reads(tool), json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" }))
}

fn owned(mut contract: Contract) -> Contract {
    contract.0["identity"]["owner"] = json!("somebody else");
    contract
}

/// Three tools that are declared to read, of which only one does, and a tool that changes something.
fn world() -> World {
    let world = World::empty();
    world.offer(&offered());
    world.reconfigure(&[("listen", json!("127.0.0.1:0"))]);
    for tool in ["purge_rows", "get_rows", "lookup"] {
        world.add(&look(tool));
    }
    let ends = json!({ "mutability": "MUTATES", "action": "DELETE", "output_domain": "ACK" });
    world.add(&declared(changes("end"), ends));
    world.run(&["pin", "--all", "--yes"]).ended(0);
    world
}

#[test]
fn a_contract_that_says_too_little_is_told_of_and_can_be_answered_for() {
    let world = world();
    let mut page = Page::new(&world);
    page.run(&["check"]).ended(0);
    page.run(&["tools"]).ended(0);
    page.run(&["doctor"]).ended(0);
    page.run(&["identity", "show", PURGE]).ended(0);
    page.run(&["identity", "confusions"]).ended(0);
    let flagged = world.run(&["check", "--json"]).ended(0).json()["flagged"].clone();
    let names: Vec<&Value> = flagged.as_array().unwrap().iter().map(|one| &one["contract"]).collect();
    assert_eq!(json!(names), json!(["weather.get_rows", "weather.purge_rows"]));
    assert_eq!(
        (&flagged[0]["objections"][0]["by"], &flagged[1]["objections"][0]["by"]),
        (&json!("author"), &json!("definition"))
    );

    page.head("answered");
    let identity =
        |world: &World| world.run(&["identity", "show", PURGE, "--json"]).ended(0).json()["identity"].clone();
    let before = identity(&world);
    for tool in ["purge_rows", "get_rows"] {
        let mut contract = look(tool);
        contract.0["behaviour"]["reviewed"] = json!("it works on a copy that nobody keeps");
        world.add(&contract);
    }
    page.run(&["check"]).ended(0);
    page.run(&["identity", "show", PURGE]).ended(0);
    page.compare("doubts");
    assert_eq!(identity(&world), before, "an answer is no behaviour");
    for args in [&["check"] as &[&str], &["tools"], &["doctor"], &["identity", "confusions"]] {
        let ran = world.run(args).ended(0);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("the contract says"), "{args:?}: {}", ran.stdout);
    }
}

#[test]
fn the_log_says_it_once() {
    let world = world();
    let gateway = world.serve();
    let agent = gateway.modern();
    let told = || gateway.said().matches("seems to do more than its contract says").count();
    until("both to be told of", || (told() == 2).then_some(()));
    agent.call(PURGE, json!({})).success();
    // The server restarts, and the contracts are read again.
    agent.call("weather__end", json!({ "servanda_operation_id": "end 1" })).refusal();
    agent.call(PURGE, json!({})).success();
    world.add(&owned(look("lookup")));
    until("the files to be read again", || gateway.said().contains("calls in flight end as they began").then_some(()));
    agent.call(PURGE, json!({})).success();
    assert_eq!(told(), 2, "{}", gateway.said());
    // Another contract is reported separately.
    world.add(&owned(look("get_rows")));
    until("it to be told of again", || (told() == 3).then_some(()));
}
