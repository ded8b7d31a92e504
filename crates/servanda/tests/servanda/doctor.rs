//! `servanda tools` and `servanda doctor`: the offered tools, and what keeps the gateway from working.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::{
    contract::{count_effects, get_invoice, pay_invoice, reads},
    snapshot::Page,
    world::World,
};

/// A good upstream, a broken one, and a contract for a tool that no upstream offers.
fn mixed() -> World {
    let world = World::empty();
    world.configure(
        &json!({ "company": world.sample(&["--era", "legacy"]), "broken": { "command": "/no/such/program" } }),
    );
    for contract in [get_invoice(), pay_invoice().confirmed(), reads("retired_tool"), reads("lost").of("broken")] {
        world.add(&contract);
    }
    world
}

#[test]
fn tools_are_listed_with_their_state() {
    let world = mixed();
    let mut page = Page::new(&world);
    page.run(&["tools"]).ended(0);
    page.run(&["tools", "--offline"]).ended(0);
    let online = page.run(&["tools", "--json"]).ended(0).json();
    page.compare("tools");
    let states: Vec<_> =
        online.as_array().unwrap().iter().map(|row| (row["name"].clone(), row["state"].clone())).collect();
    let expected = [
        ("broken__lost", "upstream down"),
        ("company__get_invoice", "offered"),
        ("company__pay_invoice", "offered"),
        ("company__retired_tool", "withdrawn by its upstream"),
    ];
    assert_eq!(states, expected.map(|(name, state)| (json!(name), json!(state))));
    assert!(!world.has(".servanda"), "looking is not calling");
}

#[test]
fn tools_offline_starts_nothing() {
    let world = World::empty();
    world.configure(&json!({ "company": { "command": "touch", "args": ["it-was-started"] } }));
    let ran = world.run(&["tools", "--offline"]).ended(0);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("no contracts yet") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    world.add(&get_invoice());
    let rows = world.run(&["tools", "--offline", "--json"]).ended(0).json();
    assert_eq!(rows[0]["state"], "not asked");
    assert!(!world.has("it-was-started"));
}

#[test]
fn a_healthy_gateway() {
    let world = World::empty();
    let upstreams = json!({ "company": world.sample(&[]) });
    world.configure_with(&json!({ "servanda": 1, "listen": "127.0.0.1:0", "upstreams": upstreams }));
    world.run(&["call", "company__nothing"]).ended(3);
    let init = json!({ "mcpServers": upstreams });
    world.write(".mcp.json", &init.to_string());
    world.run(&["init", "--yes", "--force"]).ended(0);
    let config = world.read("servanda.yaml").replace("127.0.0.1:7332", "127.0.0.1:0");
    world.write("servanda.yaml", &config);
    let mut page = Page::new(&world);
    page.run(&["doctor"]).ended(0);
    let ran = page.run(&["doctor", "--json"]).ended(0);
    assert_eq!(ran.json()["good"], true);
    page.compare("doctor");
}

#[test]
fn everything_that_is_wrong_is_found() {
    let world = mixed();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    world.write("blocked", "a file where a folder should be");
    world.change_config(|config| {
        config["listen"] = json!(address);
        config["ledger"] = json!("blocked/ledger.db");
    });
    let ran = world.run(&["doctor"]).ended(1);
    let mut page = Page::new(&world);
    let shown = crate::world::Ran { stdout: ran.stdout.replace(&address, "[ADDRESS]"), ..ran };
    page.show("doctor", &shown);
    page.compare("doctor_finds");
    let found = world.run(&["doctor", "--json"]).ended(1).json();
    assert_eq!(found["good"], false);
    for (what, mark, says) in [
        ("ledger", "bad", "blocked"),
        ("address", "bad", "in use"),
        ("upstream broken", "bad", "/no/such/program"),
        ("upstream company", "bad", "`company__retired_tool`"),
        ("upstream company", "note", "without a contract"),
    ] {
        let findings = found["findings"].as_array().unwrap();
        let bad = findings.iter().find(|finding| {
            finding["what"] == what && finding["mark"] == mark && finding["says"].as_str().unwrap().contains(says)
        });
        assert!(bad.is_some_and(|finding| !finding["hint"].as_str().unwrap().is_empty()), "{what}: {found:#}");
    }
    assert_eq!(findings_of(&found, "contracts"), ["good"]);
}

/// A running gateway of this configuration at the address is not a problem.
#[test]
fn a_running_gateway_is_recognised() {
    let world = World::company([count_effects()]);
    let gateway = world.serve();
    world.change_config(|config| config["listen"] = json!(gateway.address.to_string()));
    let found = world.run(&["doctor", "--json"]).ended(0).json();
    assert_eq!(findings_of(&found, "address"), ["good"], "{found:#}");
    gateway.modern().call("company__count_effects", json!({})).success();
}

#[test]
fn a_bad_contract_and_an_unset_variable_are_found() {
    let world = World::company([get_invoice()]);
    let mut bad = count_effects();
    bad.0["identity"]["version"] = json!("one");
    world.add(&bad);
    let upstreams = json!({ "company": { "command": "${NO_SUCH_VARIABLE}" } });
    world.configure_with(&json!({ "servanda": 1, "listen": "127.0.0.1:0", "upstreams": upstreams }));
    let found = world.run(&["doctor", "--json"]).ended(1).json();
    assert_eq!(findings_of(&found, "contract"), ["bad"]);
    assert_eq!(findings_of(&found, "upstreams"), ["bad"]);
    world.write("servanda.yaml", "servanda: [");
    let found = world.run(&["doctor", "--json"]).ended(1).json();
    assert_eq!(findings_of(&found, "configuration"), ["bad"]);
}

fn findings_of(found: &Value, what: &str) -> Vec<String> {
    let findings = found["findings"].as_array().unwrap().iter().filter(|finding| finding["what"] == what);
    findings.map(|finding| finding["mark"].as_str().unwrap().to_owned()).collect()
}

/// If other users could read the gateway's own files, the modes are repaired and the user is told.
#[test]
fn a_ledger_that_others_can_read_is_told_of_and_mended() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::company([crate::contract::get_invoice()]);
    world.call("company__get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(0);
    let folder = world.ledger().parent().unwrap().to_owned();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let open = || {
        for (path, mode) in [(world.ledger(), 0o644), (folder.clone(), 0o755)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    open();
    let told = world.run(&["doctor"]);
    assert!(
        told.everything().contains("others could read") && told.everything().contains("mode 644"),
        "{}",
        told.everything()
    );
    assert_eq!((mode(&world.ledger()), mode(&folder)), (0o600, 0o700));
    assert!(!world.run(&["doctor"]).everything().contains("others could read"));
    open();
    let gateway = world.serve();
    assert!(gateway.said().contains("warning: others could read"), "{}", gateway.said());
    assert_eq!((mode(&world.ledger()), mode(&folder)), (0o600, 0o700));
}
