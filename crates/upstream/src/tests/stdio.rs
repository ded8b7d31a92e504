//! Calls on a child that misbehaves: each ends as it should, and the next call works.

use servanda_contract::tool::EffectClass;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ServerMessage;

#[tokio::test]
async fn answers_are_passed_on_exactly_as_written() {
    let upstream = stdio("legacy");
    let called = call(&upstream, "exact").await;
    let result = called.outcome.unwrap().result;
    let expected = concat!(r#"{"n" : 12345678901234567890123, "f":1.0,"#, "\t", r#""e":"\u00e9"}"#);
    assert_eq!(std::str::from_utf8(&result).unwrap(), expected);
}

#[tokio::test]
async fn whatever_a_server_writes_the_next_call_works() {
    let upstream = stdio("babbles");
    assert_eq!(text(call(&upstream, "garbage").await), "after the garbage");
    echoes(&upstream).await;
    assert_eq!(text(call(&upstream, "twice").await), "first");
    echoes(&upstream).await;
    assert_eq!(text(call(&upstream, "another-id").await), "yours");
    echoes(&upstream).await;
    let no_result = failure(call(&upstream, "no-result").await);
    assert!(matches!(no_result, PerformFailure::Malformed { .. }), "{no_result}");
    let broken_error = failure(call(&upstream, "broken-error").await);
    assert!(matches!(broken_error, PerformFailure::Malformed { .. }), "{broken_error}");
    echoes(&upstream).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn an_error_is_an_answer() {
    let upstream = stdio("legacy");
    let PerformFailure::Rejected { code, message, data, .. } = failure(call(&upstream, "error").await) else {
        panic!("not rejected")
    };
    assert_eq!((code, message.as_str(), data.unwrap().get()), (-32099, "no\nsuch row", r#"{"row": 7}"#));
}

#[tokio::test]
async fn a_flood_fails_exactly_the_call_it_answers() {
    let upstream = stdio("legacy");
    for tool in ["flood-id-first", "flood-id-last"] {
        let (flooded, other) = tokio::join!(call(&upstream, tool), call(&upstream, "echo"));
        let flooded = failure(flooded);
        assert!(matches!(flooded, PerformFailure::TooLarge { bytes_max: 1_048_576 }), "{tool}: {flooded}");
        assert_eq!(text(other), "{}");
        echoes(&upstream).await;
    }
}

#[tokio::test]
async fn a_flood_without_an_id_is_told_at_the_deadline() {
    let upstream = stdio("legacy");
    echoes(&upstream).await;
    let flooded = call_with(&upstream, "flood-no-id", "{}", options(IMPATIENCE)).await;
    assert!(matches!(failure(flooded), PerformFailure::TimedOut { .. }));
    // The answer stands behind the flood, so the flood has been read by now.
    echoes(&upstream).await;
    let hanging = failure(call_with(&upstream, "hang", "{}", options(IMPATIENCE)).await);
    assert!(hanging.to_string().contains("longer than allowed"), "{hanging}");
    echoes(&upstream).await;
}

#[tokio::test]
async fn a_death_fails_the_calls_under_way_and_the_next_call_restarts() {
    let upstream = stdio("legacy");
    let before = text(call(&upstream, "pid").await);
    let (hanging, dying) = tokio::join!(call(&upstream, "hang"), call(&upstream, "die"));
    for called in [hanging, dying] {
        let failure = failure(called);
        assert!(matches!(failure, PerformFailure::Died { .. }), "{failure}");
        let shown = failure.to_string();
        assert!(shown.contains("exit status: 3") && shown.contains("fatal: the disk is [redacted]"), "{shown}");
    }
    let after = text(call(&upstream, "pid").await);
    assert_ne!(before, after);
}

#[tokio::test]
async fn a_call_that_hangs_times_out_and_the_server_is_told() {
    let upstream = stdio("legacy");
    echoes(&upstream).await;
    let failure = failure(call_with(&upstream, "hang", "{}", options(IMPATIENCE)).await);
    assert!(matches!(failure, PerformFailure::TimedOut { note: None }), "{failure}");
    let cancelled: Vec<i64> = serde_json::from_str(&text(call(&upstream, "cancelled").await)).unwrap();
    assert_eq!(cancelled.len(), 1);
    // The answer that comes after the deadline finds nobody.
    let late = failure_of_late_answer(&upstream).await;
    assert!(matches!(late, PerformFailure::TimedOut { .. }), "{late}");
    echoes(&upstream).await;
}

async fn failure_of_late_answer(upstream: &Upstream) -> PerformFailure {
    failure(call_with(upstream, "until-cancelled", "{}", options(IMPATIENCE)).await)
}

#[tokio::test]
async fn cancelled_before_it_is_written_nothing_is_sent() {
    let upstream = stdio("legacy");
    for _ in 0..2 {
        // The first time there is no connection yet, the second time there is one.
        let options = options(ANSWER_WAIT_MAX);
        options.cancel.cancel();
        let called = call_with(&upstream, "die", "{}", options).await;
        assert!(!called.sent);
        assert!(matches!(failure(called), PerformFailure::Cancelled { sent: false }));
        echoes(&upstream).await;
    }
}

#[tokio::test]
async fn after_the_deadline_nothing_is_sent() {
    let upstream = stdio("legacy");
    echoes(&upstream).await;
    let called = call_with(&upstream, "die", "{}", options(Duration::ZERO)).await;
    assert!(!called.sent);
    assert!(failure(called).provably_not_executed());
    echoes(&upstream).await;
}

#[tokio::test]
async fn a_cancelled_read_is_given_up_and_a_cancelled_mutation_is_read_to_its_end() {
    let upstream = stdio("legacy");
    echoes(&upstream).await;
    for (effect, expected) in [(EffectClass::R, None), (EffectClass::N, Some("done although cancelled"))] {
        let (sink, mut progress) = tokio::sync::mpsc::channel(1);
        let cancel = CancellationToken::new();
        let options = RequestOptions {
            cancel: cancel.clone(),
            server_messages: Some(sink),
            wants_progress: true,
            ..options(ANSWER_WAIT_MAX)
        };
        let arguments = Bytes::from_static(b"{}");
        let calling = upstream.call_tool("until-cancelled", &arguments, effect, options);
        let cancelling = async {
            // The server answers only after it was told, so the order of the two does not matter.
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel.cancel();
        };
        let (called, ()) = tokio::join!(calling, cancelling);
        match expected {
            Some(expected) => assert_eq!(text(called), expected),
            None => assert!(matches!(failure(called), PerformFailure::Cancelled { sent: true })),
        }
        assert!(progress.try_recv().is_err());
        echoes(&upstream).await;
    }
}

#[tokio::test]
async fn the_servers_own_requests_are_answered() {
    let upstream = stdio("legacy");
    let answers: serde_json::Value = serde_json::from_str(&text(call(&upstream, "asks").await)).unwrap();
    assert_eq!(answers[0]["id"], "p1");
    assert_eq!(answers[0]["result"], serde_json::json!({}));
    assert_eq!(answers[1]["id"], 2);
    assert_eq!(answers[1]["error"]["code"], -32601);
}

#[tokio::test]
async fn progress_is_passed_on_with_our_token_and_a_full_channel_blocks_nothing() {
    let upstream = stdio("modern");
    for (capacity, expected) in [(8, 3), (1, 1)] {
        let (sink, mut progress) = tokio::sync::mpsc::channel(capacity);
        let options = RequestOptions { server_messages: Some(sink), wants_progress: true, ..options(ANSWER_WAIT_MAX) };
        assert_eq!(text(call_with(&upstream, "progress", "{}", options).await), "done");
        let mut steps = Vec::new();
        while let Ok(ServerMessage::Progress(params)) = progress.try_recv() {
            steps.push(serde_json::from_str::<serde_json::Value>(params.get()).unwrap());
        }
        assert_eq!(steps.len(), expected);
        assert!(steps.iter().all(|step| step.get("progressToken").is_none()), "{steps:?}");
    }
}

#[tokio::test]
async fn requests_say_what_their_era_asks_for() {
    for (mode, modern) in [("modern", true), ("legacy", false)] {
        let upstream = stdio(mode);
        let options = RequestOptions { trace_parent: Some("00-1-2-01".to_owned()), ..options(ANSWER_WAIT_MAX) };
        let called = text(call_with(&upstream, "params", "{}", options).await);
        let params: serde_json::Value = serde_json::from_str(&called).unwrap();
        assert_eq!(params["meta"]["traceparent"], "00-1-2-01");
        assert!(params["meta"].get("progressToken").is_none(), "nobody asked for progress");
        let version = params["meta"].get("io.modelcontextprotocol/protocolVersion");
        assert_eq!(version.is_some(), modern, "{params}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_read_blocks_nobody() {
    let upstream = stdio("legacy");
    assert_eq!(text(call(&upstream, "deaf").await), "not listening any more");
    // More than a pipe holds: one of them is stuck half written, the others never leave.
    let arguments = Bytes::from(format!(r#"{{"x":"{}"}}"#, "x".repeat(200_000)));
    let calls = (0..4).map(|_| upstream.call_tool("echo", &arguments, EffectClass::N, options(IMPATIENCE)));
    let failures: Vec<PerformFailure> = futures_util::future::join_all(calls).await.into_iter().map(failure).collect();
    let not_executed = failures.iter().filter(|failure| failure.provably_not_executed()).count();
    let timed_out = failures.iter().filter(|failure| matches!(failure, PerformFailure::TimedOut { .. })).count();
    assert_eq!((not_executed, timed_out), (3, 1), "{failures:?}");
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_server_that_closes_its_input_is_replaced() {
    let upstream = stdio("legacy");
    let before = text(call(&upstream, "pid").await);
    assert_eq!(text(call(&upstream, "close-input").await), "closed");
    // Nothing of the request can be written, so the next connection takes it.
    let after = text(call(&upstream, "pid").await);
    assert_ne!(before, after);
}

#[tokio::test]
async fn too_many_calls_in_flight_are_refused_unsent() {
    let upstream = Upstream::new(stdio_spec(&["legacy"], UpstreamLimits { in_flight_max: 2, ..limits() }), notebook());
    echoes(&upstream).await;
    let cancel = CancellationToken::new();
    let hanging =
        || call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..options(ANSWER_WAIT_MAX) });
    let third = async {
        let called = call(&upstream, "echo").await;
        cancel.cancel();
        called
    };
    let (_, _, third) = tokio::join!(hanging(), hanging(), third);
    assert!(!third.sent);
    assert!(matches!(failure(third), PerformFailure::Busy { in_flight_max: 2 }));
    echoes(&upstream).await;
}

#[tokio::test]
async fn one_principal_cannot_take_all_places_of_a_shared_connection() {
    let server = serve("modern").await;
    let limits = UpstreamLimits { in_flight_max: 8, ..limits() };
    let http = Transport::Http { url: server.url.clone(), headers: BTreeMap::new() };
    let http = UpstreamSpec { id: UpstreamName::from("fixture"), transport: http, limits: limits.clone() };
    for spec in [stdio_spec(&["legacy"], limits), http] {
        let upstream = Upstream::new(spec, notebook());
        echoes(&upstream).await;
        let cancel = CancellationToken::new();
        let greedy = || client_of("greedy", "ada", "g", "{}");
        let hanging =
            || call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..options_for(&greedy()) });
        let others = async {
            let third = call_with(&upstream, "echo", "{}", options_for(&greedy())).await;
            let other = call_with(&upstream, "echo", "{}", options_for(&client_of("quiet", "ada", "q", "{}"))).await;
            cancel.cancel();
            (third, other)
        };
        let (_, _, (third, other)) = tokio::join!(hanging(), hanging(), others);
        assert!(!third.sent);
        assert!(matches!(failure(third), PerformFailure::Busy { in_flight_max: 2 }));
        assert_eq!(text(other), "{}");
        assert_eq!(text(call_with(&upstream, "echo", "{}", options_for(&greedy())).await), "{}", "given back");
    }
}

#[tokio::test]
async fn only_named_variables_reach_the_server() {
    let upstream = stdio("legacy");
    let environment: BTreeMap<String, String> =
        serde_json::from_str(&text(call(&upstream, "environment").await)).unwrap();
    assert_eq!(environment["SECRET"], "s3cret-value");
    assert!(environment.contains_key("PATH"));
    assert!(!environment.keys().any(|name| name.starts_with("CARGO")), "{:?}", environment.keys());
}

#[tokio::test]
async fn a_secret_argument_is_not_repeated() {
    let upstream = Upstream::new(stdio_spec(&["legacy", "--api-key=key_in_argument"], limits()), notebook());
    let rejected = failure(call(&upstream, "error-with-argument").await);
    let PerformFailure::Rejected { message, data: Some(data), .. } = rejected else { panic!("{rejected}") };
    assert_eq!((message.as_str(), data.get()), ("bad [redacted]", r#"{"tried": ["[redacted]"]}"#));
    let died = failure(call(&upstream, "die-with-argument").await).to_string();
    assert!(died.contains("fatal: bad credential [redacted]"), "{died}");
    assert!(!died.contains("key_in_argument"), "{died}");
}
