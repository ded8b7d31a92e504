//! The misbehaving tools: each breaks exactly the rule it is named after.

use serde_json::{Value, json};

use super::{Conversation, MISBEHAVING, call, converse};
use crate::SampleError;

/// Calls a misbehaving tool as request 1, then an honest one as request 2.
fn provoke(tool: &str, arguments: Value) -> Conversation {
    let afterwards = call(2, "list_files", json!({}));
    converse(MISBEHAVING, &[call(1, tool, arguments), afterwards])
}

fn answers(conversation: &Conversation, id: &Value) -> usize {
    let messages = conversation.messages();
    messages.iter().filter(|message| message["id"] == *id).count()
}

#[test]
fn each_answers_as_often_as_it_is_named_for() {
    let table = [
        ("misbehave_wrong_shape", json!({}), 1),
        ("misbehave_garbage", json!({}), 0),
        ("misbehave_noise_then_answer", json!({}), 1),
        ("misbehave_hang", json!({}), 0),
        ("misbehave_answer_twice", json!({}), 2),
        ("misbehave_answer_other_id", json!({}), 0),
        ("misbehave_flood", json!({ "megabytes": 1 }), 1),
        ("misbehave_flood", json!({ "megabytes": 0 }), 1),
        ("misbehave_slow", json!({ "milliseconds": 1 }), 1),
        ("misbehave_slow", json!({ "milliseconds": 600_001 }), 1),
        ("misbehave_rpc_error", json!({}), 1),
        ("misbehave_read_that_writes", json!({}), 1),
    ];
    for (tool, arguments, expected) in table {
        let conversation = provoke(tool, arguments);
        assert_eq!(answers(&conversation, &json!(1)), expected, "{tool}");
        assert_eq!(answers(&conversation, &json!(2)), 1, "{tool} blocks no other call");
        conversation.ended.unwrap();
    }
}

#[test]
fn the_wrong_shape_is_wrong_by_its_own_schema() {
    let conversation = provoke("misbehave_wrong_shape", json!({}));
    assert!(conversation.result(1)["structuredContent"]["count"].is_string());
}

#[test]
fn noise_is_not_json() {
    for tool in ["misbehave_garbage", "misbehave_noise_then_answer"] {
        let conversation = provoke(tool, json!({}));
        assert_eq!(conversation.lines.len() - conversation.messages().len(), 3, "{tool}");
    }
}

#[test]
fn dying_answers_nothing_and_is_told_to_the_caller() {
    let conversation = provoke("misbehave_die", json!({}));
    assert!(matches!(conversation.ended, Err(SampleError::AskedToDie)));
    assert!(conversation.lines.is_empty());
}

#[test]
fn two_answers_differ() {
    let messages = provoke("misbehave_answer_twice", json!({})).messages();
    assert_ne!(messages[0]["result"], messages[1]["result"]);
}

#[test]
fn the_other_id_belongs_to_no_request() {
    let conversation = provoke("misbehave_answer_other_id", json!({}));
    assert_eq!(answers(&conversation, &json!(100_001)), 1);
    let mut request = call(1, "misbehave_answer_other_id", json!({}));
    request["id"] = "seven".into();
    let conversation = converse(MISBEHAVING, &[request]);
    assert_eq!(answers(&conversation, &json!("seven-other")), 1);
}

#[test]
fn the_flood_is_one_well_formed_line() {
    let conversation = provoke("misbehave_flood", json!({ "megabytes": 3 }));
    let result = conversation.result(1);
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(3_000_000));
}

#[test]
fn a_slow_call_is_overtaken() {
    let conversation = provoke("misbehave_slow", json!({ "milliseconds": 400 }));
    let order: Vec<Value> = conversation.messages().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(order, [json!(2), json!(1)]);
}

#[test]
fn slow_calls_are_limited() {
    let slow = |id| call(id, "misbehave_slow", json!({ "milliseconds": 400 }));
    let messages: Vec<Value> = (1..=65).map(slow).collect();
    let conversation = converse(MISBEHAVING, &messages);
    assert_eq!(conversation.error_code(65), -32603);
    assert_eq!(conversation.messages().len(), 65);
}

#[test]
fn the_error_is_a_protocol_error() {
    assert_eq!(provoke("misbehave_rpc_error", json!({})).error_code(1), -32603);
}

#[test]
fn the_liar_writes() {
    let lie = call(1, "misbehave_read_that_writes", json!({}));
    let conversation = converse(MISBEHAVING, &[lie, call(2, "count_effects", json!({}))]);
    assert_eq!(conversation.result(2)["structuredContent"]["file_writes"], 1);
}
