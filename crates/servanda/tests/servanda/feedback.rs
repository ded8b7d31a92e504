//! What an agent is told about a call unless it asks for more: little, and enough to act on (issue 17, "Refusals that cost little" and "Say
//! what is so").

use serde_json::{Value, json};

use crate::{
    contract::{Contract, changes, get_invoice, pay_invoice},
    world::World,
};

fn contracts() -> Vec<Contract> {
    let moment = json!({ "type": "string", "format": "date-time" });
    let text = json!({ "type": "string" });
    let attendees = json!({ "type": "array", "items": { "type": "string", "format": "email" } });
    let meeting = json!({ "start": moment, "end": moment, "title": text, "attendees": attendees, "room": text });
    vec![
        get_invoice(),
        pay_invoice(),
        changes("book_meeting").input(&["title", "start", "end", "attendees"], &meeting),
        changes("send_mail").input(&[], &json!({ "to": {}, "subject": {}, "body": {} })).confirmed(),
    ]
}

/// The members of a JSON object, sorted.
fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_refusal_says_what_to_do_and_the_rest_is_on_record_and_on_request() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let feedback = jsonschema::validator_for(&world.run(&["schema", "feedback"]).ended(0).json()).unwrap();
    for agent in [gateway.legacy(), gateway.modern()] {
        let reply = agent.call_briefly("company__get_invoice", json!({ "invoice_id": 5 }));
        let told = reply.refusal();
        feedback.validate(&told).unwrap_or_else(|error| panic!("{error}: {told:#}"));
        let expected = ["call_id", "effect", "error_code", "field_errors", "gate", "hint", "next_action"];
        assert_eq!(members(&told), expected, "{told:#}");
        assert_eq!(told["field_errors"], json!([{ "pointer": "/invoice_id", "expected": "string" }]));
        assert_eq!((&told["gate"], &told["next_action"]), (&json!("types"), &json!("repair_arguments")));
        assert_eq!(told["effect"], "none");
        let meta = json!({ "id": told["call_id"], "class": "TYPE_MISMATCH", "refused_at": "types" });
        assert_eq!(reply.result()["_meta"]["servanda/call"], meta);
        assert!(reply.result()["_meta"].get("servanda/observation").is_none(), "{}", reply.raw);
        let record = world.record(told["call_id"].as_str().unwrap());
        assert_eq!(record["refusal"]["envelope_code"], "INVALID_INPUT", "the record keeps everything");
        assert_eq!(record["refusal"]["field_errors"][0]["actual"], "integer");

        let full = agent.call("company__get_invoice", json!({ "invoice_id": 5 }));
        assert_eq!(full.refusal()["envelope_code"], "INVALID_INPUT", "{}", full.raw);
        assert_eq!(full.observation()["status"]["taxonomy_class"], "TYPE_MISMATCH");
        let wrong = json!({ "name": "company__get_invoice", "arguments": {}, "_meta": { "servanda/detail": "much" } });
        let refused = agent.ask("tools/call", wrong);
        assert_eq!(refused.message["error"]["code"], -32602, "{}", refused.raw);
    }
}

#[test]
fn a_success_says_its_call_and_how_it_ended() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let reply = gateway.modern().call_briefly("company__get_invoice", json!({ "invoice_id": "inv_1001" }));
    reply.success();
    let told = &reply.result()["_meta"]["servanda/call"];
    assert_eq!(*told, json!({ "id": reply.call_id(), "class": "SUCCESS" }));
    assert!(reply.result()["_meta"].get("servanda/observation").is_none(), "{}", reply.raw);
    assert_eq!(world.record(&reply.call_id())["class"], "SUCCESS");
}

/// An agent that waits for people is told so in the list, and at the call which ticket it waits for.
#[test]
fn what_needs_an_approval_is_said_to_wait_for_people() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let agent = gateway.modern();
    let told = agent.call_briefly("company__send_mail", json!({ "to": "a", "subject": "b", "body": "c" })).refusal();
    assert_eq!((&told["gate"], &told["next_action"]), (&json!("confirmation"), &json!("retry_after_delay")), "{told}");
    assert!(told["handle"].as_str().unwrap().starts_with("apr_"), "{told}");
    assert!(told["message"].as_str().unwrap().contains("waits for approval"), "{told}");
    let record = world.record(told["call_id"].as_str().unwrap());
    assert_eq!(record["refusal"]["next_action"], "retry_after_delay", "one meaning a word, on record too");
    assert_eq!(record["ticket_id"], told["handle"], "{record}");
    let listed = agent.ask("tools/list", json!({}));
    let tools = listed.result()["tools"].as_array().unwrap();
    let mail = tools.iter().find(|tool| tool["name"] == "company__send_mail").unwrap();
    assert_eq!(mail["_meta"]["servanda/contract"]["disposition"], "needs_approval", "{mail}");
}

#[test]
fn null_and_a_time_without_a_zone_are_told_with_their_repair() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let agent = gateway.modern();
    let (title, attendees) = ("Review", ["mara@lindgren-roth.example"]);
    let null = json!({
        "title": title, "attendees": attendees, "start": "2026-11-20T10:00:00Z", "end": "2026-11-20T11:00:00Z", "room": null,
    });
    let told = agent.call_briefly("company__book_meeting", null).refusal();
    assert_eq!(told["field_errors"][0]["pointer"], "/room", "{told}");
    assert!(told["field_errors"][0]["expected"].as_str().unwrap().contains("leave it out"), "{told}");
    let zoneless = json!({
        "title": title, "attendees": attendees, "start": "2026-11-20T10:00:00", "end": "2026-11-20T11:00:00Z",
    });
    let told = agent.call_briefly("company__book_meeting", zoneless).refusal();
    assert!(told["field_errors"][0]["expected"].as_str().unwrap().contains("2026-11-20T09:30:00Z"), "{told}");
}

/// An agent whose arguments conform to the listed schema is not refused for their shape, and the reverse.
#[test]
fn listed_schemas_are_the_enforced_ones() {
    let world = World::company(contracts());
    let gateway = world.serve();
    let agent = gateway.modern();
    let listed = agent.ask("tools/list", json!({}));
    let schema = |name: &str| {
        let tools = listed.result()["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["inputSchema"].clone()
    };
    let (get, pay) = (schema("company__get_invoice"), schema("company__pay_invoice"));
    assert!(
        get["properties"].get("servanda_operation_id").is_none(),
        "a read is repeated as often as one likes: {get}"
    );
    assert_eq!(pay["properties"]["servanda_operation_id"]["type"], "string", "{pay}");
    let payment = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" });
    let with = |name: &str| {
        let mut arguments = payment.clone();
        arguments[name] = json!("x");
        arguments
    };
    for (tool, schema, arguments) in [
        ("company__get_invoice", &get, json!({ "invoice_id": "inv_1001", "invoice": "x" })),
        ("company__get_invoice", &get, json!({ "invoice_id": "inv_1001" })),
        ("company__pay_invoice", &pay, with("memo_")),
        ("company__pay_invoice", &pay, with("servanda_operation_id")),
    ] {
        let valid = jsonschema::is_valid(schema, &arguments);
        let reply = agent.call_briefly(tool, arguments.clone());
        assert_eq!(reply.result()["isError"] != true, valid, "{arguments}: {}", reply.raw);
    }
}
