//! Complete requests: what they carry in each era, and that no error proves that nothing was begun.

use servanda_mcp::Era;

use super::*;
use crate::{Continuation, DispatchLease, OwnerLease, UpstreamInquiry};

fn question(method: &'static str, name: Option<&str>, params: &[(&str, &str)]) -> UpstreamInquiry {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), raw(value))).collect();
    UpstreamInquiry { method, name: name.map(ToOwned::to_owned), params }
}

fn everything(requester: UpstreamRequester) -> RequestOptions {
    RequestOptions {
        requester,
        log_level: Some("debug".to_owned()),
        trace_parent: Some("00-1-2-01".to_owned()),
        meta: vec![("acme/x".to_owned(), raw("{\"y\":\n1.0}"))],
        continuation: Continuation {
            input_responses: Some(raw(r#"{"k":{"action":"accept"}}"#)),
            request_state: Some("st\"ate".to_owned()),
        },
        param_headers: vec![("Region".to_owned(), "us-west1".to_owned()), ("Greeting".to_owned(), "世界".to_owned())],
        task: Some(raw(r#"{"ttl":60000}"#)),
        ..options(ANSWER_WAIT_MAX)
    }
}

async fn ask(upstream: &Upstream, question: UpstreamInquiry, options: RequestOptions) -> Value {
    let answer = upstream.ask(question, options).await.expect("an answer");
    serde_json::from_slice(&answer.result).unwrap()
}

#[tokio::test]
async fn a_modern_question_carries_everything() {
    let server = serve("modern").await;
    for upstream in [stdio("modern"), client(&server.url)] {
        let able = requester("a", r#"{"elicitation":{}}"#);
        let read = question("resources/read", Some("a://b"), &[("uri", r#""a://b""#), ("x", "[ 1.0,\n2 ]")]);
        let asked = ask(&upstream, read, everything(able)).await["asked"].clone();
        assert_eq!(asked["uri"], "a://b");
        assert_eq!(asked["x"], json!([1.0, 2]));
        assert_eq!(asked["inputResponses"], json!({"k": {"action": "accept"}}));
        assert_eq!(asked["requestState"], "st\"ate");
        assert!(asked.get("task").is_none());
        let meta = &asked["_meta"];
        assert_eq!(meta["acme/x"], json!({"y": 1.0}));
        assert_eq!(meta["traceparent"], "00-1-2-01");
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], "debug");
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({"elicitation": {}}));
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_legacy_question_carries_what_its_era_knows() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let get = question("prompts/get", Some("p"), &[("name", r#""p""#)]);
        let asked = ask(&upstream, get, everything(UpstreamRequester::gateway())).await["asked"].clone();
        let meta = json!({"traceparent": "00-1-2-01", "acme/x": {"y": 1.0}});
        assert_eq!(asked, json!({"name": "p", "_meta": meta}));
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn only_a_legacy_call_asks_for_a_task_and_only_a_modern_one_continues() {
    for (mode, task, continued) in [("legacy", true, false), ("modern", false, true)] {
        let upstream = stdio(mode);
        let called = call_with(&upstream, "received", "{}", everything(UpstreamRequester::gateway())).await;
        let received = json_text(called);
        let params = &received.as_array().unwrap().last().unwrap()["params"];
        assert_eq!(params.get("task").is_some(), task, "{params}");
        assert_eq!(params.get("requestState").is_some(), continued, "{params}");
        assert_eq!(params.get("inputResponses").is_some(), continued, "{params}");
    }
}

#[tokio::test]
async fn modern_headers_repeat_what_the_body_is_about() {
    let server = serve("modern").await;
    let upstream = client(&server.url);
    let table = [
        (question("resources/read", Some("file:///ä"), &[]), Some("=?base64?ZmlsZTovLy/DpA==?=")),
        (question("prompts/get", Some("p"), &[]), Some("p")),
        (question("tasks/get", Some("task-1"), &[]), Some("task-1")),
        (question("tasks/update", Some("task-1"), &[]), Some("task-1")),
        (question("completion/complete", Some("p"), &[]), None),
    ];
    for (question, name) in table {
        let method = question.method;
        let headers = ask(&upstream, question, everything(UpstreamRequester::gateway())).await["headers"].clone();
        assert_eq!(headers["mcp-method"], method);
        assert_eq!(headers.get("mcp-name").and_then(Value::as_str), name, "{method}");
        assert!(headers.get("mcp-param-region").is_none(), "only calls repeat arguments");
    }
    let called = call_with(&upstream, "headers", "{}", everything(UpstreamRequester::gateway())).await;
    let headers = json_text(called);
    assert_eq!(headers["mcp-param-region"], "us-west1");
    assert_eq!(headers["mcp-param-greeting"], "=?base64?5LiW55WM?=");

    let server = serve("legacy").await;
    let upstream = client(&server.url);
    let headers = json_text(call_with(&upstream, "headers", "{}", everything(UpstreamRequester::gateway())).await);
    assert!(headers.get("mcp-param-region").is_none() && headers.get("mcp-name").is_none(), "{headers}");
}

#[tokio::test]
async fn no_error_of_a_server_proves_that_nothing_was_begun() {
    let table = [
        ("modern", -32020, 400),
        ("modern", -32021, 400),
        ("modern", -32021, 404),
        ("modern", -32022, 400),
        ("modern", -32602, 400),
        ("legacy", -32021, 404),
    ];
    for (traits, code, status) in table {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        let arguments = Bytes::from(json!({"code": code, "status": status}).to_string());
        let called = upstream.call_tool("modern-error", &arguments, EffectClass::N, options(ANSWER_WAIT_MAX)).await;
        assert!(called.sent);
        let failure = called.outcome.unwrap_err();
        assert!(!failure.provably_not_executed(), "{traits} {code} {status}");
        let PerformFailure::Rejected { code: told, data: Some(data), .. } = failure else { panic!("{failure}") };
        assert_eq!((told, data.get()), (code, r#"{"requiredCapabilities": {"sampling": {}}}"#));
        let methods = seen(&upstream).await;
        let count = |wanted: &str| methods.iter().filter(|method| *method == wanted).count();
        assert_eq!((count("server/discover"), count("tools/call")), (1, 2), "the agreement holds: {methods:?}");
    }
}

#[tokio::test]
async fn an_offer_says_what_the_server_is() {
    for (mode, era) in [("modern", Era::Modern), ("legacy", Era::Legacy)] {
        let offer = stdio(mode).offer(Instant::now() + ANSWER_WAIT_MAX).await.unwrap();
        assert_eq!(offer.era, era);
        let capabilities: Value = serde_json::from_str(&offer.capabilities).unwrap();
        assert_eq!(capabilities["resources"], json!({"subscribe": true}));
    }
    let failure = stdio("dies-at-start").offer(Instant::now() + ANSWER_WAIT_MAX).await.unwrap_err();
    assert!(matches!(failure, PerformFailure::Unavailable { .. }), "{failure}");
}

#[tokio::test]
async fn a_key_in_a_header_arrives_or_nothing_is_sent() {
    let keyed = || RequestOptions {
        key_header: Some(("Idempotency-Key".to_owned(), "k-1".to_owned())),
        ..options(ANSWER_WAIT_MAX)
    };
    for era in ["modern", "legacy"] {
        let server = serve(era).await;
        let upstream = client(&server.url);
        let called = upstream.call_tool("headers", &Bytes::new(), EffectClass::K, keyed()).await;
        let headers: Value = serde_json::from_str(&text(called)).unwrap();
        assert_eq!(headers["idempotency-key"], "k-1", "{era}");
        upstream.shutdown().await;
    }
    let upstream = stdio("modern");
    let called = upstream.call_tool("echo", &Bytes::new(), EffectClass::K, keyed()).await;
    assert!(!called.sent);
    assert!(failure(called).provably_not_executed());
    upstream.shutdown().await;
}

#[tokio::test]
async fn trace_context_arrives_in_a_header_where_there_are_headers() {
    let sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for era in ["modern", "legacy"] {
        let server = serve(era).await;
        let upstream = client(&server.url);
        for trace_parent in [Some(sent), None] {
            let options = RequestOptions { trace_parent: trace_parent.map(str::to_owned), ..options(ANSWER_WAIT_MAX) };
            let called = upstream.call_tool("headers", &Bytes::new(), EffectClass::R, options).await;
            let headers: Value = serde_json::from_str(&text(called)).unwrap();
            assert_eq!(headers["traceparent"].as_str(), trace_parent, "{era}");
        }
        upstream.shutdown().await;
    }
}

/// A call whose lease has ended is not sent, and its connection stays usable. A request that asks about a task needs no lease.
#[tokio::test]
async fn a_call_whose_lease_has_ended_is_not_sent() {
    let server = serve("modern").await;
    for upstream in [stdio("modern"), client(&server.url)] {
        let owner = Arc::new(OwnerLease::default());
        let ended = DispatchLease::new(Instant::now(), Arc::clone(&owner));
        let late = || RequestOptions { lease: Some(ended.clone()), ..options(ANSWER_WAIT_MAX) };
        let called = call_with(&upstream, "received", "{}", late()).await;
        assert!(!called.sent);
        assert!(failure(called).provably_not_executed());
        let read = question("resources/read", Some("a://b"), &[("uri", r#""a://b""#)]);
        assert_eq!(ask(&upstream, read, late()).await["asked"]["uri"], "a://b");
        // The process's own lease covers the messages that follow the first bytes.
        owner.extend(Instant::now() + ANSWER_WAIT_MAX);
        let later = RequestOptions { lease: Some(ended.clone().extended()), ..options(ANSWER_WAIT_MAX) };
        assert!(call_with(&upstream, "received", "{}", later).await.sent);
        upstream.shutdown().await;
    }
}
