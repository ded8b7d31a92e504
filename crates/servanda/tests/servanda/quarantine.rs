//! Tools that break their contract, and tools that an operator holds back, from outside: the refusals that an agent gets, and the commands
//! of a person.

use serde_json::{Value, json};

use crate::{
    contract::{Contract, changes, count_effects, get_invoice, pay_invoice, reads},
    snapshot::Page,
    world::{World, until},
};

const LIAR: &str = "company__misbehave_read_that_writes";

fn looked_at(mut contract: Contract, probes: &Value) -> Contract {
    contract.0["probes"] = json!({ "list": probes });
    contract
}

fn read_query() -> Contract {
    reads("read_query").input(&["query"], &json!({ "query": { "type": "string", "x-effect": "sqlite" } }))
}

fn by_sql() -> Value {
    json!([{ "name": "effects", "tool": "company.read_query", "sql": "SELECT count(*) AS n FROM effects", "at": "/rows" }])
}

/// A tool that claims to read, and writes. The second call is another process: what was seen is in the ledger.
#[test]
fn a_read_that_writes_is_held_back_until_a_person_lets_it_go() {
    let liar = looked_at(reads("misbehave_read_that_writes"), &by_sql());
    let world = World::company([liar, read_query()]).unpinned();
    let mut page = Page::new(&world);
    let lied = page.run(&["call", LIAR]).ended(0);
    let effects = world.effects();
    let refused = page.run(&["call", LIAR]).ended(3);
    assert_eq!(world.effects(), effects, "it was not sent");
    assert!(refused.stderr.contains("servanda quarantine list"), "{}", refused.stderr);
    assert!(lied.stderr.contains("changed something"), "{}", lied.stderr);
    page.run(&["quarantine", "list"]).ended(0);
    page.run(&["tools", "--offline"]).ended(0);
    let doctor = world.run(&["doctor"]).ended(1).stdout;
    assert!(
        doctor.contains("FAIL quarantine: `company__misbehave_read_that_writes` says that it only reads"),
        "{doctor}"
    );
    let listed = world.run(&["quarantine", "--json"]).ended(0).json();
    let event = &listed[0]["events"][0];
    assert_eq!(
        (&listed[0]["tool"], &listed[0]["state"], &event["did"]),
        (&json!(LIAR), &json!("held"), &json!("observed"))
    );
    let call_id = event["call_id"].as_str().unwrap();
    page.run(&["explain", call_id]).ended(0);
    let explained = world.run(&["explain", call_id, "--json"]).ended(0).json();
    assert_eq!(explained["observed"]["verdict"], "violation");
    assert_eq!(explained["observed"]["probes"][0]["after"], event["probes"][0]["after"]);
    assert_eq!(explained["outcome"], "completed", "how the call ended is another matter");
    page.run(&["quarantine", "release", "company.misbehave_read_that_writes", "--reason", "a test"]).ended(0);
    page.run(&["quarantine", "list"]).ended(0);
    world.run(&["call", LIAR]).ended(0);
    page.run(&["quarantine", "list", "--all"]).ended(0);
    page.compare("quarantine");
}

/// Probed with a read-only tool: a write that changes something, and a write that changes nothing.
#[test]
fn writes_are_looked_at_too() {
    let files = json!([{ "name": "files", "tool": "company.read_query", "sql": "SELECT path, content FROM files" }]);
    let invoice =
        json!([{ "name": "invoice", "tool": "company.get_invoice", "arguments": { "invoice_id": "{invoice_id}" } }]);
    let query = json!({ "query": { "type": "string" } });
    let world = World::company([
        looked_at(pay_invoice(), &invoice),
        looked_at(changes("write_query").input(&["query"], &query), &files),
        get_invoice(),
        read_query(),
    ])
    .unpinned();
    let verdict = |ran: crate::world::Ran| {
        ran.ended(0);
        world.run(&["explain", "--last", "--json"]).ended(0).json()["observed"].clone()
    };
    let paid =
        verdict(world.call("company__pay_invoice", r#"{"invoice_id":"inv_1003","amount_cents":100,"currency":"CHF"}"#));
    assert_eq!((&paid["verdict"], &paid["probes"][0]["found"]), (&json!("as_declared"), &json!("changed")), "{paid}");
    let found = |query: &str| {
        let seen = verdict(world.call("company__write_query", &json!({ "query": query }).to_string()));
        (seen["verdict"].clone(), seen["probes"][0]["found"].clone())
    };
    assert_eq!(found("UPDATE files SET content = 'x' WHERE 1 = 0"), (json!("no_change_seen"), json!("same")));
    assert_eq!(found("UPDATE files SET content = 'x'"), (json!("as_declared"), json!("changed")));
    assert_eq!(world.run(&["quarantine", "--json"]).ended(0).json(), json!([]), "a write is never held back for it");
}

/// A server that writes a file of what it gets is noticed by a probe of that file.
#[test]
fn a_path_is_looked_at() {
    let world = World::empty();
    let result = json!({ "content": [{ "type": "text", "text": "done" }] });
    world.configure(&json!({ "company": world.stub(&["look"], Some(&result)) }));
    let file = world.path("heard").display().to_string();
    world.add(&looked_at(reads("look"), &json!([{ "name": "what it hears", "path": file }])));
    let world = world.unpinned();
    world.call("company__look", "{}").ended(0);
    let held = world.call("company__look", "{}").ended(3);
    assert!(held.stderr.contains("only reads"), "{}", held.stderr);
    assert_eq!(world.run(&["explain", "--json"]).ended(0).json().as_array().unwrap().len(), 2);
}

/// A running gateway learns by itself what an operator types.
#[test]
fn a_running_gateway_takes_note() {
    let world = World::company([get_invoice(), count_effects()]).unpinned();
    let gateway = world.serve();
    let agent = gateway.modern();
    let tool = "company__get_invoice";
    let call = || agent.call(tool, json!({ "invoice_id": "inv_1003" }));
    call().success();
    world.run(&["quarantine", "block", tool, "--reason", "the numbers look odd"]).ended(0);
    until("the gateway to hold the tool back", || (!agent.tools().contains(&tool.to_owned())).then_some(()));
    let refusal = call().refusal();
    assert_eq!((&refusal["gate"], &refusal["error_code"]), (&json!("resolve"), &json!("POLICY_VIOLATION")));
    assert!(refusal["operator_hint"].as_str().unwrap().contains("servanda quarantine list"), "{refusal}");
    assert!(!refusal.to_string().contains("odd"), "the reason is the operators': {refusal}");
    until("the log to say so", || gateway.said().contains("an operator holds a tool back").then_some(()));
    world.run(&["quarantine", "release", tool, "--reason", "they are right"]).ended(0);
    until("the gateway to let the tool go", || agent.tools().contains(&tool.to_owned()).then_some(()));
    call().success();
}

#[test]
fn what_is_typed_wrong_is_said() {
    let world = World::company([get_invoice(), count_effects()]).unpinned();
    let mut page = Page::new(&world);
    page.run(&["quarantine", "list"]).ended(0);
    page.run(&["quarantine", "block", "company__get_invoce", "--reason", "x"]).ended(2);
    page.run(&["quarantine", "release", "company__get_invoice", "--reason", "x"]).ended(2);
    page.run(&["quarantine", "block", "company__get_invoice", "--reason", " "]).ended(2);
    page.run(&["quarantine", "block", "company.get_invoice", "--reason", "looks odd"]).ended(0);
    let doctor = world.run(&["doctor"]).everything();
    assert!(doctor.contains("`company__get_invoice` is held back by"), "{doctor}");
    // A tool can be released after its contract is gone.
    std::fs::remove_file(world.path("contracts/company.get_invoice.json")).unwrap();
    world.run(&["quarantine", "release", "company__get_invoice", "--reason", "it is gone"]).ended(0);
    page.compare("quarantine_typed_wrong");
}

/// Probes that cannot be taken are found before anything starts.
#[test]
fn check_finds_probes_that_cannot_be_taken() {
    let many: Vec<Value> = (0..9).map(|number| json!({ "name": number.to_string(), "path": "/srv" })).collect();
    let table = [
        (json!([{ "name": "x", "tool": "company.count_effects", "path": "/srv" }]), "give `tool` or `path`, not both"),
        (json!([{ "name": "x" }]), "say `tool` or `path`"),
        (json!([{ "name": "x", "path": "srv" }]), "must be absolute"),
        (json!([{ "name": "x", "path": "/srv/{invoice_id}" }]), "cannot contain values of the call"),
        (json!([{ "name": "x", "path": "/srv", "at": "/a" }]), "need a `tool`"),
        (json!([{ "name": "x", "tool": "company.get_invoice" }]), "a tool cannot probe itself"),
        (json!([{ "name": "x", "tool": "company.nobody" }]), "there is no contract `company.nobody`"),
        (
            json!([{ "name": "x", "tool": "company.pay_invoice" }]),
            "there is no contract `company.pay_invoice` that changes nothing",
        ),
        (json!([{ "name": "x", "tool": "company.count_effects", "at": "total" }]), "JSON Pointer"),
        (json!([{ "name": "x", "tool": "company.count_effects", "arguments": { "a": "{b}" } }]), "declares no `b`"),
        (
            json!([{ "name": "x", "tool": "company.count_effects", "sql": "SELECT 1" }]),
            "has no argument that its contract says is SQL",
        ),
        (json!([{ "name": "x", "tool": "company.read_query", "sql": "DELETE FROM effects" }]), "`sql` must only read"),
        (
            json!([{ "name": "x", "tool": "company.read_query", "sql": "SELECT 1", "arguments": { "query": "SELECT 2" } }]),
            "has the query of `company.read_query` too",
        ),
        (json!([{ "name": "x", "path": "/a" }, { "name": "x", "path": "/b" }]), "used more than once"),
        (json!(many), "probes"),
    ];
    let world = World::company([count_effects(), pay_invoice(), read_query()]).unpinned();
    for (probes, says) in table {
        world.add(&looked_at(get_invoice(), &probes));
        let found = world.run(&["check"]).ended(2);
        assert!(found.stderr.contains(says), "{probes}: {}", found.stderr);
    }
    let mut never = looked_at(get_invoice(), &json!([{ "name": "x", "path": "/srv" }]));
    never.0["probes"]["sample_percent"] = json!(0);
    world.add(&never);
    assert!(world.run(&["check"]).ended(2).stderr.contains("sample_percent"));
    world.add(&looked_at(get_invoice(), &by_sql()));
    world.run(&["check"]).ended(0);
}
