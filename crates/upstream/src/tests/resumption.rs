//! Streams that end before the answer: resumed where that can be, and the request is never sent again.

use super::*;
use crate::Announcement;

async fn last_event_ids(upstream: &Upstream) -> Vec<Option<String>> {
    serde_json::from_value(json_text(call(upstream, "last-event-ids").await)).unwrap()
}

async fn calls_seen(upstream: &Upstream) -> usize {
    seen(upstream).await.iter().filter(|method| *method == "tools/call").count()
}

#[tokio::test]
async fn an_answer_is_fetched_where_the_stream_ended() {
    let table = [
        ("poll", json!({})),
        ("break", json!({})),
        ("poll", json!({"steps": ["empty", "unavailable", "empty"]})),
        ("break", json!({"steps": ["unavailable"]})),
    ];
    for (tool, arguments) in table {
        let server = serve("legacy").await;
        let upstream = client(&server.url);
        let arguments_bytes = Bytes::from(arguments.to_string());
        let called = upstream.call_tool(tool, &arguments_bytes, EffectClass::N, options(ANSWER_WAIT_MAX)).await;
        assert_eq!(text(called), "resumed", "{tool} {arguments}");
        assert_eq!(calls_seen(&upstream).await, 2, "it was sent once, and the other one asked for this");
        let places = last_event_ids(&upstream).await;
        let resumed = places.iter().flatten().filter(|place| place.starts_with("place-")).count();
        let steps = arguments["steps"].as_array().map_or(0, Vec::len);
        assert_eq!(resumed, steps + 1, "{places:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_resumed_is_lost() {
    let table = [
        ("legacy", "stream-ends", json!({}), "the stream ended before the answer"),
        ("legacy", "poll", json!({"steps": ["refused"]}), "to resume it failed: it was answered with HTTP status 400"),
        ("legacy", "poll", json!({"forget": true}), "the session is gone"),
        // The modern protocol knows no such thing.
        ("modern", "poll", json!({}), "the stream ended before the answer"),
    ];
    for (traits, tool, arguments, expected) in table {
        let server = serve(traits).await;
        let upstream = client(&server.url);
        let lost = failure(call_json(&upstream, tool, &arguments, options(ANSWER_WAIT_MAX)).await);
        assert!(matches!(&lost, PerformFailure::Died { why } if why.contains(expected)), "{traits} {tool}: {lost}");
        assert_eq!(calls_seen(&upstream).await, 2);
        echoes(&upstream).await;
    }
}

#[tokio::test]
async fn resuming_ends_with_the_deadline_and_with_a_cancellation() {
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    let never = Bytes::from(json!({"steps": ["never"]}).to_string());
    let hurried = upstream.call_tool("poll", &never, EffectClass::N, options(IMPATIENCE)).await;
    assert!(matches!(failure(hurried), PerformFailure::TimedOut { .. }));

    let options = options(ANSWER_WAIT_MAX);
    let cancel = options.cancel.clone();
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    };
    let (called, ()) = tokio::join!(upstream.call_tool("poll", &never, EffectClass::R, options), cancelling);
    assert!(matches!(failure(called), PerformFailure::Cancelled { sent: true }));
}

#[tokio::test]
async fn the_standing_stream_is_resumed_and_nothing_counts_as_missed() {
    let server = serve("legacy,stream,quiet,ids").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    let mut announcements = upstream.announcements();
    let mut say = async || {
        let messages = json!({"messages": [{"method": "notifications/prompts/list_changed"}]});
        assert_eq!(text(call_json(&upstream, "say-on-stream", &messages, options(ANSWER_WAIT_MAX)).await), "said");
        let announcement = tokio::time::timeout(ANSWER_WAIT_MAX, announcements.recv()).await.unwrap().unwrap();
        assert!(matches!(announcement, Announcement::PromptsChanged), "{announcement:?}");
    };
    say().await;
    assert_eq!(text(call(&upstream, "end-streams").await), "ended");
    until("the stream is resumed", async || last_event_ids(&upstream).await.len() == 2).await;
    assert_eq!(last_event_ids(&upstream).await, [None, Some("session-1/1".to_owned())]);
    say().await;
}

#[tokio::test]
async fn a_standing_stream_without_ids_may_have_cost_something() {
    let server = serve("legacy,stream,quiet").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    let mut changes = upstream.changes();
    until("the stream is open", async || !last_event_ids(&upstream).await.is_empty()).await;
    assert!(!changes.has_changed().unwrap());
    assert_eq!(text(call(&upstream, "end-streams").await), "ended");
    tokio::time::timeout(ANSWER_WAIT_MAX, changes.changed()).await.unwrap().unwrap();
}
