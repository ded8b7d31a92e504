//! What a client on pipes can be asked and told: questions, log lines, watched resources, tasks.

use serde_json::{Value, json};
use servanda_engine::ChangeEvent;

use crate::{
    fixture::{ask, elicitation, log_line, put_elicitation, raw, within},
    http_client::{initialize, meta, request},
    schema::Era,
    stdio_client::Pipe,
};

fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = meta(params["_meta"].take());
    request(id, method, params)
}

/// The handshake of a client that can be asked questions. Returns the affinity of its requests.
async fn shake_hands(pipe: &mut Pipe) -> String {
    let mut message = initialize("2025-11-25");
    message["params"]["capabilities"] = json!({"elicitation": {}});
    pipe.ask(Era::Legacy, &message).await;
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    is_alive(pipe).await;
    let attending = pipe.fixture.attending();
    assert_eq!(attending.len(), 1);
    attending[0].clone()
}

async fn is_alive(pipe: &mut Pipe) {
    let answer = pipe.ask(Era::Legacy, &request("alive", "ping", json!({}))).await;
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": "alive", "result": {}}));
}

async fn question(pipe: &mut Pipe) -> Value {
    let message = pipe.read(Era::Legacy, "").await.unwrap();
    assert_eq!((&message["method"], &message["params"]), (&json!("elicitation/create"), &put_elicitation()));
    message["id"].clone()
}

#[tokio::test]
async fn a_question_on_the_way_is_answered_by_a_line() {
    let mut pipe = Pipe::open();
    shake_hands(&mut pipe).await;
    pipe.send(&request(1, "tools/call", json!({"name": "ask"}))).await;
    let id = question(&mut pipe).await;
    pipe.send(&json!({"jsonrpc": "2.0", "id": "unknown", "result": {"action": "accept"}})).await;
    is_alive(&mut pipe).await;
    pipe.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}})).await;
    let answer = pipe.read(Era::Legacy, "tools/call").await.unwrap();
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{answer}");

    pipe.send(&request(1, "tools/call", json!({"name": "ask"}))).await;
    let id = question(&mut pipe).await;
    pipe.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -7, "message": "no"}})).await;
    let answer = pipe.read(Era::Legacy, "tools/call").await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "error -7");

    let answer = pipe.ask(Era::Modern, &modern(1, "tools/call", json!({"name": "ask"}))).await;
    assert_eq!(answer["result"]["resultType"], "input_required", "a modern client is asked by the answer");
}

#[tokio::test]
async fn what_is_said_outside_any_request_is_said() {
    let mut pipe = Pipe::open();
    let affinity = shake_hands(&mut pipe).await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    pipe.fixture.client_message(&affinity, client_message).await;
    let id = question(&mut pipe).await;
    pipe.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}})).await;
    assert_eq!(within(answered).await.unwrap().unwrap().get(), r#"{"action":"accept"}"#);

    let answer = pipe.ask(Era::Legacy, &request(1, "logging/setLevel", json!({"level": "error"}))).await;
    assert_eq!(answer["result"], json!({}));
    assert_eq!(pipe.fixture.events(), [format!("level error {affinity}")]);
    pipe.fixture.client_message(&affinity, log_line("info")).await;
    pipe.fixture.client_message(&affinity, log_line("critical")).await;
    assert_eq!(pipe.read(Era::Legacy, "").await.unwrap()["params"]["level"], "critical");
}

/// Columns: the era of a call with log lines, its `_meta`, and how many of the eight lines arrive.
#[tokio::test]
async fn log_lines_of_the_level_wanted() {
    let mut pipe = Pipe::open();
    shake_hands(&mut pipe).await;
    pipe.ask(Era::Legacy, &request(1, "logging/setLevel", json!({"level": "alert"}))).await;
    let wanted = json!({"io.modelcontextprotocol/logLevel": "warning"});
    for (era, message, told) in [
        (Era::Legacy, request(1, "tools/call", json!({"name": "log"})), 2),
        (Era::Modern, modern(1, "tools/call", json!({"name": "log"})), 0),
        (Era::Modern, modern(1, "tools/call", json!({"name": "log", "_meta": wanted})), 5),
    ] {
        pipe.send(&message).await;
        for _ in 0..told {
            assert_eq!(pipe.read(era, "").await.unwrap()["method"], "notifications/message");
        }
        assert!(pipe.read(era, "tools/call").await.unwrap().get("result").is_some());
    }
}

#[tokio::test]
async fn watched_resources_and_own_tasks_are_told_of() {
    let mut pipe = Pipe::open_with(|options| options.watches_max = 1);
    shake_hands(&mut pipe).await;
    let subscribe = |uri: &str| request(1, "resources/subscribe", json!({"uri": uri}));
    assert_eq!(pipe.ask(Era::Legacy, &subscribe("a:1")).await["result"], json!({}));
    assert_eq!(pipe.ask(Era::Legacy, &subscribe("a:2")).await["error"]["code"], -32603, "there is a limit");
    pipe.fixture.update("a:2");
    pipe.fixture.update("a:1");
    assert_eq!(pipe.read(Era::Legacy, "").await.unwrap()["params"], json!({"uri": "a:1"}));
    let unsubscribe = request(1, "resources/unsubscribe", json!({"uri": "a:1"}));
    assert_eq!(pipe.ask(Era::Legacy, &unsubscribe).await["result"], json!({}));
    assert_eq!(pipe.fixture.events(), ["watch a:1", "unwatch a:1"]);

    let at = "2026-11-15T09:35:32Z";
    let state = json!({"taskId": "t1", "status": "completed", "createdAt": at, "lastUpdatedAt": at, "ttl": 1});
    let task = |id: &str| ChangeEvent::Task {
        owner: servanda_contract::Caller::local().into(),
        task_id: id.into(),
        params: raw(&state).into(),
    };
    pipe.fixture.announce(task("t1"));
    // A client that asks about a task that it may not see gets no updates about it later either.
    let asked = pipe.ask(Era::Legacy, &request(1, "tasks/get", json!({"taskId": "missing"}))).await;
    assert!(asked["error"].is_object());
    pipe.fixture.announce(task("missing"));
    is_alive(&mut pipe).await;
    pipe.ask(Era::Legacy, &request(1, "tools/call", json!({"name": "begin", "task": {}}))).await;
    pipe.fixture.announce(task("t1"));
    let message = pipe.read(Era::Legacy, "").await.unwrap();
    assert_eq!((&message["method"], &message["params"]), (&json!("notifications/tasks/status"), &state));
    pipe.ask(Era::Legacy, &request(1, "tasks/get", json!({"taskId": "t2"}))).await;
    pipe.fixture.announce(task("t2"));
    assert_eq!(pipe.read(Era::Legacy, "").await.unwrap()["method"], "notifications/tasks/status", "it asked about it");
}

#[tokio::test]
async fn a_connection_holds_its_requests_together_and_leaves_in_the_end() {
    let mut pipe = Pipe::open();
    let affinity = shake_hands(&mut pipe).await;
    let legacy = pipe.ask(Era::Legacy, &request(1, "tools/call", json!({"name": "echo"}))).await;
    let modern = pipe.ask(Era::Modern, &modern(1, "prompts/get", json!({"name": "p"}))).await;
    assert_eq!(legacy["result"]["_meta"]["servanda/observation"]["requester"]["affinity"], affinity);
    assert_eq!(modern["result"]["_meta"]["facts"]["requester"]["affinity"], affinity);
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).await;
    pipe.fixture.happened(&format!("roots {affinity}"), 1).await;

    let (client_message, answered) = ask("elicitation/create", &elicitation());
    pipe.fixture.client_message(&affinity, client_message).await;
    question(&mut pipe).await;
    pipe.input = None;
    pipe.fixture.happened(&format!("leave {affinity}"), 1).await;
    assert!(within(answered).await.is_err(), "no client is left to answer");
    within(pipe.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_second_handshake_takes_the_place_of_the_first() {
    let mut pipe = Pipe::open();
    let affinity = shake_hands(&mut pipe).await;
    let again = shake_hands(&mut pipe).await;
    assert_eq!(affinity, again);
    assert_eq!(pipe.fixture.events(), [format!("leave {affinity}")]);
    pipe.fixture.client_message(&again, log_line("info")).await;
    assert_eq!(pipe.read(Era::Legacy, "").await.unwrap()["method"], "notifications/message");
}

#[tokio::test]
async fn subscriptions_hear_of_everything_they_asked_for() {
    let mut pipe = Pipe::open();
    let filter = json!({"promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["a:1"]});
    let listen = modern("s", "subscriptions/listen", json!({"notifications": filter}));
    let message = pipe.ask(Era::Modern, &listen).await;
    assert_eq!(message["params"]["notifications"], filter);
    pipe.fixture.announce(ChangeEvent::Tools);
    pipe.fixture.announce(ChangeEvent::Prompts);
    pipe.fixture.announce(ChangeEvent::Resources);
    pipe.fixture.update("a:1");
    for method in ["prompts/list_changed", "resources/list_changed", "resources/updated"] {
        let message = pipe.read(Era::Modern, "").await.unwrap();
        assert_eq!(message["method"], format!("notifications/{method}"));
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "s");
    }
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}});
    pipe.send(&cancel).await;
    pipe.fixture.happened("unwatch a:1", 1).await;
}

/// A server that is asked for its tools may ask the client something first, so the door must keep reading while it
/// waits.
#[tokio::test]
async fn a_slow_list_holds_up_no_other_request_and_counts() {
    let mut pipe = Pipe::open_with(|options| options.calls_in_flight_max = 1);
    let affinity = shake_hands(&mut pipe).await;
    pipe.fixture.give_lists(false);
    pipe.send(&request(1, "tools/list", json!({}))).await;
    is_alive(&mut pipe).await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    pipe.fixture.client_message(&affinity, client_message).await;
    let id = question(&mut pipe).await;
    pipe.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}})).await;
    assert!(within(answered).await.is_ok());
    let busy = pipe.ask(Era::Legacy, &request(2, "tools/list", json!({}))).await;
    assert_eq!(busy["error"]["code"], -32603);
    pipe.fixture.give_lists(true);
    assert_eq!(pipe.read(Era::Legacy, "tools/list").await.unwrap()["id"], 1);
}
