//! Gate 6 over the wire: the intent that a client declares, and the programs among a call's arguments.

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
        // The company's books exist by now.
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
        // What the contract adds to the schema is not visible to clients.
        let listed = agent.ask("tools/list", json!({}));
        assert_eq!(listed.result()["tools"][0]["inputSchema"]["properties"]["query"]["type"], "string");
    }
}

/// The rule matches the name that a client gives, whatever its version.
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

const NOTHING_CRITICAL: &str = "@id(\"nothing-critical\")\nforbid (principal, action, resource)\n\
    when { resource.side_effect_class == \"CRITICAL_MUTATION\" };\n";

const CASES: &str = r#"
cases:
  - name: a row is added
    principal: { user: ada }
    tool: company.write_query
    args: { query: "INSERT INTO files (name, content) VALUES ('a', 'b')" }
    expect: allow
  - name: a table is dropped
    principal: { user: ada }
    tool: company.write_query
    args: { query: "DROP TABLE files" }
    expect: deny
    by: [nothing-critical]
"#;

/// A tool that could drop tables is critical. Policies, ceilings, lists, cases and `explain` use the class of the program in the call.
#[test]
fn a_call_is_as_grave_as_the_program_that_it_brings() {
    let query = json!({ "query": { "type": "string", "x-effect": { "kind": "sqlite", "decides_class": true } } });
    let mut write = changes("write_query").input(&["query"], &query);
    write.0["transactional"]["side_effect_class"] = json!("CRITICAL_MUTATION");
    let world = World::company([write]).unpinned().guarding(&[]);
    world.write("policies/p.cedar", NOTHING_CRITICAL);
    world.write("cases.yaml", CASES);
    world.change_config(|config| config["policy"] = json!({ "files": ["policies/p.cedar"] }));
    assert_eq!(world.run(&["policy", "test", "cases.yaml"]).ended(0).stderr, "2 cases as expected\n");
    let gateway = world.serve();
    let [everything, reads_only] = [&[][..], &["--ceiling", "READ_ONLY"]]
        .map(|limits| gateway.bearing(&world.key("acme", "ada", &[crate::access::WRITE], limits).0));
    let (read, insert, drop) = ("SELECT 1", "UPDATE files SET content = 'x' WHERE path = 'none'", "DROP TABLE files");
    let write = |agent: &Agent, query: &str| ask(agent, "company__write_query", query, &json!({}));
    for (agent, query, gate) in [
        (&everything, read, None),
        (&everything, insert, None),
        (&everything, drop, Some("policy")),
        (&reads_only, read, None),
        (&reads_only, insert, Some("scope")),
        (&reads_only, drop, Some("scope")),
    ] {
        let reply = write(agent, query);
        match gate {
            None => assert!(reply.success().is_object(), "{query}"),
            Some(gate) => assert_eq!(reply.refusal()["gate"], gate, "{query}"),
        }
    }
    let dropped = write(&everything, drop).refusal();
    assert!(dropped["message"].as_str().unwrap().contains("its program counts as CRITICAL_MUTATION"), "{dropped}");
    let page = world.run(&["policy", "explain", dropped["call_id"].as_str().unwrap()]).ended(0).stdout;
    assert!(page.contains("for a program of this class"), "{page}");
    let inserted = write(&everything, insert).call_id();
    let page = world.run(&["explain", &inserted]).ended(0).stdout;
    assert!(page.contains("class     MEDIUM_RISK_WRITE, by the program in this call"), "{page}");
    let listed = reads_only.ask("tools/list", json!({}));
    assert!(listed.raw.contains("company__write_query"), "a call of it can be allowed: {}", listed.raw);
}
