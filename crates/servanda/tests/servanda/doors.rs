//! The HTTP door in front of the whole gateway: both eras, and answers that conform to the published schemas.

use serde_json::{Value, json};

use crate::{
    agent::{Agent, Reply},
    contract::{Contract, count_effects, get_invoice, pay_invoice, reads},
    http::Question,
    world::World,
};

fn contracts() -> Vec<Contract> {
    let report = reads("monthly_report").input(&["month"], &json!({ "month": { "type": "string" } }));
    let wrong_shape = reads("misbehave_wrong_shape").output(&json!({ "count": { "type": "integer" } }));
    vec![get_invoice(), pay_invoice(), count_effects(), report, wrong_shape]
}

/// The same conversation in both eras.
fn converse(agent: &Agent, greeting: &Reply) {
    let capabilities = &greeting.result()["capabilities"];
    assert_eq!(capabilities["tools"]["listChanged"], true, "{}", greeting.raw);
    let tools = [
        "company__count_effects",
        "company__get_invoice",
        "company__misbehave_wrong_shape",
        "company__monthly_report",
        "company__pay_invoice",
    ];
    assert_eq!(agent.tools(), tools);
    // Until a server has answered, its tools are in the order of their names, and then in the server's own order. A call waits for the
    // server.
    agent.call("company__count_effects", json!({})).success();
    assert_eq!(
        agent.ask("tools/list", json!({})).raw,
        agent.ask("tools/list", json!({})).raw,
        "the list is always the same"
    );
    let answer = agent.call("company__get_invoice", json!({ "invoice_id": "inv_1001" }));
    let text = answer.success()["content"][0]["text"].as_str().unwrap();
    assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), &answer.result()["structuredContent"]);
    assert_eq!(answer.observation()["result_payload"]["data"], answer.result()["structuredContent"]);
    let unknown = agent.call("company__get_invoce", json!({}));
    assert_eq!(unknown.message["error"]["code"], -32602, "{}", unknown.raw);
    assert!(
        unknown.message["error"]["data"]["message"].as_str().unwrap().contains("`company__get_invoice`?"),
        "{}",
        unknown.raw
    );
}

#[test]
fn a_legacy_conversation() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let agent = gateway.legacy();
    let greeting = Reply::of(Question::post(&crate::agent::initialize(0)).ask(gateway.address).text());
    assert_eq!(greeting.message["id"], 0);
    assert_eq!(greeting.result()["serverInfo"]["name"], "servanda");
    converse(&agent, &greeting);
    assert_eq!(agent.ask("ping", json!({})).result(), &json!({}));
    assert!(agent.call("company__count_effects", json!({})).result().get("resultType").is_none());
}

#[test]
fn a_modern_conversation() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let agent = gateway.modern();
    let greeting = agent.ask("server/discover", json!({}));
    assert_eq!(greeting.result()["supportedVersions"][0], "2026-07-28");
    converse(&agent, &greeting);
    assert_eq!(agent.call("company__count_effects", json!({})).result()["resultType"], "complete");
}

/// The description of a tool that agents get is the contract's, annotations included.
#[test]
fn the_list_is_the_contracts() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let listed = gateway.modern().ask("tools/list", json!({}));
    let tools = listed.result()["tools"].as_array().unwrap();
    let pay = tools.iter().find(|tool| tool["name"] == "company__pay_invoice").unwrap();
    assert_eq!(pay["description"], "The sample's pay_invoice.");
    assert_eq!(
        (&pay["annotations"]["readOnlyHint"], &pay["annotations"]["destructiveHint"]),
        (&json!(false), &json!(true))
    );
    let told = &pay["_meta"]["servanda/contract"];
    assert_eq!(*told, json!({ "side_effect_class": "CRITICAL_MUTATION", "irreversible": true }), "{told}");
    for tool in tools {
        let hints: Vec<&String> = tool["annotations"].as_object().unwrap().keys().collect();
        assert_eq!(hints, ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"], "{tool}");
    }
    let digest = world.run(&["tools", "--offline", "--json"]).ended(0).json();
    assert_eq!(digest.as_array().unwrap().len(), tools.len());
}

/// Success, a tool's error, and refusals at several stages: every answer conforms to the schemas that `servanda schema` prints.
#[test]
fn answers_keep_the_published_schemas() {
    let world = World::company(contracts());
    let validator = |name| jsonschema::validator_for(&world.run(&["schema", name]).ended(0).json()).unwrap();
    let (observation, refusal) = (validator("observation"), validator("refusal"));
    let gateway = world.serve();
    let cases = [
        ("company__get_invoice", json!({ "invoice_id": "inv_1001" }), "SUCCESS", None),
        ("company__get_invoice", json!({ "invoice_id": "inv_9999" }), "UNKNOWN_ERROR", None),
        ("company__get_invoice", json!([]), "SYNTACTIC_PARSE_FAIL", Some("parse")),
        ("company__get_invoice", json!({}), "STRUCTURAL_VIOLATION", Some("structure")),
        ("company__get_invoice", json!({ "invoice_id": 5 }), "TYPE_MISMATCH", Some("types")),
        ("company__get_invoice", json!({ "invoice_id": "x" }), "OUT_OF_BOUNDS", Some("bounds")),
        ("company__misbehave_wrong_shape", json!({}), "OBSERVATION_NORMALIZATION_FAIL", Some("observe")),
    ];
    for agent in [gateway.legacy(), gateway.modern()] {
        for (tool, arguments, class, gate) in &cases {
            let reply = agent.call(tool, arguments.clone());
            let observed = reply.observation();
            observation.validate(observed).unwrap_or_else(|error| panic!("{class}: {error}: {observed:#}"));
            assert_eq!(observed["status"]["taxonomy_class"], *class);
            assert_eq!(observed["status"]["is_error"], reply.result()["isError"].as_bool().unwrap_or(false));
            if let Some(gate) = gate {
                let refused = reply.refusal();
                refusal.validate(&refused).unwrap_or_else(|error| panic!("{class}: {error}: {refused:#}"));
                assert_eq!((&refused["gate"], &refused["error_code"]), (&json!(gate), &json!(class)));
                assert_eq!(refused["call_id"], reply.call_id().as_str());
            }
            let record = world.record(&reply.call_id());
            assert_eq!(record["class"], *class);
        }
    }
}

/// A refused call has no effect: the upstream counts its own effects.
#[test]
fn refused_calls_never_reach_the_upstream() {
    let world = World::company([pay_invoice(), count_effects()]);
    let gateway = world.serve();
    let agent = gateway.modern();
    for arguments in [
        json!({ "invoice_id": "inv_1003", "amount_cents": 100 }),
        json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF", "note": "x" }),
        json!({ "invoice_id": "inv_1003", "amount_cents": "100", "currency": "CHF" }),
        json!({ "invoice_id": "inv_1003", "amount_cents": -1, "currency": "CHF" }),
        json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "XXX" }),
    ] {
        let refusal = agent.call("company__pay_invoice", arguments).refusal();
        assert_eq!(refusal["effect"], "none");
    }
    let counted = agent.call("company__count_effects", json!({}));
    assert_eq!(counted.success()["structuredContent"]["total"], 0);
    let paid =
        agent.call("company__pay_invoice", json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" }));
    paid.success();
    assert_eq!(agent.call("company__count_effects", json!({})).success()["structuredContent"]["payments"], 1);
}

/// A call that cannot be recorded is not sent.
#[test]
fn without_a_ledger_nothing_is_changed() {
    let world = World::company([pay_invoice(), count_effects()]);
    let gateway = world.serve();
    let agent = gateway.modern();
    let payment = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" });
    agent.call("company__count_effects", json!({})).success();
    let ledger = rusqlite::Connection::open(world.ledger()).unwrap();
    ledger.busy_timeout(crate::world::PATIENCE).unwrap();
    ledger.execute_batch("alter table effects rename to mislaid").unwrap();
    let refusal = agent.call("company__pay_invoice", payment.clone()).refusal();
    assert_eq!((&refusal["gate"], &refusal["effect"]), (&json!("fence"), &json!("none")), "{refusal:#}");
    assert_eq!(refusal["error_code"], "DEPENDENCY_UNAVAILABLE");
    assert_eq!(world.effects(), 0);
    agent.call("company__count_effects", json!({})).success();
    ledger.execute_batch("alter table mislaid rename to effects").unwrap();
    agent.call("company__pay_invoice", payment).success();
    assert_eq!(world.effects(), 1);
}

/// An address in use is reported, and the process that uses it is not disturbed.
#[test]
fn a_taken_address() {
    let world = World::company([count_effects()]);
    let gateway = world.serve();
    let ran = world.run(&["serve", "--listen", &gateway.address.to_string()]).ended(1);
    assert!(
        ran.stderr.starts_with("error: cannot listen on 127.0.0.1:") && ran.stderr.contains("\nhint: "),
        "{}",
        ran.stderr
    );
    gateway.modern().call("company__count_effects", json!({})).success();
}

/// Ctrl-C stops it as SIGTERM does.
#[test]
fn an_interrupt_ends_the_gateway() {
    let world = World::company([count_effects()]).unpinned();
    let mut gateway = world.serve();
    gateway.modern().call("company__count_effects", json!({})).success();
    gateway.signal(rustix::process::Signal::INT);
    assert_eq!(gateway.wait(), Some(0), "{}", gateway.said());
    world.assert_nothing_left();
    let said = gateway.said();
    let lines: Vec<&str> = said.lines().collect();
    let [ready, connect, people, stopped] = lines[..] else {
        panic!("where it listens, how to connect, where people decide, the end: {said}")
    };
    let url = format!("http://{}/mcp", gateway.address);
    assert!(ready.starts_with(&format!("servanda is ready at {url} with ")), "{ready}");
    assert_eq!(connect, format!("connect: claude mcp add --transport http servanda {url}"));
    let console = format!("people decide at http://servanda.localhost:{}; ", gateway.address.port());
    assert!(people.starts_with(&console), "{people}");
    assert!(!people.contains("/sign-in/"), "only a person's terminal is shown a link that signs in: {people}");
    assert_eq!(stopped, "stopped");
}
