//! `subscriptions/listen` over HTTP: what is granted, what is reported, and until when.

use std::time::Duration;

use serde_json::{Value, json};
use servanda_engine::ChangeEvent;

use crate::{
    fixture::{raw, within},
    http_client::{Call, Events, Server, modern},
};

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(id: impl Into<Value>, filter: &Value) -> Call {
    modern(id, "subscriptions/listen", json!({"notifications": filter}))
}

/// The same for a client that supports tasks.
fn listen_with_tasks(id: impl Into<Value>, filter: &Value) -> Call {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    modern(id, "subscriptions/listen", json!({"notifications": filter, "_meta": meta}))
}

/// Reads the acknowledgement: from then on no change is missed.
async fn acknowledged(server: &Server, call: &Call) -> Events {
    let mut events = server.stream(call).await;
    let message = events.next().await.unwrap();
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged");
    assert!(events.last_id.is_none(), "the modern era cannot resume a stream");
    events
}

/// Columns: what is asked for, and what is granted.
#[tokio::test]
async fn a_subscription_is_acknowledged_with_what_is_granted() {
    let server = Server::start().await;
    for (asked, granted) in [
        (json!({"toolsListChanged": true}), json!({"toolsListChanged": true})),
        (
            json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["a:2", "missing:1", "a:1", "a:2"], "unheardOf": 5,
            }),
            json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["a:1", "a:2"],
            }),
        ),
        (json!({"toolsListChanged": false, "resourceSubscriptions": []}), json!({})),
        (json!({"resourceSubscriptions": ["missing:1"]}), json!({})),
        (json!({"taskIds": ["t1"]}), json!({"taskIds": ["t1"]})),
        (json!({"taskIds": ["missing", "t1"]}), json!({"taskIds": ["t1"]})),
        (json!({"taskIds": ["missing"]}), json!({})),
        (json!({}), json!({})),
    ] {
        let mut events = server.stream(&listen_with_tasks("s", &asked)).await;
        let message = events.next().await.unwrap();
        assert_eq!(message["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(message["params"], json!({"_meta": {SUBSCRIPTION_ID: "s"}, "notifications": granted}), "{asked}");
    }
    for params in [
        json!({}),
        json!({"notifications": 5}),
        json!({"notifications": {"toolsListChanged": 1}}),
        json!({"notifications": {"resourceSubscriptions": "a:1"}}),
        json!({"notifications": {"resourceSubscriptions": vec!["a:1"; 65]}}),
    ] {
        let answer = server.send(&modern(1, "subscriptions/listen", params.clone())).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (200, -32602), "{params}");
    }
}

#[tokio::test]
async fn tasks_are_told_of_only_to_clients_that_know_them() {
    let server = Server::start().await;
    let answer = server.send(&listen(3, &json!({"taskIds": ["t1"]}))).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (400, -32021));
    let required = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    assert_eq!(answer.json()["error"]["data"]["requiredCapabilities"], required);
}

#[tokio::test]
async fn everything_wanted_is_told_with_the_subscriptions_id_and_nothing_else() {
    let server = Server::start().await;
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:1"], "taskIds": ["t1", "missing"]});
    let mut events = acknowledged(&server, &listen_with_tasks(7, &filter)).await;
    let mut deaf = acknowledged(&server, &listen(8, &json!({"promptsListChanged": true}))).await;
    let task = |tenant: &str, id: &str, params: Value| ChangeEvent::Task {
        owner: servanda_contract::Caller::named(tenant, "local").into(),
        task_id: id.into(),
        params: raw(&params).into(),
    };
    server.fixture.announce(ChangeEvent::Resources);
    server.fixture.update("a:2");
    server.fixture.announce(task("stranger", "t1", json!({"taskId": "t1", "ttlMs": 1})));
    server.fixture.announce(task("local", "missing", json!({"taskId": "missing", "ttlMs": 1})));
    server.fixture.announce(task("local", "t2", json!({"taskId": "t2", "ttlMs": 1})));
    server.fixture.announce(task("local", "t1", json!({"taskId": "t1", "ttl": 1})));
    for (news, method, params) in [
        (ChangeEvent::Tools, "notifications/tools/list_changed", json!({})),
        (
            ChangeEvent::Resource { uri: "a:1".into(), params: raw(&json!({"uri": "a:1", "_meta": {"x": 1}})).into() },
            "notifications/resources/updated",
            json!({"uri": "a:1", "_meta": {"x": 1}}),
        ),
        (
            task("local", "t1", json!({"taskId": "t1", "status": "working", "ttlMs": 1})),
            "notifications/tasks",
            json!({"taskId": "t1", "status": "working", "ttlMs": 1}),
        ),
    ] {
        server.fixture.announce(news);
        let message = events.next().await.unwrap();
        assert_eq!(message["method"], method);
        let mut expected = params;
        expected["_meta"][SUBSCRIPTION_ID] = json!(7);
        assert_eq!(message["params"], expected);
    }
    server.fixture.announce(ChangeEvent::Prompts);
    let message = deaf.next().await.unwrap();
    assert_eq!(message["method"], "notifications/prompts/list_changed", "it heard nothing it had not asked for");
    assert_eq!(message["params"], json!({"_meta": {SUBSCRIPTION_ID: 8}}));
}

#[tokio::test]
async fn a_subscription_ends_with_an_answer_when_the_server_does() {
    let server = Server::start().await;
    let mut events = acknowledged(&server, &listen(7, &json!({"toolsListChanged": true}))).await;
    for tools in [["echo"], ["slow"]] {
        server.fixture.offer(&tools);
        assert_eq!(events.next().await.unwrap()["method"], "notifications/tools/list_changed");
    }
    server.shutdown.cancel();
    let farewell = events.next().await.unwrap();
    assert_eq!((&farewell["id"], &farewell["result"]["resultType"]), (&json!(7), &json!("complete")));
    assert_eq!(farewell["result"]["_meta"][SUBSCRIPTION_ID], 7);
    assert_eq!(events.next().await, None);
    within(server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn resources_are_watched_for_as_long_as_the_client_listens() {
    let server = Server::start().await;
    let events = acknowledged(&server, &listen(7, &json!({"resourceSubscriptions": ["a:1"]}))).await;
    server.fixture.happened("watch a:1", 1).await;
    drop(events);
    server.fixture.happened("unwatch a:1", 1).await;
}

/// The fixture's event channel holds eight events.
#[tokio::test]
async fn a_client_that_missed_events_is_told_that_anything_may_have_changed() {
    let server = Server::start().await;
    let filter = json!({"promptsListChanged": true, "resourceSubscriptions": ["a:1"]});
    let mut events = acknowledged(&server, &listen(7, &filter)).await;
    // Another thread serves the stream and may keep up with one burst, so bursts follow each other until it does not.
    let first = {
        let mut next = std::pin::pin!(events.next());
        loop {
            for _ in 0..1_000 {
                server.fixture.announce(ChangeEvent::Tools);
            }
            if let Ok(message) = tokio::time::timeout(Duration::from_millis(20), &mut next).await {
                break message.unwrap();
            }
        }
    };
    let second = events.next().await.unwrap();
    let told = [&first, &second].map(|message| message["method"].as_str().unwrap());
    assert_eq!(told, ["notifications/prompts/list_changed", "notifications/resources/updated"]);
}

#[tokio::test]
async fn listeners_have_a_limit() {
    let server = Server::start_with(|options| options.listen_streams_max = 1).await;
    let call = listen(1, &json!({}));
    let mut open = server.stream(&call).await;
    assert!(open.next().await.is_some());
    let answer = server.send(&call).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, -32603));
}

#[tokio::test]
async fn listeners_of_one_principal_leave_places_to_others() {
    let server = Server::start_with(|options| options.listen_streams_max = 8).await;
    let as_one = |principal: &str| listen(1, &json!({})).with("x-test-principal", principal);
    let held = [server.stream(&as_one("mallory")).await, server.stream(&as_one("mallory")).await];
    let answer = server.send(&as_one("mallory")).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, -32603));
    assert_eq!(answer.json()["error"]["message"], "too many of your clients are listening");
    assert!(server.stream(&as_one("ada")).await.next().await.is_some());
    // The one local principal may take all places.
    let mut everybody = Vec::new();
    for _ in 0..5 {
        everybody.push(server.stream(&listen(1, &json!({}))).await);
    }
    drop(held);
}
