//! Announcements and what is watched: over both transports, in both eras, and over reconnections.

use tokio::sync::broadcast::Receiver;

use super::*;
use crate::Announcement;

/// The next changed resource, whatever else is announced before.
async fn next_update(announcements: &mut Receiver<Announcement>) -> String {
    let waiting = async {
        loop {
            if let Announcement::ResourceUpdated { uri, params } = announcements.recv().await.expect("an announcement")
            {
                assert!(params.get().contains(&uri), "{params}");
                return uri;
            }
        }
    };
    tokio::time::timeout(ANSWER_WAIT_MAX, waiting).await.expect("an update in time")
}

async fn touch(upstream: &Upstream, uri: &str) {
    let called = call_json(upstream, "touch", &json!({ "uri": uri }), options(ANSWER_WAIT_MAX)).await;
    assert_eq!(text(called), "touched");
}

async fn watch(upstream: &Upstream, uri: &str) -> Result<(), PerformFailure> {
    upstream.watch(uri, Instant::now() + ANSWER_WAIT_MAX).await
}

async fn listens(upstream: &Upstream) -> serde_json::Map<String, Value> {
    json_text(call(upstream, "listens").await).as_object().unwrap().clone()
}

#[tokio::test]
async fn what_is_watched_is_announced_until_it_is_not() {
    let (legacy, modern) = (serve("legacy,stream,quiet").await, serve("modern").await);
    for upstream in [stdio("legacy"), stdio("modern"), client(&legacy.url), client(&modern.url)] {
        let mut announcements = upstream.announcements();
        for uri in ["a://1", "a://2"] {
            watch(&upstream, uri).await.unwrap();
        }
        touch(&upstream, "a://1").await;
        assert_eq!(next_update(&mut announcements).await, "a://1");
        upstream.unwatch("a://1");
        // The server learns it in its own time; from then on only the other one is announced.
        until("the first is not watched any more", async || {
            touch(&upstream, "a://1").await;
            touch(&upstream, "a://2").await;
            next_update(&mut announcements).await == "a://2"
        })
        .await;
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_refusal_is_told_and_leaves_the_rest_as_it_was() {
    let (legacy, modern) = (serve("legacy,stream,quiet").await, serve("modern").await);
    let table = [
        (stdio("legacy"), "refused://x", -32002),
        (stdio("modern"), "refused://x", -32601),
        (stdio("modern"), "refused://all", -32602),
        (client(&legacy.url), "refused://x", -32002),
        (client(&modern.url), "refused://x", -32601),
        (client(&modern.url), "refused://all", -32602),
    ];
    for (upstream, refused, expected) in table {
        let mut announcements = upstream.announcements();
        watch(&upstream, "a://1").await.unwrap();
        let failure = watch(&upstream, refused).await.unwrap_err();
        assert!(matches!(failure, PerformFailure::Rejected { code, .. } if code == expected), "{refused}: {failure}");
        touch(&upstream, "a://1").await;
        assert_eq!(next_update(&mut announcements).await, "a://1");
        watch(&upstream, "a://2").await.expect("the refused one is not asked for again");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_lost_connection_is_made_again_for_what_is_watched() {
    for mode in ["legacy", "modern"] {
        let upstream = stdio(mode);
        let mut announcements = upstream.announcements();
        let mut changes = upstream.changes();
        watch(&upstream, "a://1").await.unwrap();
        changes.mark_unchanged();
        assert!(matches!(failure(call(&upstream, "die").await), PerformFailure::Died { .. }));
        // Nobody asks for anything: it comes back by itself, and what may have been missed counts as said.
        assert_eq!(next_update(&mut announcements).await, "a://1");
        assert!(changes.has_changed().unwrap());
        touch(&upstream, "a://1").await;
        until("it is watched again", async || next_update(&mut announcements).await == "a://1").await;
        upstream.unwatch("a://1");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_forgotten_session_is_begun_again_for_what_is_watched() {
    let server = serve("legacy,stream,quiet").await;
    let upstream = client(&server.url);
    let mut announcements = upstream.announcements();
    watch(&upstream, "a://1").await.unwrap();
    assert_eq!(text(call(&upstream, "forget-sessions").await), "forgotten");
    assert_eq!(text(call(&upstream, "end-streams").await), "ended");
    assert_eq!(next_update(&mut announcements).await, "a://1");
    touch(&upstream, "a://1").await;
    assert_eq!(next_update(&mut announcements).await, "a://1");

    // Whoever meets the loss with a new wish does not notice it.
    assert_eq!(text(call(&upstream, "forget-sessions").await), "forgotten");
    watch(&upstream, "a://2").await.unwrap();
}

#[tokio::test]
async fn a_new_subscription_is_there_before_the_old_one_ends() {
    let upstream = stdio("modern");
    for uri in ["a://1", "a://2"] {
        watch(&upstream, uri).await.unwrap();
    }
    until("the old one has ended", async || listens(&upstream).await.len() == 1).await;
    let (_, filter) = listens(&upstream).await.into_iter().next().unwrap();
    assert_eq!(filter["resourceSubscriptions"], json!(["a://1", "a://2"]));
    let received = json_text(call(&upstream, "received").await);
    let order: Vec<&str> = received
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["method"].as_str())
        .filter(|method| method.contains("subscriptions") || method.contains("cancelled"))
        .collect();
    assert_eq!(order, ["subscriptions/listen", "subscriptions/listen", "notifications/cancelled"]);
    upstream.unwatch("a://1");
    upstream.unwatch("a://2");
    until("nothing is listened to", async || listens(&upstream).await.is_empty()).await;

    let server = serve("modern").await;
    let upstream = client(&server.url);
    for uri in ["a://1", "a://2"] {
        watch(&upstream, uri).await.unwrap();
    }
    until("the old one has ended", async || listens(&upstream).await.len() == 1).await;
    let events: Vec<String> = seen(&upstream).await.into_iter().filter(|event| event.contains("listening")).collect();
    let ids: Vec<&str> = events.iter().filter_map(|event| event.rsplit(' ').next()).collect();
    assert_eq!(events.len(), 3);
    assert!(events[2].starts_with("not") && ids[0] == ids[2] && ids[0] != ids[1], "{events:?}");
}

#[tokio::test]
async fn a_subscription_that_the_server_ends_is_made_again() {
    let server = serve("modern").await;
    let table = [
        (stdio("modern"), "end-listens", "answering"),
        (stdio("modern"), "end-listens", "cancelling"),
        (client(&server.url), "end-streams", "closing"),
    ];
    for (upstream, tool, by) in table {
        watch(&upstream, "a://1").await.unwrap();
        let mut announcements = upstream.announcements();
        assert_eq!(text(call_json(&upstream, tool, &json!({ "by": by }), options(ANSWER_WAIT_MAX)).await), "ended");
        assert_eq!(next_update(&mut announcements).await, "a://1", "{by}: it may have been missed");
        touch(&upstream, "a://1").await;
        assert_eq!(next_update(&mut announcements).await, "a://1", "{by}");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn everything_a_server_announces_is_passed_on() {
    let server = serve("legacy,stream,quiet").await;
    let messages = json!({"messages": [
        {"method": "notifications/tools/list_changed"},
        {"method": "notifications/prompts/list_changed"},
        {"method": "notifications/resources/list_changed"},
        {"method": "notifications/resources/updated", "params": {"uri": "a://1"}},
        {"method": "notifications/tasks/status", "params": {"taskId": "t-1", "status": "working"}},
    ]});
    let client_with_tasks = requester("a", r#"{"roots":{}}"#);
    for (upstream, tool) in [(stdio("legacy"), "say"), (client(&server.url), "say-on-stream")] {
        for requester in [UpstreamRequester::gateway(), client_with_tasks.clone()] {
            let mut announcements = upstream.announcements();
            let said = call_json(&upstream, tool, &messages, options_for(&requester)).await;
            assert_eq!(text(said), "said");
            let mut heard = Vec::new();
            for _ in 0..5 {
                let announcement = tokio::time::timeout(ANSWER_WAIT_MAX, announcements.recv()).await.unwrap().unwrap();
                heard.push(match announcement {
                    Announcement::ToolsChanged => "tools".to_owned(),
                    Announcement::PromptsChanged => "prompts".to_owned(),
                    Announcement::ResourcesChanged => "resources".to_owned(),
                    Announcement::ResourceUpdated { uri, .. } => uri,
                    Announcement::TaskChanged { task_id, .. } => task_id,
                });
            }
            assert_eq!(heard, ["tools", "prompts", "resources", "a://1", "t-1"]);
        }
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn tasks_are_watched_where_the_server_knows_them() {
    let upstream = stdio("tasks");
    let soon = || Instant::now() + ANSWER_WAIT_MAX;
    upstream.watch_task("t-1", soon()).await.unwrap();
    let (_, filter) = listens(&upstream).await.into_iter().next().unwrap();
    assert_eq!(filter["taskIds"], json!(["t-1"]));
    upstream.unwatch_task("t-1");
    until("nothing is listened to", async || listens(&upstream).await.is_empty()).await;

    let failure = stdio("modern").watch_task("t-1", soon()).await.unwrap_err();
    assert!(matches!(failure, PerformFailure::Rejected { code: -32601, .. }), "{failure}");
    stdio("legacy").watch_task("t-1", soon()).await.unwrap();
}

#[tokio::test]
async fn watches_are_bounded_and_end_with_the_upstream() {
    let upstream = Upstream::new(stdio_spec(&["legacy"], UpstreamLimits { watches_max: 2, ..limits() }), notebook());
    watch(&upstream, "a://1").await.unwrap();
    watch(&upstream, "a://2").await.unwrap();
    let full = watch(&upstream, "a://3").await.unwrap_err();
    assert!(matches!(full, PerformFailure::Busy { in_flight_max: 2 }), "{full}");
    upstream.shutdown().await;
    assert_eq!(upstream.census(), (0, 0));
    assert!(watch(&upstream, "a://1").await.is_err());
}

/// A legacy server tells only the connection that asked; a process of one client does not even know of another's.
#[tokio::test]
async fn a_client_with_its_own_connection_hears_what_changes_there() {
    let ada = requester("ada", r#"{"roots":{}}"#);
    let upstream = stdio("legacy");
    let mut announcements = upstream.announcements();
    let alone = upstream.watch_on_own_connection(&ada, "a://1", Instant::now() + ANSWER_WAIT_MAX).await.unwrap();
    let alone = alone.expect("she has a connection of her own");
    let touch = async || {
        let touched = call_json(&upstream, "touch", &json!({ "uri": "a://1" }), options_for(&ada)).await;
        assert_eq!(text(touched), "touched");
    };
    touch().await;
    assert_eq!(next_update(&mut announcements).await, "a://1");
    // It comes back by itself, and what may have been missed counts as said.
    let died = call_json(&upstream, "die", &json!({}), options_for(&ada)).await;
    assert!(matches!(failure(died), PerformFailure::Died { .. }));
    assert_eq!(next_update(&mut announcements).await, "a://1");
    touch().await;
    assert_eq!(next_update(&mut announcements).await, "a://1");
    drop(alone);
    until("the server knows that nobody watches", async || {
        while announcements.try_recv().is_ok() {}
        touch().await;
        announcements.try_recv().is_err()
    })
    .await;
    upstream.shutdown().await;
    let modern = stdio("modern");
    assert!(modern.watch_on_own_connection(&ada, "a://1", Instant::now() + ANSWER_WAIT_MAX).await.unwrap().is_none());
    let nobody = UpstreamRequester::gateway();
    let legacy = stdio("legacy");
    assert!(
        legacy.watch_on_own_connection(&nobody, "a://1", Instant::now() + ANSWER_WAIT_MAX).await.unwrap().is_none()
    );
}
