//! `/livez`, `/healthz` and `/readyz` when a store fails and returns: a PostgreSQL that is stopped, a disk that is full.

use std::process::Command;

use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::{
    agent::Reply,
    cluster::Cluster,
    contract::{count_effects, pay_invoice},
    gateway::Gateway,
    http::Question,
    world::{BINARY, World, until},
};

fn ask(gateway: &Gateway, path: &str) -> (u16, Value) {
    let exchange = Question::page(path).ask(gateway.address);
    (exchange.status, serde_json::from_str(&exchange.text()).unwrap())
}

fn until_ready(gateway: &Gateway) {
    until("the gateway to be ready", || (ask(gateway, "/readyz").0 == 200).then_some(()));
    let (_, told) = ask(gateway, "/readyz");
    let mut health = ask(gateway, "/healthz").1;
    assert!(health["configuration"].as_str().is_some_and(|word| word.len() == 12), "{health}");
    health.as_object_mut().unwrap().remove("configuration");
    assert_eq!(health, json!({ "status": "ok", "checks": { "process": "ok", "store": "ok" } }));
    assert!(told["status"] == "ready" && told["store"]["wrote_ms_ago"].is_u64(), "{told}");
}

/// Waits until it is not ready for that reason, but alive, and not healthy without a store. The answers contain nothing that only the
/// operator may know.
fn until_not_ready(gateway: &Gateway, reason: &str) {
    let told = until(&format!("/readyz to say {reason}"), || {
        let (status, told) = ask(gateway, "/readyz");
        (status == 503 && told["reason"] == reason).then_some(told)
    });
    assert_eq!(told["status"], "not_ready");
    assert_eq!(ask(gateway, "/livez"), (200, json!({ "status": "alive" })), "a restart would not help");
    let (status, health) = ask(gateway, "/healthz");
    if reason == "store_refuses_writes" {
        assert_eq!((status, &health["status"], &health["reason"]), (503, &json!("not_ok"), &json!(reason)), "{health}");
        assert_eq!(health["checks"], json!({ "process": "ok", "store": reason }));
    } else {
        assert_eq!((status, &health["status"]), (200, &json!("ok")), "{health}");
    }
    for secret in ["postgres", "/tmp", "local", "servanda-test", "SQLSTATE", "error"] {
        assert!(!told.to_string().contains(secret), "{secret}: {told}");
    }
}

fn pay(gateway: &Gateway, key: &str) -> Reply {
    let arguments = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" });
    let params = json!({ "name": "company__pay_invoice", "arguments": arguments,
        "_meta": { "servanda/idempotency-key": key } });
    gateway.modern().ask("tools/call", params)
}

#[test]
fn a_database_that_is_stopped_and_started_is_told_of() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::company([pay_invoice(), count_effects()]);
    // A database that does not sync to its disk must be accepted explicitly.
    world.change_config(|config| {
        config["ledger"] = json!(cluster.url("primary"));
        config["accepts_lost_commits"] = json!(true);
    });
    let gateway = world.serve();
    until_ready(&gateway);
    pay(&gateway, "before").success();
    let effects = world.effects();
    cluster.crash("primary");
    until_not_ready(&gateway, "store_refuses_writes");
    pay(&gateway, "meanwhile").refusal();
    cluster.start_server("primary");
    until_ready(&gateway);
    pay(&gateway, "after").success();
    assert_eq!(world.effects(), effects + 1, "what was refused was not done");
}

#[test]
fn a_disk_that_is_full_is_told_of() {
    let world = World::company([pay_invoice(), count_effects()]);
    let gateway = Gateway::begin(told_of_full_disks(&world));
    until_ready(&gateway);
    pay(&gateway, "before").success();
    let effects = world.effects();
    file_bytes_max(&gateway, Some(0));
    until_not_ready(&gateway, "store_refuses_writes");
    pay(&gateway, "meanwhile").refusal();
    file_bytes_max(&gateway, None);
    until_ready(&gateway);
    pay(&gateway, "after").success();
    assert_eq!(world.effects(), effects + 1, "what was refused was not done");
}

#[test]
fn a_ledger_without_room_is_told_of_and_new_changes_wait() {
    let world = World::company([pay_invoice(), count_effects()]);
    // No disk is that large.
    world.change_config(|config| config["ledger_limits"] = json!({ "free_bytes_min": 1_u64 << 62 }));
    let gateway = world.serve();
    until_not_ready(&gateway, "out_of_room");
    let refusal = pay(&gateway, "meanwhile").refusal();
    assert_eq!((&refusal["effect"], world.effects()), (&json!("none"), 0), "{refusal:#}");
}

#[test]
fn a_gateway_that_stops_says_so_until_it_is_gone() {
    let world = World::company([crate::contract::slow_change(), count_effects()]);
    let mut gateway = world.serve();
    until_ready(&gateway);
    let agent = gateway.modern();
    agent.call("company__count_effects", json!({})).success();
    let slow = json!({ "name": "company__misbehave_slow", "arguments": { "milliseconds": 3000 } });
    let question = agent.question(1, "tools/call", slow);
    let pending = question.send(gateway.address);
    world.record_of("company__misbehave_slow", "dispatching");
    gateway.terminate();
    until_not_ready(&gateway, "draining");
    assert_eq!(ask(&gateway, "/mcp").0, 503);
    assert_eq!(gateway.wait(), Some(0));
    drop(pending);
}

/// A gateway whose process gets an error from a full disk instead of being killed by a signal.
#[expect(clippy::disallowed_methods, reason = "a black-box test starts the binary as its users do")]
fn told_of_full_disks(world: &World) -> Command {
    let config = world.path("servanda.yaml").display().to_string();
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; exec \"$@\"";
    command.args(["-c", script, "sh", BINARY, "serve", "--config", &config, "--listen", "127.0.0.1:0"]);
    command.current_dir(world.path(".")).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", world.path("."));
    command
}

/// Limits the size of the gateway's files, as if its disk were full; its servers are not limited.
fn file_bytes_max(gateway: &Gateway, bytes_max: Option<u64>) {
    let limit = Rlimit { current: bytes_max, maximum: None };
    prlimit(Some(gateway.pid()), Resource::Fsize, limit).unwrap();
}
