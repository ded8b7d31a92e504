//! How the gateway finds out the era of a server, and what it remembers about it.

use servanda_mcp::Era;

use super::*;
use crate::{UpstreamStatus, eras::notes::EraNotes};

fn era_of(upstream: &Upstream) -> Era {
    match upstream.status() {
        UpstreamStatus::Ready { era, .. } => era,
        other => panic!("not ready: {other:?}"),
    }
}

async fn noted(spec: &UpstreamSpec, notebook: &Arc<dyn Notebook>) -> Option<Era> {
    EraNotes::new(&spec.transport, Arc::clone(notebook)).read().await
}

async fn note(spec: &UpstreamSpec, notebook: &Arc<dyn Notebook>, era: Era) {
    EraNotes::new(&spec.transport, Arc::clone(notebook)).write(era).await;
}

async fn methods_received(upstream: &Upstream) -> Vec<String> {
    let received = json_text(call(upstream, "received").await);
    received
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["method"].as_str().map(ToOwned::to_owned))
        .collect()
}

#[tokio::test]
async fn the_era_is_noted_and_tried_first() {
    for (mode, era, first) in [("modern", Era::Modern, "server/discover"), ("legacy", Era::Legacy, "initialize")] {
        let (notebook, spec) = (notebook(), stdio_spec(&[mode], limits()));
        let before = Upstream::new(spec.clone(), Arc::clone(&notebook));
        echoes(&before).await;
        assert_eq!(methods_received(&before).await[0], "server/discover", "nothing is known the first time");
        before.shutdown().await;
        assert_eq!(noted(&spec, &notebook).await, Some(era));

        let after = Upstream::new(spec, notebook);
        echoes(&after).await;
        assert_eq!((era_of(&after), methods_received(&after).await[0].as_str()), (era, first), "{mode}");
        after.shutdown().await;
    }
}

#[tokio::test]
async fn a_note_that_is_wrong_is_corrected() {
    for (mode, wrong, right) in [("modern", Era::Legacy, Era::Modern), ("legacy", Era::Modern, Era::Legacy)] {
        let (notebook, spec) = (notebook(), stdio_spec(&[mode], limits()));
        note(&spec, &notebook, wrong).await;
        let upstream = Upstream::new(spec.clone(), Arc::clone(&notebook));
        echoes(&upstream).await;
        assert_eq!(era_of(&upstream), right, "{mode}");
        upstream.shutdown().await;
        assert_eq!(noted(&spec, &notebook).await, Some(right));
    }
    let server = serve("modern").await;
    let transport = Transport::Http { url: server.url.clone(), headers: BTreeMap::new() };
    let spec = UpstreamSpec { id: UpstreamName::from("fixture"), transport, limits: limits() };
    let notebook = notebook();
    note(&spec, &notebook, Era::Legacy).await;
    let upstream = Upstream::new(spec.clone(), Arc::clone(&notebook));
    echoes(&upstream).await;
    upstream.shutdown().await;
    assert_eq!(noted(&spec, &notebook).await, Some(Era::Modern));
}

#[tokio::test]
async fn a_server_that_is_known_to_be_modern_has_all_the_time_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let hurried = UpstreamLimits { probe_ms_max: 1, ..limits() };
    let spec = stdio_spec(&["hesitant", go.to_str().unwrap()], hurried);

    // Without a note it is taken for a legacy server, because it runs and does not answer the probe.
    let upstream = Upstream::new(spec.clone(), notebook());
    echoes(&upstream).await;
    assert_eq!(era_of(&upstream), Era::Legacy);
    upstream.shutdown().await;
    std::fs::remove_file(folder.path().join("go.asked")).unwrap();

    let notebook = notebook();
    note(&spec, &notebook, Era::Modern).await;
    let upstream = Upstream::new(spec, notebook);
    let going = async {
        until("it is asked", async || folder.path().join("go.asked").exists()).await;
        tokio::time::sleep(IMPATIENCE).await;
        std::fs::write(&go, "").unwrap();
    };
    tokio::join!(echoes(&upstream), going);
    assert_eq!(era_of(&upstream), Era::Modern);
}

#[tokio::test]
async fn a_slow_start_is_not_taken_for_an_old_server() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let hurried = UpstreamLimits { probe_ms_max: 1, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["slow", started.to_str().unwrap()], hurried), notebook());
    let starting = async {
        // At any time: the server has not written a line before.
        tokio::time::sleep(IMPATIENCE).await;
        std::fs::write(&started, "").unwrap();
    };
    tokio::join!(echoes(&upstream), starting);
    assert_eq!(era_of(&upstream), Era::Modern);
}

#[tokio::test]
async fn what_was_said_too_late_is_known_the_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("marker");
    let hurried = UpstreamLimits { probe_ms_max: 1, ..limits() };
    let (notebook, spec) = (notebook(), stdio_spec(&["late-once", marker.to_str().unwrap()], hurried));
    let upstream = Upstream::new(spec.clone(), Arc::clone(&notebook));
    echoes(&upstream).await;
    assert_eq!(era_of(&upstream), Era::Legacy, "the connection does not change");
    until("it is noted", async || noted(&spec, &notebook).await == Some(Era::Modern)).await;
    assert!(matches!(failure(call(&upstream, "die").await), PerformFailure::Died { .. }));
    echoes(&upstream).await;
    assert_eq!(era_of(&upstream), Era::Modern);
}

#[tokio::test]
async fn a_modern_server_that_was_late_is_not_lost_to_a_refused_handshake() {
    let hurried = UpstreamLimits { probe_ms_max: 1, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["late-modern"], hurried), notebook());
    echoes(&upstream).await;
    assert_eq!(era_of(&upstream), Era::Modern);
}

#[tokio::test]
async fn an_error_that_only_modern_servers_know_is_an_answer() {
    let upstream = stdio("modern-codes");
    echoes(&upstream).await;
    assert_eq!(era_of(&upstream), Era::Modern);
}
