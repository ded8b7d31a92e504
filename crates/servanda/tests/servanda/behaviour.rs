//! Gate 6 over the wire: what a client says a call is for, and the programs among its arguments.

use serde_json::{Value, json};

use crate::{
    agent::Agent,
    contract::{Contract, changes, reads},
    world::World,
};

fn contracts() -> [Contract; 2] {
    let query = json!({ "query": { "type": "string", "x-effect": "sqlite" } });
    let (mut read, mut write) =
        (reads("read_query").input(&["query"], &query), changes("write_query").input(&["query"], &query));
    read.0["behaviour"] = json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" });
    write.0["behaviour"] = json!({ "mutability": "MUTATES", "action": "OVERWRITE", "output_domain": "DATA" });
    [read, write]
}

fn world() -> World {
    let world = World::empty();
    world.configure_with(&json!({
        "servanda": 1, "upstreams": { "company": world.sample(&[]) }, "pins": { "missing": "ignore" },
        "tasks": { "read-only triage": { "allow": [{ "mutability": "PURE" }] } },
        "expectations": { "no rewriting by visitors": { "clients": ["visitor"], "allow": [{ "mutability": "PURE" }] } },
    }));
    for contract in contracts() {
        world.add(&contract);
    }
    world
}

fn ask(agent: &Agent, tool: &str, query: &str, meta: &Value) -> crate::agent::Reply {
    agent.ask("tools/call", json!({ "name": tool, "arguments": { "query": query }, "_meta": meta }))
}

#[track_caller]
fn assert_refused(reply: &crate::agent::Reply, says: &str) {
    let refusal = reply.refusal();
    assert_eq!((&refusal["gate"], &refusal["error_code"]), (&json!("behaviour"), &json!("SEMANTIC_INVALIDITY")));
    assert!(refusal.to_string().contains(says), "{refusal}");
}

#[test]
fn what_a_call_is_for_is_held_to() {
    let world = world();
    let gateway = world.serve();
    for agent in [gateway.legacy(), gateway.modern()] {
        let (read, write) = ("company__read_query", "company__write_query");
        let good =
            ask(&agent, read, "SELECT count(*) AS n FROM invoices", &json!({ "servanda/task": "read-only triage" }));
        assert_eq!(good.success()["structuredContent"]["rows"][0]["n"], 10);
        // The company has its books by now.
        let before = world.effects();
        let like = json!({ "servanda/like": good.call_id() });
        let change = "UPDATE invoices SET status = 'paid'";
        let rows = [
            (read, "DELETE FROM invoices", json!({}), "DELETE removes rows"),
            (read, "SELECT 1; DROP TABLE invoices", json!({}), "/query"),
            (write, change, json!({ "servanda/task": "read-only triage" }), "company__read_query"),
            (write, change, json!({ "servanda/task": "triage" }), "not declared"),
            (write, change, json!({ "servanda/intent": "read" }), "the stated intent `read` expects PURE|*|*"),
            (write, change, json!({ "servanda/intent": "look" }), "none of"),
            (write, change, like, "PURE|READ|DATA"),
        ];
        for (tool, query, meta, says) in rows {
            assert_refused(&ask(&agent, tool, query, &meta), says);
        }
        assert_eq!(world.effects(), before, "nothing that was refused has happened");
        let meant = ask(&agent, write, "UPDATE files SET content = 'x'", &json!({ "servanda/intent": "destructive" }));
        assert_eq!(meant.success()["structuredContent"]["rows_changed"], 4);
        assert_eq!(world.effects(), before + 1);
        // What the contract adds to the schema troubles no client.
        let listed = agent.ask("tools/list", json!({}));
        assert_eq!(listed.result()["tools"][0]["inputSchema"]["properties"]["query"]["type"], "string");
    }
}

/// By the name a client gives, whatever its version.
#[test]
fn a_rule_for_a_client_holds_for_that_client() {
    let world = world();
    let gateway = world.serve();
    let as_client = |name: &str| {
        let info = json!({ "io.modelcontextprotocol/clientInfo": { "name": name, "version": "3.1" } });
        ask(&gateway.modern(), "company__write_query", "DELETE FROM outbox", &info)
    };
    assert_refused(&as_client("visitor"), "the rule `no rewriting by visitors`");
    as_client("clerk").success();
}
