//! Servers of both eras: a client's own era is used, and servers of only one are not asked for the other more than once.

use servanda_mcp::Era;

use super::*;

const SAMPLING: &str = r#"{"sampling":{}}"#;

fn legacy(affinity: &str, capabilities: &str) -> UpstreamRequester {
    UpstreamRequester { era: Era::Legacy, ..requester(affinity, capabilities) }
}

/// The era in which a requester's call was answered.
async fn era_for(upstream: &Upstream, requester: &UpstreamRequester) -> Era {
    call_with(upstream, "echo", "{}", options_for(requester)).await.outcome.expect("an answer").era
}

async fn pid_for(upstream: &Upstream, requester: &UpstreamRequester) -> String {
    text(call_with(upstream, "pid", "{}", options_for(requester)).await)
}

#[tokio::test]
async fn a_client_keeps_its_era_at_a_server_of_both() {
    let server = serve("legacy,modern").await;
    // Over standard streams a second process is started only for a client that can be asked something.
    for (upstream, unable) in [(stdio("dual"), Era::Modern), (client(&server.url), Era::Legacy)] {
        let table = [
            (UpstreamRequester::gateway(), Era::Modern, 0),
            (requester("m", SAMPLING), Era::Modern, 0),
            (requester("m", "{}"), Era::Modern, 0),
            (legacy("l", "{}"), unable, usize::from(unable == Era::Legacy)),
            (legacy("k", "{}"), unable, usize::from(unable == Era::Legacy)),
            (legacy("l", SAMPLING), Era::Legacy, 1 + usize::from(unable == Era::Legacy)),
            (legacy("k", SAMPLING), Era::Legacy, 2 + usize::from(unable == Era::Legacy)),
        ];
        for (requester, era, connections) in table {
            assert_eq!(era_for(&upstream, &requester).await, era, "{requester:?}");
            assert_eq!(upstream.census().0, connections, "{requester:?}");
        }
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_legacy_client_is_asked_on_the_way_by_a_server_of_both() {
    let server = serve("legacy,modern").await;
    for upstream in [stdio("dual"), client(&server.url)] {
        let (options, mut server_messages) = heard_options(&legacy("l", SAMPLING));
        let question = json!({"id": 7, "method": "sampling/createMessage", "params": {"messages": []}});
        let answering = async {
            let ask = next_ask(&mut server_messages).await;
            assert_eq!(ask.method, "sampling/createMessage");
            ask.reply.send(Ok(raw(r#"{"role":"assistant"}"#))).unwrap();
        };
        let (called, ()) = tokio::join!(call_json(&upstream, "ask", &question, options), answering);
        assert_eq!(json_text(called)["result"], json!({"role": "assistant"}));
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn what_a_server_of_both_says_of_itself_depends_on_the_era() {
    let server = serve("legacy,modern").await;
    for upstream in [stdio("dual"), client(&server.url)] {
        let deadline = Instant::now() + ANSWER_WAIT_MAX;
        let era_told = async |requester: &UpstreamRequester| upstream.offer_to(requester, deadline).await.unwrap().era;
        assert_eq!(upstream.offer(deadline).await.unwrap().era, Era::Modern);
        assert_eq!(era_told(&UpstreamRequester::gateway()).await, Era::Modern);
        assert_eq!(era_told(&requester("m", SAMPLING)).await, Era::Modern);
        assert_eq!(era_told(&legacy("l", SAMPLING)).await, Era::Legacy);
        assert_eq!(upstream.known_era(), Some(Era::Modern), "the shared connection stays what it is");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_of_only_the_modern_era_is_asked_for_the_other_once() {
    let server = serve("modern").await;
    let upstream = client(&server.url);
    for affinity in ["a", "b", "a"] {
        assert_eq!(era_for(&upstream, &legacy(affinity, SAMPLING)).await, Era::Modern);
        assert_eq!(era_for(&upstream, &legacy(affinity, "{}")).await, Era::Modern);
    }
    let tried = seen(&upstream).await.iter().filter(|method| *method == "initialize").count();
    assert_eq!(tried, 1);
    assert!(!upstream.may_have_legacy_era());

    for mode in ["modern", "exits-on-initialize"] {
        let upstream = stdio(mode);
        let base = pid_for(&upstream, &UpstreamRequester::gateway()).await;
        for affinity in ["a", "b"] {
            assert_eq!(pid_for(&upstream, &legacy(affinity, SAMPLING)).await, base, "{mode}");
        }
        assert!(!upstream.may_have_legacy_era(), "{mode}");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn servers_of_one_era_are_not_asked_for_the_other_without_need() {
    let server = serve("modern").await;
    let upstream = client(&server.url);
    era_for(&upstream, &requester("m", SAMPLING)).await;
    upstream.tools(&UpstreamRequester::gateway()).await.unwrap();
    assert!(!seen(&upstream).await.contains(&"initialize".to_owned()));
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    for requester in [legacy("l", SAMPLING), legacy("l", "{}"), requester("m", SAMPLING)] {
        assert_eq!(era_for(&upstream, &requester).await, Era::Legacy);
    }
    let discoveries = seen(&upstream).await.iter().filter(|method| *method == "server/discover").count();
    assert_eq!(discoveries, 1);
}

#[tokio::test]
async fn the_eras_are_learnt_again_when_the_server_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let (taken, tried) = (folder.path().join("legacy"), folder.path().join("legacy.tried"));
    let upstream = Upstream::new(stdio_spec(&["dual-later", taken.to_str().unwrap()], limits()), notebook());
    let client = legacy("l", SAMPLING);
    for _ in 0..2 {
        assert_eq!(era_for(&upstream, &client).await, Era::Modern);
    }
    assert_eq!(std::fs::read_to_string(&tried).unwrap(), "x", "it was tried once");
    std::fs::write(&taken, "").unwrap();
    assert_eq!(era_for(&upstream, &client).await, Era::Modern, "nothing says that it is another server now");
    assert!(matches!(failure(call(&upstream, "die").await), PerformFailure::Died { .. }));
    echoes(&upstream).await;
    assert_eq!(era_for(&upstream, &client).await, Era::Legacy);
}

#[tokio::test]
async fn a_server_that_gives_up_its_legacy_era_is_asked_in_the_modern_one() {
    let server = serve("legacy,modern").await;
    let upstream = client(&server.url);
    let able = legacy("l", SAMPLING);
    assert_eq!(era_for(&upstream, &able).await, Era::Legacy);
    assert_eq!(text(call(&upstream, "drop-legacy").await), "dropped");
    assert_eq!(era_for(&upstream, &able).await, Era::Modern);
    assert_eq!(era_for(&upstream, &legacy("l", "{}")).await, Era::Modern);
}
