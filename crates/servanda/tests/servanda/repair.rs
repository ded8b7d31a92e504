//! Repair loops end: an agent that keeps sending refused calls is told to stop, and a valid call starts afresh.

use serde_json::{Value, json};

use crate::{
    agent::Agent,
    contract::{count_effects, get_invoice, pay_invoice},
    world::World,
};

const WRONG: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn refused(agent: &Agent, invoice_id: &Value) -> Value {
    agent.call("company__get_invoice", json!({ "invoice_id": invoice_id })).refusal()
}

#[test]
fn the_same_arguments_twice_end_the_chain() {
    let world = World::company([get_invoice(), pay_invoice(), count_effects()]);
    let gateway = world.serve();
    let agent = gateway.legacy();
    let first = refused(&agent, &json!(7));
    assert_eq!(first["repair"], json!({ "attempt": 1, "attempts_max": 5 }));
    assert_eq!((&first["repairable"], &first["next_action"]), (&json!(true), &json!("repair_arguments")));
    let second = refused(&agent, &json!(7));
    assert_eq!(second["repair"]["stopped"], "same_arguments", "{second:#}");
    assert_eq!((&second["repairable"], &second["next_action"]), (&json!(false), &json!("stop_and_tell_user")));
    assert!(second["hint"].as_str().unwrap().contains("stop repairing"), "{second:#}");
    assert_eq!(second["repair"]["attempt"], 2);

    // Other tools and other sessions have their own chains.
    let other = agent.call("company__pay_invoice", json!({ "invoice_id": 7 })).refusal();
    assert_eq!(other["repair"]["attempt"], 1);
    assert_eq!(refused(&gateway.legacy(), &json!(7))["repair"]["attempt"], 1);

    // A valid call is never delayed, and resets the chain.
    agent.call("company__get_invoice", json!({ "invoice_id": "inv_1001" })).success();
    let afresh = refused(&agent, &json!(7));
    assert_eq!(afresh["repair"], json!({ "attempt": 1, "attempts_max": 5 }));
}

/// Ever-changing arguments: the same errors, or the number of attempts, end the chain.
#[test]
fn endless_variations_end_too() {
    let world = World::company([get_invoice()]);
    let gateway = world.serve();
    let agent = gateway.legacy();
    let stops: Vec<Value> =
        WRONG.iter().map(|wrong| refused(&agent, &json!(wrong))["repair"]["stopped"].clone()).collect();
    let expected = [Value::Null, Value::Null, json!("same_errors"), json!("same_errors")];
    assert_eq!(stops[..4], expected);
    assert_eq!(stops[4..], [json!("attempts_exhausted"), json!("attempts_exhausted")]);
    agent.call("company__get_invoice", json!({ "invoice_id": "inv_1001" })).success();
}

/// Without sessions the caller may name the chain.
#[test]
fn a_modern_caller_names_its_chain() {
    let world = World::company([get_invoice()]);
    let gateway = world.serve();
    let agent = gateway.modern();
    let call = |chain: &str| {
        let params = json!({
            "name": "company__get_invoice", "arguments": { "invoice_id": 7 }, "_meta": { "servanda/chain": chain },
        });
        agent.ask("tools/call", params).refusal()["repair"].clone()
    };
    assert_eq!(call("order 7")["attempt"], 1);
    assert_eq!(call("order 8")["attempt"], 1);
    assert_eq!(call("order 7")["stopped"], "same_arguments");
}

/// Every run of the command line is a person's own attempt.
#[test]
fn the_command_line_is_not_a_loop() {
    let world = World::company([get_invoice()]);
    for _ in 0..3 {
        let call_id = world.call("company__get_invoice", r#"{"invoice_id":7}"#).ended(3).call_id();
        assert_eq!(world.record(&call_id)["refusal"]["repair"]["attempt"], 1);
    }
}
