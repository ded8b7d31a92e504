//! Resources, prompts, completions and tasks: what of a request is passed on, and in which form its answer goes back.

use serde_json::{Value, json};

use crate::{
    http_client::{Call, Server, legacy, meta, modern, request},
    schema::Era,
};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Capabilities of a client that supports tasks, as `_meta`.
fn takes_tasks() -> Value {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    json!({"io.modelcontextprotocol/clientCapabilities": capabilities})
}

/// Columns: a method, its parameters, the eras that have it, and how long its modern result may be cached, if at all.
fn methods() -> Vec<(&'static str, Value, &'static [Era], Option<u64>)> {
    const BOTH: &[Era] = &[Era::Legacy, Era::Modern];
    vec![
        ("resources/list", json!({"cursor": "c"}), BOTH, Some(70)),
        ("resources/templates/list", json!({}), BOTH, Some(5000)),
        ("resources/read", json!({"uri": "a:1"}), BOTH, Some(0)),
        ("prompts/list", json!({}), BOTH, Some(5000)),
        ("prompts/get", json!({"name": "p", "arguments": {"a": "b"}}), BOTH, None),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
            BOTH,
            None,
        ),
        ("tasks/get", json!({"taskId": "t1"}), BOTH, None),
        ("tasks/cancel", json!({"taskId": "t1"}), BOTH, None),
        ("tasks/update", json!({"taskId": "t1", "inputResponses": {"k": {}}}), &[Era::Modern], None),
        ("tasks/result", json!({"taskId": "t1"}), &[Era::Legacy], None),
        ("tasks/list", json!({}), &[Era::Legacy], None),
    ]
}

#[tokio::test]
async fn legacy_results_have_nothing_of_the_modern_era() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    for (method, params, eras, _) in methods() {
        let answer = server.send(&legacy(Some(&session), request(1, method, params.clone()))).await;
        if !eras.contains(&Era::Legacy) {
            assert_eq!((answer.status.as_u16(), answer.code()), (200, -32601), "{method}");
            continue;
        }
        let result = &answer.json()["result"];
        for member in ["resultType", "ttlMs", "cacheScope"] {
            assert!(result.get(member).is_none(), "{method}: {result}");
        }
        let facts = &result["_meta"]["facts"];
        assert_eq!(facts["requester"]["affinity"], session, "{method}");
        assert_eq!(facts["terms"]["hears"], true);
    }
}

#[tokio::test]
async fn modern_results_say_what_they_are_and_how_long_they_last() {
    let server = Server::start().await;
    for (method, mut params, eras, ttl_ms) in methods() {
        params["_meta"] = takes_tasks();
        let answer = server.send(&modern(1, method, params)).await;
        if !eras.contains(&Era::Modern) {
            assert_eq!((answer.status.as_u16(), answer.code()), (404, -32601), "{method}");
            continue;
        }
        let result = &answer.json()["result"];
        assert_eq!(result["resultType"], "complete", "{method}: {}", answer.body);
        assert_eq!(result["_meta"][SERVER_INFO]["name"], "servanda");
        match ttl_ms {
            Some(ttl_ms) => {
                assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(ttl_ms), &json!("private")), "{method}");
            }
            None => assert!(result.get("cacheScope").is_none(), "{method}"),
        }
        assert_eq!(answer.body.matches("resultType").count(), 1, "{method}");
        let facts = &result["_meta"]["facts"];
        if method.starts_with("tasks/update") || method.starts_with("tasks/cancel") {
            continue;
        }
        assert_eq!(facts["requester"]["affinity"], "local", "{method}");
        assert_eq!(facts["terms"]["hears"], false, "nothing was asked for, so there is no message channel");
    }
}

#[tokio::test]
async fn parameters_are_handed_on_as_they_were_written() {
    let server = Server::start().await;
    let call = modern(1, "prompts/get", json!({"name": "p"}));
    let meta = meta(Value::Null).to_string();
    let meta = meta.replacen('{', r#"{"acme/x":{ "a" :1.0},"progressToken":"t","baggage":"b","#, 1);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{{"z":1e3,"requestState":"s","name":"\u0070","inputResponses":{{"k": 1}},"_meta":{meta},"a":[ 1 ]}}}}"#
    );
    let answer = server.send(&call.body(&body)).await;
    let facts = &answer.json()["result"]["_meta"]["facts"];
    assert_eq!(facts["params"], json!([["z", "1e3"], ["name", r#""\u0070""#], ["a", "[ 1 ]"]]), "{}", answer.body);
    assert_eq!(
        facts["terms"],
        json!({
            "meta": [["acme/x", r#"{ "a" :1.0}"#], ["baggage", r#""b""#]],
            "wantsProgress": true,
            "logLevel": null,
            "hears": true,
            "inputResponses": r#"{"k": 1}"#,
            "requestState": "s",
        })
    );
}

/// Columns: a request, and the status and code it is refused with.
#[tokio::test]
async fn modern_requests_are_refused_by_status_and_code() {
    let server = Server::start().await;
    let with_meta = |method: &str, mut params: Value, meta: Value| {
        params["_meta"] = meta;
        modern(1, method, params)
    };
    let level = |level: Value| json!({"io.modelcontextprotocol/logLevel": level});
    for (call, status, code) in [
        (modern(1, "resources/read", json!({"uri": "missing"})), 200, -32602),
        (modern(1, "resources/read", json!({})), 200, -32602),
        (modern(1, "prompts/get", json!({"name": ["p"]})), 200, -32602),
        (modern(1, "prompts/get", json!({"name": "p", "inputResponses": []})), 200, -32602),
        (modern(1, "prompts/get", json!({"name": "p", "requestState": 5})), 200, -32602),
        (modern(1, "tasks/get", json!({"taskId": "t1"})), 400, -32021),
        (modern(1, "tasks/update", json!({"taskId": "t1"})), 400, -32021),
        (modern(1, "tasks/cancel", json!({"taskId": "t1"})), 400, -32021),
        (with_meta("tasks/get", json!({"taskId": 5}), takes_tasks()), 200, -32602),
        (with_meta("tools/call", json!({"name": "echo"}), level(json!("loud"))), 200, -32602),
        (with_meta("prompts/get", json!({"name": "p"}), level(json!(3))), 200, -32602),
        (modern(1, "tools/call", json!({"name": "lack"})), 400, -32021),
    ] {
        let answer = server.send(&call).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{}: {}", call.body, answer.body);
        assert_eq!(answer.json()["id"], 1);
    }
}

/// Columns: a method whose name is also sent in a header, the header (`None`: not sent), and whether it matches.
#[tokio::test]
async fn names_stand_in_headers() {
    let server = Server::start().await;
    let calls = [
        modern("h", "prompts/get", json!({"name": "p"})),
        modern("h", "resources/read", json!({"uri": "a:1"})),
        modern("h", "tasks/get", json!({"taskId": "t1", "_meta": takes_tasks()})),
        modern("h", "tasks/update", json!({"taskId": "t1", "_meta": takes_tasks()})),
        modern("h", "tasks/cancel", json!({"taskId": "t1", "_meta": takes_tasks()})),
    ];
    for call in calls {
        assert_eq!(server.send(&call).await.status, 200, "{}", call.body);
        for wrong in [call.clone().without("mcp-name"), call.clone().with("mcp-name", "other")] {
            let answer = server.send(&wrong).await;
            assert_eq!((answer.status.as_u16(), answer.code()), (400, -32020), "{}", call.body);
        }
    }
    let list: Call = modern("h", "prompts/list", json!({})).with("mcp-name", "whatever");
    assert_eq!(server.send(&list).await.status, 200, "a method without a name needs no name header");
}

#[tokio::test]
async fn what_is_asked_by_the_answer_and_what_becomes_a_task_is_said_so() {
    let server = Server::start().await;
    for call in [
        modern(1, "tools/call", json!({"name": "ask"})),
        modern(1, "prompts/get", json!({"name": "asking"})),
        modern(1, "resources/read", json!({"uri": "asking"})),
    ] {
        let answer = server.send(&call).await;
        let result = &answer.json()["result"];
        assert_eq!(result["resultType"], "input_required", "{}", answer.body);
        assert_eq!(result["inputRequests"]["sure"]["method"], "elicitation/create");
        assert_eq!(result["requestState"], "sealed");
        assert_eq!(result["_meta"][SERVER_INFO]["name"], "servanda");
        assert!(result.get("ttlMs").is_none(), "it must not be cached");
    }
    let answer = server.send(&modern(1, "tools/call", json!({"name": "begin", "_meta": takes_tasks()}))).await;
    let result = &answer.json()["result"];
    assert_eq!((&result["resultType"], &result["taskId"]), (&json!("task"), &json!("t1")));

    let session = server.begin_session().await;
    let call = request(1, "tools/call", json!({"name": "begin", "task": {"ttl": 5}}));
    let answer = server.send(&legacy(Some(&session), call)).await;
    assert_eq!(answer.json()["result"]["task"]["taskId"], "t1");
    assert!(answer.json()["result"].get("resultType").is_none());
}

#[tokio::test]
async fn what_depends_on_a_clients_answers_is_not_cached() {
    let server = Server::start().await;
    for params in [json!({"cursor": "c", "requestState": "s"}), json!({"cursor": "c", "inputResponses": {}})] {
        let answer = server.send(&modern(1, "resources/list", params)).await;
        assert_eq!(answer.json()["result"]["ttlMs"], 0, "its server said 70");
    }
}

#[tokio::test]
async fn a_modern_call_is_not_made_a_task_by_its_client() {
    let server = Server::start().await;
    let answer = server.send(&modern(1, "tools/call", json!({"name": "echo", "task": {"ttl": 5}}))).await;
    assert_eq!(answer.json()["result"]["_meta"]["servanda/observation"]["task"], Value::Null);
}

/// A caller, and the affinity that groups its requests: principals of two tenants with the same name share nothing.
#[tokio::test]
async fn a_modern_callers_requests_belong_together() {
    let server = Server::start().await;
    let list = modern(1, "prompts/list", json!({}));
    let of =
        |principal: &str, tenant: &str| list.clone().with("x-test-principal", principal).with("x-test-tenant", tenant);
    for (call, principal, affinity) in [
        (list.clone(), "local", "local"),
        (of("ada", "local"), "ada", "local\nada"),
        (of("ada", "acme"), "ada", "acme\nada"),
        (of("local", "acme"), "local", "acme\nlocal"),
    ] {
        let answer = server.send(&call).await;
        let requester = answer.json()["result"]["_meta"]["facts"]["requester"].clone();
        assert_eq!((&requester["principal"], &requester["affinity"]), (&json!(principal), &json!(affinity)));
    }
}
