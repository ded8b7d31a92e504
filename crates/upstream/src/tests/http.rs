//! Calls over real sockets: both eras, JSON and events, and servers that misbehave.

use servanda_mcp::Era;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::UpstreamStatus;

async fn call_as(upstream: &Upstream, tool: &str, class: EffectClass) -> DispatchOutcome {
    upstream.call_tool(tool, &Bytes::from_static(b"{}"), class, options(ANSWER_WAIT_MAX)).await
}

async fn change(upstream: &Upstream, tool: &str) -> DispatchOutcome {
    call_as(upstream, tool, EffectClass::N).await
}

#[tokio::test]
async fn both_eras_answer_as_json_and_as_events() {
    let table = [
        ("modern", Era::Modern),
        ("modern,sse", Era::Modern),
        ("needs-header", Era::Modern),
        ("legacy", Era::Legacy),
        ("legacy,sse", Era::Legacy),
        ("legacy,html", Era::Legacy),
    ];
    for (traits, expected) in table {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        assert_eq!(upstream.tools(&UpstreamRequester::gateway()).await.unwrap().tools[0].name, "echo", "{traits}");
        echoes(&upstream).await;
        let UpstreamStatus::Ready { era, .. } = upstream.status() else { panic!("not ready") };
        assert_eq!(era, expected, "{traits}");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn requests_carry_the_headers_of_their_era() {
    let server = serve("modern").await;
    let upstream = client(&server.url);
    let headers: serde_json::Value = serde_json::from_str(&text(call(&upstream, "headers").await)).unwrap();
    assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
    assert_eq!(headers["mcp-method"], "tools/call");
    assert_eq!(headers["mcp-name"], "headers");
    assert_eq!(headers["authorization"], "Bearer tok_secret_1");
    assert_eq!(headers["accept"], "application/json, text/event-stream");
    assert!(headers.get("mcp-session-id").is_none());
    let headers: serde_json::Value = serde_json::from_str(&text(call(&upstream, "h\u{e9}").await)).unwrap();
    assert_eq!(headers["mcp-name"], "=?base64?aMOp?=");

    let server = serve("legacy").await;
    let upstream = client(&server.url);
    let headers: serde_json::Value = serde_json::from_str(&text(call(&upstream, "headers").await)).unwrap();
    assert_eq!(headers["mcp-protocol-version"], "2025-11-25");
    assert_eq!(headers["mcp-session-id"], "session-1");
    assert!(headers.get("mcp-method").is_none());
}

#[tokio::test]
async fn a_forgotten_session_is_begun_again_and_the_call_is_sent_once_more() {
    for traits in ["legacy", "legacy,sse"] {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        assert_eq!(text(call(&upstream, "forget-sessions").await), "forgotten");
        let calls = (0..8).map(|_| echoes(&upstream));
        futures_util::future::join_all(calls).await;
        let sessions = seen(&upstream).await.iter().filter(|method| *method == "initialize").count();
        assert_eq!(sessions, 2, "one new session for all of them");
    }
}

#[tokio::test]
async fn a_session_refused_otherwise_is_begun_again_for_the_next_call_only() {
    for traits in ["legacy", "legacy,session-400"] {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        assert_eq!(text(call(&upstream, "forget-sessions").await), "forgotten");
        let failure = failure(change(&upstream, "echo").await);
        assert!(matches!(failure, PerformFailure::Rejected { code: -32000 | -32001, .. }), "{traits}: {failure}");
        echoes(&upstream).await;
    }
}

#[tokio::test]
async fn a_call_that_changes_something_is_sent_once_whatever_the_server_says_of_the_session() {
    for class in [EffectClass::K, EffectClass::Q, EffectClass::N] {
        let server = serve("legacy").await;
        let upstream = client(&server.url);
        echoes(&upstream).await;
        let called = call_as(&upstream, "effect-then-404", class).await;
        assert!(called.sent);
        let shown = failure(called);
        assert!(
            matches!(&shown, PerformFailure::HttpStatus { status: 404, excerpt, .. } if excerpt.ends_with("[redacted]"))
        );
        assert_eq!(text(call(&upstream, "effects").await), "1", "{class:?}");
        let sessions = seen(&upstream).await.iter().filter(|method| *method == "initialize").count();
        assert_eq!(sessions, 2, "the next call began a new session");
    }
}

#[tokio::test]
async fn a_404_that_answers_the_request_is_an_answer_and_keeps_the_session() {
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    for _ in 0..2 {
        let failure = failure(call(&upstream, "error-404").await);
        assert!(matches!(failure, PerformFailure::Rejected { code: -32602, .. }), "{failure}");
    }
    let methods = seen(&upstream).await;
    assert_eq!(methods.iter().filter(|method| *method == "initialize").count(), 1, "{methods:?}");
}

#[tokio::test]
async fn a_server_that_comes_back_in_the_other_era_is_called_again() {
    let table = [
        ("modern", "become-legacy", Era::Legacy),
        ("modern,session-400", "become-legacy", Era::Legacy),
        ("legacy", "become-modern", Era::Modern),
    ];
    for (traits, become_other, expected) in table {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        assert_eq!(text(call(&upstream, become_other).await), "become");
        echoes(&upstream).await;
        let UpstreamStatus::Ready { era, .. } = upstream.status() else { panic!("not ready") };
        assert_eq!(era, expected, "{traits}: a call that changes nothing is made again at once");

        let server = serve(traits).await;
        let upstream = client(&server.url);
        assert_eq!(text(call(&upstream, become_other).await), "become");
        let called = change(&upstream, "echo").await;
        assert!(called.sent);
        assert!(called.outcome.is_err(), "{traits}: any other call fails with what it got");
        assert!(change(&upstream, "echo").await.outcome.is_ok(), "{traits}: and the next one works");
    }
}

#[tokio::test]
async fn shutdown_ends_the_session() {
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    upstream.shutdown().await;
    assert!(!call(&upstream, "echo").await.sent);
    let methods = seen(&client(&server.url)).await;
    assert!(methods.contains(&"DELETE".to_owned()), "{methods:?}");
    assert!(methods.contains(&"notifications/initialized".to_owned()), "{methods:?}");
}

#[tokio::test]
async fn announcements_are_followed_in_both_eras() {
    for traits in ["modern,stream", "legacy,stream"] {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        let mut changes = upstream.changes();
        echoes(&upstream).await;
        tokio::time::timeout(ANSWER_WAIT_MAX, changes.changed()).await.unwrap().unwrap();
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn whatever_a_server_answers_the_next_call_works() {
    for traits in ["modern", "legacy,sse"] {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        for tool in ["huge-announced", "huge-json", "huge-event"] {
            let failure = failure(call(&upstream, tool).await);
            assert!(matches!(failure, PerformFailure::TooLarge { bytes_max: 1_048_576 }), "{tool}: {failure}");
            echoes(&upstream).await;
        }
        for tool in ["reset", "reset-in-stream", "stream-ends"] {
            let failure = failure(call(&upstream, tool).await);
            assert!(matches!(failure, PerformFailure::Died { .. }), "{tool}: {failure}");
            echoes(&upstream).await;
        }
        for tool in ["another-id", "accepted"] {
            let failure = failure(call(&upstream, tool).await);
            assert!(matches!(failure, PerformFailure::Malformed { .. }), "{tool}: {failure}");
        }
        for tool in ["hang", "slow-body"] {
            let failure = failure(call_with(&upstream, tool, "{}", options(IMPATIENCE)).await);
            assert!(matches!(failure, PerformFailure::TimedOut { .. }), "{tool}: {failure}");
            echoes(&upstream).await;
        }
        let rejected = failure(call(&upstream, "error").await);
        assert!(matches!(rejected, PerformFailure::Rejected { code: -32602, .. }), "{rejected}");
        let redirected = failure(call(&upstream, "redirect").await);
        assert!(matches!(redirected, PerformFailure::HttpStatus { status: 307, .. }), "{redirected}");
        let unavailable = failure(call(&upstream, "unavailable").await).to_string();
        assert!(unavailable.contains("503: try later, token [redacted]"), "{unavailable}");
        echoes(&upstream).await;
    }
}

#[tokio::test]
async fn progress_comes_before_the_answer_and_reading_stops_there() {
    let server = serve("modern,sse").await;
    let upstream = client(&server.url);
    let (sink, mut progress) = tokio::sync::mpsc::channel(8);
    let options = RequestOptions { server_messages: Some(sink), wants_progress: true, ..options(ANSWER_WAIT_MAX) };
    // The server keeps the stream open after the answer.
    assert!(call_with(&upstream, "progress", "{}", options).await.outcome.is_ok());
    let mut steps = 0;
    while progress.try_recv().is_ok() {
        steps += 1;
    }
    assert_eq!(steps, 3);
}

#[tokio::test]
async fn a_cancelled_mutation_is_told_and_read_to_its_end() {
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    let cancel = CancellationToken::new();
    let arguments = Bytes::from_static(b"{}");
    let terms = RequestOptions { cancel: cancel.clone(), ..options(ANSWER_WAIT_MAX) };
    let calling = upstream.call_tool("until-cancelled", &arguments, EffectClass::N, terms);
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    };
    let (called, ()) = tokio::join!(calling, cancelling);
    assert_eq!(text(called), "done although cancelled");

    let terms = options(ANSWER_WAIT_MAX);
    terms.cancel.cancel();
    let called = call_with(&upstream, "echo", "{}", terms).await;
    assert!(!called.sent);
    let late = call_with(&upstream, "echo", "{}", options(Duration::ZERO)).await;
    assert!(!late.sent);
}

#[tokio::test]
async fn nobody_there_means_nothing_was_sent() {
    // A port that was just free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let upstream = client(&format!("http://127.0.0.1:{port}/mcp"));
    let called = call(&upstream, "echo").await;
    assert!(!called.sent);
    let shown = failure(called).to_string();
    assert!(shown.contains("refused"), "{shown}");
    assert!(!shown.contains("tok_secret"), "{shown}");

    for url in ["ftp://localhost/", "not a url"] {
        let failure = failure(call(&client(url), "echo").await);
        assert!(failure.provably_not_executed(), "{failure}");
    }
}

#[tokio::test]
async fn a_server_that_went_away_provably_got_nothing() {
    let server = serve("modern").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    drop(server);
    // While it is going, a call may still be lost; once it is gone, every call provably never left.
    for _ in 0..100 {
        if let Err(failure) = call(&upstream, "echo").await.outcome
            && failure.provably_not_executed()
        {
            return;
        }
    }
    panic!("no call was told that nobody is there");
}

#[tokio::test]
async fn a_failed_tls_handshake_provably_sent_nothing() {
    let server = serve("modern").await;
    let upstream = client(&server.url.replace("http:", "https:"));
    let failure = failure(call(&upstream, "echo").await);
    assert!(matches!(failure, PerformFailure::Unavailable { .. }), "{failure}");
}
