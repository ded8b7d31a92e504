//! The modern era over HTTP: every request stands alone, and its headers match its body.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fixture::within,
    http_client::{Server, initialize, legacy, meta, modern},
};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[tokio::test]
async fn discover_says_who_we_are() {
    let server = Server::start().await;
    let answer = server.send(&modern("d", "server/discover", json!({}))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json()["result"],
        json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
            "capabilities": {
                "tools": {"listChanged": true},
                "prompts": {"listChanged": true},
                "resources": {"subscribe": true, "listChanged": true},
                "completions": {},
                "logging": {},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
            "instructions": "use \"echo\" first",
            "ttlMs": 5000,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "servanda", "version": "0.1.0"}},
        })
    );
    assert!(answer.session().is_none());
}

/// Columns: the member removed from or put into `_meta`, and the code of the answer.
#[tokio::test]
async fn meta_must_have_what_the_era_requires() {
    let server = Server::start().await;
    for (name, value, code) in [
        (VERSION, None, -32602),
        (VERSION, Some(json!(5)), -32602),
        (CAPABILITIES, None, -32602),
        (CAPABILITIES, Some(json!([])), -32602),
        (VERSION, Some(json!("1900-01-01")), -32022),
        (VERSION, Some(json!("2025-11-25")), -32022),
    ] {
        let mut meta = meta(Value::Null);
        let call = match &value {
            None => {
                meta.as_object_mut().unwrap().remove(name);
                modern(9, "tools/list", json!({}))
            }
            Some(value) => {
                meta[name] = value.clone();
                let version = value.as_str().unwrap_or("2026-07-28");
                modern(9, "tools/list", json!({})).with("mcp-protocol-version", version)
            }
        };
        let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {"_meta": meta}});
        let answer = server.send(&call.body(&body.to_string())).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, code), "{name}: {value:?}: {}", answer.body);
        assert_eq!(answer.json()["id"], 9);
        if code == -32022 {
            let data = &answer.json()["error"]["data"];
            assert_eq!(data["requested"], value.unwrap());
            assert_eq!(data["supported"][0], "2026-07-28");
        }
    }
    for params in [r"{}", r#"{"_meta":{}}"#, r#"{"_meta":5}"#, "[]", "5"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"server/discover","params":{params}}}"#);
        let answer = server.send(&modern(9, "server/discover", json!({})).body(&body)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, -32602), "{params}");
    }
    let bare = legacy(None, json!({"jsonrpc": "2.0", "id": 9, "method": "server/discover"}));
    let answer = server.send(&bare).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (400, -32602), "nothing says modern but the method");
}

/// Columns: a header, its value (`None`: not sent), and whether it matches the body.
#[tokio::test]
async fn headers_say_what_the_body_says() {
    let server = Server::start().await;
    for (header, value, fits) in [
        ("mcp-protocol-version", None, false),
        ("mcp-protocol-version", Some("2025-11-25"), false),
        ("mcp-protocol-version", Some(" 2026-07-28\t"), true),
        ("mcp-method", None, false),
        ("mcp-method", Some("tools/list"), false),
        ("mcp-method", Some("TOOLS/CALL"), false),
        ("MCP-METHOD", Some("tools/call"), true),
        ("mcp-name", None, false),
        ("mcp-name", Some("ECHO"), false),
        ("mcp-name", Some("slow"), false),
        ("mcp-name", Some("  echo  "), true),
        ("mcp-name", Some("=?base64?ZWNobw==?="), true),
        ("mcp-name", Some("=?base64?ZWNobw?="), false),
        ("mcp-name", Some("=?base64?c2xvdw==?="), false),
        ("mcp-name", Some("=?BASE64?ZWNobw==?="), false),
    ] {
        let call = modern("h", "tools/call", json!({"name": "echo"})).without(&header.to_lowercase());
        let call = match value {
            Some(value) => call.with(header, value),
            None => call,
        };
        let answer = server.send(&call).await;
        if fits {
            assert_eq!(answer.status, 200, "{header}: {value:?}: {}", answer.body);
        } else {
            assert_eq!((answer.status.as_u16(), answer.code()), (400, -32020), "{header}: {value:?}");
            assert_eq!(answer.json()["id"], "h");
        }
    }
}

#[tokio::test]
async fn a_name_no_header_can_hold_is_encoded() {
    let server = Server::start().await;
    let call = modern(1, "tools/call", json!({"name": "plain"}));
    let call = call.clone().body(&call.body.replace("plain", "世界")).with("mcp-name", "=?base64?5LiW55WM?=");
    let answer = server.send(&call).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (200, -32602));
    assert_eq!(answer.json()["error"]["message"], "no tool is called `世界`");
}

#[tokio::test]
async fn methods_that_are_not_there_are_not_found() {
    let server = Server::start().await;
    for method in [
        "ping",
        "initialize",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "no/such",
    ] {
        let answer = server.send(&modern(5, method, json!({}))).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (404, -32601), "{method}");
        assert_eq!(answer.json()["id"], 5);
    }
    let fallback = legacy(None, initialize("2025-11-25")).with("mcp-protocol-version", "2026-07-28");
    assert_eq!(server.send(&fallback).await.status, 200, "without modern `_meta` it is the legacy handshake");
}

#[tokio::test]
async fn get_and_delete_are_not_allowed() {
    let server = Server::start().await;
    for method in [Method::GET, Method::DELETE] {
        let answer = server.send(&modern(1, "tools/list", json!({})).method(method)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (405, -32600));
        assert_eq!(answer.headers["allow"], "POST");
    }
}

#[tokio::test]
async fn lists_can_be_cached() {
    let server = Server::start_with(|options| options.page_size = 3).await;
    // Headers that only older revisions use are ignored.
    let call = modern(1, "tools/list", json!({})).with("mcp-session-id", "nobody").with("last-event-id", "5");
    let answer = server.send(&call).await;
    assert_eq!(answer.status, 200);
    assert!(answer.session().is_none());
    let result = &answer.json()["result"];
    assert_eq!(
        (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
        (&json!("complete"), &json!(5000), &json!("private"))
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "servanda");
    let next = modern(2, "tools/list", json!({"cursor": result["nextCursor"]}));
    let result = &server.send(&next).await.json()["result"];
    assert_eq!(result["tools"].as_array().unwrap().len(), 2);
    assert!(result.get("nextCursor").is_none());
}

#[tokio::test]
async fn a_result_is_completed() {
    let server = Server::start().await;
    let params = json!({"name": "echo", "arguments": {"n": 1}, "_meta": {"servanda/chain": "c"}});
    let answer = server.send(&modern("e", "tools/call", params)).await;
    let result = &answer.json()["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!(result["_meta"]["servanda/observation"]["client"], "modern 2");
    assert_eq!(result["_meta"]["servanda/observation"]["session"], Value::Null);
    assert_eq!(result["_meta"]["servanda/observation"]["chain"], "c");
    let named = "io.modelcontextprotocol/serverInfo";
    assert_eq!(result["_meta"][named]["name"], "servanda", "not the upstream's");
    assert_eq!(answer.body.matches(named).count(), 1);

    let answer = server.send(&modern(1, "tools/call", json!({"name": "refuse"}))).await;
    let result = &answer.json()["result"];
    assert_eq!((&result["isError"], &result["resultType"]), (&json!(true), &json!("complete")));
    assert_eq!(result["_meta"][named]["name"], "servanda");
}

#[tokio::test]
async fn progress_is_streamed() {
    let server = Server::start().await;
    let params = json!({"name": "progress", "_meta": {"progressToken": "t"}});
    let mut events = server.stream(&modern(1, "tools/call", params)).await;
    for step in 1..=3 {
        let message = events.next().await.unwrap();
        assert_eq!(message["params"], json!({"progressToken": "t", "progress": step, "total": 3}));
    }
    assert_eq!(events.next().await.unwrap()["result"]["resultType"], "complete");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_and_the_call_goes_on() {
    let mut server = Server::start().await;
    for params in [json!({"name": "slow"}), json!({"name": "slow", "_meta": {"progressToken": 1}})] {
        let pending = server.send_later(&modern(1, "tools/call", params));
        let started = server.started().await;
        assert!(!started.cancel.is_cancelled());
        pending.abort();
        within(started.cancel.cancelled()).await;
        started.release.send(()).expect("the call still runs");
        within(started.ended).await.expect("and comes to its end");
    }
}

#[tokio::test]
async fn equal_ids_do_not_meet() {
    let mut server = Server::start().await;
    let call = modern(1, "tools/call", json!({"name": "slow"}));
    let (one, first) = (server.send_later(&call), server.started().await);
    let (two, second) = (server.send_later(&call), server.started().await);
    second.release.send(()).unwrap();
    first.release.send(()).unwrap();
    assert_eq!((one.await.unwrap().status.as_u16(), two.await.unwrap().status.as_u16()), (200, 200));
}

#[tokio::test]
async fn the_key_of_a_call_may_be_in_its_header() {
    let server = Server::start().await;
    for (written, read) in [("k-1", Some("k-1")), ("\"k 1\\\"\"", Some("k 1\"")), ("\"open", None), ("\"a\"b\"", None)]
    {
        let call = modern(1, "tools/call", json!({"name": "echo"})).with("idempotency-key", written);
        let answer = server.send(&call).await;
        match read {
            Some(read) => {
                let keys = &answer.json()["result"]["_meta"]["servanda/observation"]["keys"];
                assert_eq!(keys, &json!([null, read, null, null, null, null]), "{written}");
            }
            None => assert_eq!(answer.status.as_u16(), 400, "{written}"),
        }
    }
}
