//! Arguments that are also sent in headers, as a tool's input schema asks for: modern HTTP only.

use serde_json::{Value, json};

use crate::http_client::{Call, Server, legacy, modern, request};

fn routed() -> Value {
    let inner = json!({"type": "object", "properties": {"zone": {"type": "integer", "x-mcp-header": "Zone"}}});
    let properties = json!({"region": {"type": "string", "x-mcp-header": "Region"}, "place": inner});
    json!({"name": "echo", "inputSchema": {"type": "object", "properties": properties}})
}

fn call(arguments: &Value) -> Call {
    modern("m", "tools/call", json!({"name": "echo", "arguments": arguments}))
}

/// Columns: arguments, headers, and whether they match.
#[tokio::test]
async fn headers_say_what_the_arguments_say() {
    let server = Server::start().await;
    server.fixture.define(&[routed()]);
    let west = json!({"region": "us west", "place": {"zone": 3}});
    for (arguments, headers, fits) in [
        (json!({}), vec![], true),
        (json!({"region": null}), vec![], true),
        (west.clone(), vec![("mcp-param-region", "us west"), ("mcp-param-zone", "3")], true),
        (west.clone(), vec![("Mcp-Param-Region", "=?base64?dXMgd2VzdA==?="), ("MCP-PARAM-ZONE", "3.0")], true),
        (west.clone(), vec![("mcp-param-region", "us west")], false),
        (west.clone(), vec![("mcp-param-region", "us east"), ("mcp-param-zone", "3")], false),
        (west.clone(), vec![("mcp-param-region", "us west"), ("mcp-param-zone", "4")], false),
        (west, vec![("mcp-param-region", "=?base64?dXMgd2VzdA?="), ("mcp-param-zone", "3")], false),
        (json!({}), vec![("mcp-param-region", "us west")], false),
        (json!({}), vec![("mcp-param-other", "nobody knows it")], true),
    ] {
        let call = headers.iter().fold(call(&arguments), |call, (name, value)| call.with(name, value));
        let answer = server.send(&call).await;
        if fits {
            assert_eq!(answer.status, 200, "{arguments} {headers:?}: {}", answer.body);
        } else {
            assert_eq!((answer.status.as_u16(), answer.code()), (400, -32020), "{arguments} {headers:?}");
            assert_eq!(answer.json()["id"], "m");
        }
    }
}

#[tokio::test]
async fn the_newest_list_decides() {
    let server = Server::start().await;
    let region = call(&json!({"region": "x"}));
    assert_eq!(server.send(&region).await.status, 200, "nothing is asked for");
    server.fixture.define(&[routed()]);
    assert_eq!(server.send(&region).await.status, 400);
    server.fixture.offer(&["echo"]);
    assert_eq!(server.send(&region).await.status, 200);
}

/// A caller that calls a tool it may not see gets the same answer as for a tool that does not exist.
#[tokio::test]
async fn headers_reveal_nothing_about_a_hidden_tool() {
    let server = Server::start().await;
    server.fixture.define(&[routed()]);
    let region = call(&json!({"region": "x"}));
    assert_eq!(server.send(&region).await.status, 400);
    assert_eq!(server.send(&region.with("x-test-principal", "blind")).await.status, 200);
}

#[tokio::test]
async fn a_call_waits_for_no_list() {
    let server = Server::start().await;
    server.fixture.define(&[routed()]);
    server.fixture.give_lists(false);
    assert_eq!(server.send(&call(&json!({"region": "x"}))).await.status, 400, "what is known decides");
    assert_eq!(server.send(&call(&json!({}))).await.status, 200);
}

#[tokio::test]
async fn the_legacy_era_has_no_such_headers() {
    let server = Server::start().await;
    server.fixture.define(&[routed()]);
    let session = server.begin_session().await;
    let params = json!({"name": "echo", "arguments": {"region": "x"}});
    assert_eq!(server.send(&legacy(Some(&session), request(1, "tools/call", params))).await.status, 200);
}
