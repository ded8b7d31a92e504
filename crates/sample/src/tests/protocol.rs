//! The protocol in both eras: what opens a connection, what is refused, how lists are paged.

use serde_json::{Value, json};

use super::{HONEST, MISBEHAVING, call, converse, converse_raw, initialize, legacy, modern};
use crate::{SampleError, SampleOptions, ServedEras};

#[test]
fn initialize_agrees_on_a_legacy_revision() {
    let table = [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ];
    for (requested, agreed) in table {
        let params = json!({ "protocolVersion": requested, "capabilities": {} });
        let conversation = converse(HONEST, &[legacy(0, "initialize", params)]);
        assert_eq!(conversation.result(0)["protocolVersion"], agreed);
    }
}

#[test]
fn each_era_serves_what_it_speaks() {
    let serving = 0;
    let table = [
        (ServedEras::Both, false, "server/discover", true, serving),
        (ServedEras::Both, false, "tools/list", true, serving),
        (ServedEras::Both, false, "tools/list", false, -32602),
        (ServedEras::Both, false, "ping", false, serving),
        (ServedEras::Both, false, "ping", true, -32601),
        (ServedEras::Both, true, "tools/list", false, serving),
        (ServedEras::Both, true, "tools/list", true, serving),
        (ServedEras::Both, true, "resources/list", false, -32601),
        (ServedEras::Both, false, "resources/list", true, -32601),
        (ServedEras::LegacyOnly, false, "server/discover", true, -32601),
        (ServedEras::LegacyOnly, false, "tools/list", true, -32602),
        (ServedEras::LegacyOnly, true, "tools/list", true, serving),
        (ServedEras::LegacyOnly, true, "ping", false, serving),
        (ServedEras::ModernOnly, false, "server/discover", true, serving),
        (ServedEras::ModernOnly, false, "server/discover", false, -32602),
        (ServedEras::ModernOnly, false, "tools/list", true, serving),
        (ServedEras::ModernOnly, false, "ping", false, -32602),
    ];
    for (era, handshake, method, with_meta, expected) in table {
        let request = if with_meta { modern } else { legacy };
        let mut messages = vec![request(1, method, json!({}))];
        if handshake {
            messages.insert(0, initialize());
        }
        let conversation = converse(SampleOptions { era, ..HONEST }, &messages);
        let code = conversation.answer(1)["error"]["code"].as_i64().unwrap_or(serving);
        assert_eq!(code, expected, "{era:?} handshake {handshake} {method} meta {with_meta}");
    }
}

#[test]
fn unsupported_versions_are_refused_with_the_supported_ones() {
    let dual = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]);
    let mut old = modern(1, "tools/list", json!({}));
    old["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2025-11-25".into();
    let mut handshake = initialize();
    handshake["id"] = 1.into();
    let table = [(ServedEras::Both, old, dual), (ServedEras::ModernOnly, handshake, json!(["2026-07-28"]))];
    for (era, request, supported) in table {
        let conversation = converse(SampleOptions { era, ..HONEST }, &[request]);
        assert_eq!(conversation.error_code(1), -32022);
        let data = &conversation.answer(1)["error"]["data"];
        assert_eq!(*data, json!({ "supported": supported, "requested": "2025-11-25" }));
    }
}

#[test]
fn modern_requests_must_declare_client_capabilities() {
    let mut request = modern(1, "tools/list", json!({}));
    let meta = request["params"]["_meta"].as_object_mut().unwrap();
    meta.remove("io.modelcontextprotocol/clientCapabilities");
    assert_eq!(converse(HONEST, &[request]).error_code(1), -32602);
}

#[test]
fn modern_results_say_so_and_legacy_results_do_not() {
    let conversation = converse(
        HONEST,
        &[
            initialize(),
            modern(1, "server/discover", json!({})),
            modern(2, "tools/list", json!({})),
            call(3, "list_files", json!({})),
            legacy(4, "tools/list", json!({})),
            legacy(5, "tools/call", json!({ "name": "list_files" })),
        ],
    );
    for id in [1, 2, 3] {
        let result = conversation.result(id);
        assert_eq!(result["resultType"], "complete");
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
        assert_eq!(server, "servanda-sample");
        assert_eq!(result["ttlMs"].is_u64(), id != 3);
        assert_eq!(result["cacheScope"].is_string(), id != 3);
    }
    for id in [0, 4, 5] {
        let result = conversation.result(id);
        for key in ["resultType", "_meta", "ttlMs", "cacheScope"] {
            assert!(result.get(key).is_none(), "{key} in {result}");
        }
    }
}

#[test]
fn what_is_not_a_request_is_refused_or_ignored() {
    let table = [
        ("not json", Some((-32700, Value::Null))),
        ("[]", Some((-32600, Value::Null))),
        (r#"{"id": 1, "method": "ping"}"#, Some((-32600, json!(1)))),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, Some((-32600, json!(1)))),
        (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, Some((-32600, Value::Null))),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#, Some((-32600, json!(1)))),
        (r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#, None),
        (r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}"#, None),
        (r#"{"jsonrpc": "2.0", "method": "notifications/unheard_of"}"#, None),
        ("", None),
    ];
    for (line, refused) in table {
        let answers = converse_raw(HONEST, line).messages();
        let seen = answers.first().map(|answer| (answer["error"]["code"].as_i64().unwrap(), answer["id"].clone()));
        assert_eq!(seen, refused, "{line}");
    }
}

#[test]
fn calls_that_name_no_tool_are_protocol_errors() {
    let table = [
        json!({ "name": "no_such_tool", "arguments": {} }),
        json!({ "name": "misbehave_hang", "arguments": {} }),
        json!({ "name": 7 }),
        json!({}),
        json!({ "name": "list_files", "arguments": [] }),
    ];
    for params in table {
        let conversation = converse(HONEST, &[modern(1, "tools/call", params.clone())]);
        assert_eq!(conversation.error_code(1), -32602, "{params}");
    }
}

#[test]
fn the_list_comes_in_pages_and_always_in_one_order() {
    for (options, sizes) in [(HONEST, vec![10, 9]), (MISBEHAVING, vec![10, 10, 10, 1])] {
        let pages = pages(&options);
        let lengths: Vec<usize> = pages.iter().map(Vec::len).collect();
        assert_eq!(lengths, sizes);
        assert_eq!(pages, self::pages(&options));
        let mut names: Vec<&Value> = pages.iter().flatten().collect();
        let listed = names.len();
        names.sort_by_key(|name| name.as_str());
        names.dedup();
        assert_eq!(names.len(), listed, "a tool is listed twice");
    }
    for cursor in [json!(""), json!("10"), json!("after:nothing"), json!(3)] {
        let request = modern(1, "tools/list", json!({ "cursor": cursor }));
        assert_eq!(converse(HONEST, &[request]).error_code(1), -32602);
    }
}

fn pages(options: &SampleOptions) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut params = json!({});
    loop {
        let request = modern(1, "tools/list", params);
        let result = converse(options.clone(), &[request]).result(1);
        let tools = result["tools"].as_array().unwrap();
        pages.push(tools.iter().map(|tool| tool["name"].clone()).collect());
        match result.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return pages,
        }
    }
}

#[test]
fn progress_is_told_only_to_those_who_asked() {
    for (token, steps) in [(json!("t-1"), 5), (json!(9), 5), (Value::Null, 0)] {
        let mut request = call(1, "monthly_report", json!({ "month": "2026-10" }));
        if !token.is_null() {
            request["params"]["_meta"]["progressToken"] = token.clone();
        }
        let conversation = converse(HONEST, &[request]);
        let told = conversation.notifications("notifications/progress");
        assert_eq!(told.len(), steps);
        for (done, notification) in (1..).zip(&told) {
            assert_eq!(notification["params"]["progress"], done);
            assert_eq!(notification["params"]["total"], 5);
            assert_eq!(notification["params"]["progressToken"], token);
        }
        let last = conversation.messages().pop().unwrap();
        assert_eq!(last["id"], 1, "nothing follows the answer");
    }
}

#[test]
fn list_changes_reach_the_clients_that_asked_for_them() {
    let toggle = |id| call(id, "admin_toggle_beta_tools", json!({}));
    let listen = |id, wanted: bool| {
        modern(id, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": wanted } }))
    };
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    let table = [
        (vec![toggle(1)], vec![]),
        (vec![initialize(), toggle(1)], vec![Value::Null]),
        (vec![listen(7, true), toggle(1)], vec![json!(7)]),
        (vec![listen(7, false), toggle(1)], vec![]),
        (vec![listen(7, true), cancel, toggle(1)], vec![]),
        (vec![listen(7, true), listen(8, true), toggle(1)], vec![json!(7), json!(8)]),
    ];
    let key = "io.modelcontextprotocol/subscriptionId";
    for (messages, expected) in table {
        let conversation = converse(MISBEHAVING, &messages);
        let told = conversation.notifications("notifications/tools/list_changed");
        let heard: Vec<Value> = told.iter().map(|told| told["params"]["_meta"][key].clone()).collect();
        assert_eq!(heard, expected);
        let listening = conversation.notifications("notifications/subscriptions/acknowledged");
        for id in &expected {
            let acknowledged = |told: &Value| told["params"]["_meta"][key] == *id;
            assert!(id.is_null() || listening.iter().any(acknowledged));
        }
    }
}

#[test]
fn toggling_lists_the_beta_tools_and_hides_them_again() {
    let toggle = |id| call(id, "admin_toggle_beta_tools", json!({}));
    let beta = |id| call(id, "beta_outstanding_total", json!({}));
    let conversation = converse(MISBEHAVING, &[beta(1), toggle(2), beta(3), toggle(4), beta(5)]);
    assert_eq!(conversation.error_code(1), -32602);
    assert_eq!(conversation.result(2)["structuredContent"]["beta_tools_listed"], true);
    assert_eq!(conversation.result(3)["isError"], false);
    assert_eq!(conversation.result(4)["structuredContent"]["beta_tools_listed"], false);
    assert_eq!(conversation.error_code(5), -32602);
}

#[test]
fn a_line_without_end_stops_the_server() {
    let endless = "x".repeat(17 * 1024 * 1024);
    let conversation = converse_raw(HONEST, &endless);
    assert!(matches!(conversation.ended, Err(SampleError::LineTooLong { .. })));
}
