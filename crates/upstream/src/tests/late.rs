//! Answers that come after the deadline of a call that may have changed something.

use tokio::sync::oneshot;

use super::*;
use crate::LateAnswerSender;

/// Makes a change that is answered only after it was cancelled, which it is when its deadline passes.
async fn overdue(upstream: &Upstream, late: LateAnswerSender) -> PerformFailure {
    // Connected before, so that the deadline is the call's alone.
    echoes(upstream).await;
    let options = RequestOptions { late: Some(late), ..options(IMPATIENCE) };
    let called = upstream.call_tool("until-cancelled", &Bytes::from_static(b"{}"), EffectClass::N, options).await;
    assert!(called.sent);
    failure(called)
}

fn told(answer: Result<crate::Answer, PerformFailure>) -> String {
    let answer: Value = serde_json::from_slice(&answer.expect("an answer").result).unwrap();
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_late_answer_comes_after_its_caller_was_told() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), stdio("modern"), client(&server.url)] {
        let (sink, late) = oneshot::channel();
        assert!(matches!(overdue(&upstream, sink).await, PerformFailure::TimedOut { .. }));
        let answer = tokio::time::timeout(ANSWER_WAIT_MAX, late).await.expect("in time").expect("it is waited for");
        assert_eq!(told(answer), "done although cancelled");
        echoes(&upstream).await;
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_connection_that_ends_ends_the_waiting_too() {
    let upstream = stdio("legacy");
    echoes(&upstream).await;
    let (sink, late) = oneshot::channel();
    let hanging = RequestOptions { late: Some(sink), ..options(IMPATIENCE) };
    let called = upstream.call_tool("hang", &Bytes::from_static(b"{}"), EffectClass::N, hanging).await;
    assert!(matches!(failure(called), PerformFailure::TimedOut { .. }));
    upstream.shutdown().await;
    assert!(matches!(late.await, Err(_) | Ok(Err(PerformFailure::Died { .. }))));
    assert_eq!(upstream.census().1, 0, "no task is left");
}

#[tokio::test]
async fn no_more_are_waited_for_than_may_be() {
    let limits = UpstreamLimits { late_answers_max: 0, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["legacy"], limits), notebook());
    let (sink, late) = oneshot::channel();
    assert!(matches!(overdue(&upstream, sink).await, PerformFailure::TimedOut { .. }));
    assert!(late.await.is_err(), "nothing more is said about it");
    echoes(&upstream).await;
}

#[tokio::test]
async fn a_late_answer_is_not_waited_for_for_ever() {
    let limits = UpstreamLimits { late_answer_ms_max: 1, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["legacy"], limits), notebook());
    echoes(&upstream).await;
    let (sink, late) = oneshot::channel();
    let hanging = RequestOptions { late: Some(sink), ..options(IMPATIENCE) };
    let called = upstream.call_tool("hang", &Bytes::from_static(b"{}"), EffectClass::N, hanging).await;
    assert!(matches!(failure(called), PerformFailure::TimedOut { .. }));
    let answer = tokio::time::timeout(ANSWER_WAIT_MAX, late).await.expect("in time");
    assert!(matches!(answer, Ok(Err(PerformFailure::TimedOut { .. }))), "{answer:?}");
}
