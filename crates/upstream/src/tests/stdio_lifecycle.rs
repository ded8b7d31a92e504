//! How a child is met, started again and ended.

use servanda_mcp::Era;

use super::*;
use crate::UpstreamStatus;

fn version_of(upstream: &Upstream) -> (Era, &'static str) {
    match upstream.status() {
        UpstreamStatus::Ready { era, version, .. } => (era, version.as_str()),
        other => panic!("not ready: {other:?}"),
    }
}

#[tokio::test]
async fn both_eras_are_recognised_whatever_the_server_answers() {
    let table = [
        ("modern", Era::Modern, "2026-07-28"),
        ("dual", Era::Modern, "2026-07-28"),
        ("legacy", Era::Legacy, "2025-11-25"),
        ("odd-error", Era::Legacy, "2025-11-25"),
        ("old", Era::Legacy, "2024-11-05"),
        ("exits-on-unknown", Era::Legacy, "2025-11-25"),
        ("babbles", Era::Legacy, "2025-11-25"),
    ];
    for (mode, era, version) in table {
        let upstream = stdio(mode);
        assert_eq!(upstream.status(), UpstreamStatus::NotConnected);
        echoes(&upstream).await;
        assert_eq!(version_of(&upstream), (era, version), "{mode}");
        upstream.shutdown().await;
        assert_eq!(upstream.status(), UpstreamStatus::NotConnected);
    }
}

#[tokio::test]
async fn a_late_answer_to_the_probe_is_ignored() {
    let upstream = Upstream::new(stdio_spec(&["late"], UpstreamLimits { probe_ms_max: 500, ..limits() }), notebook());
    echoes(&upstream).await;
    echoes(&upstream).await;
    assert_eq!(version_of(&upstream), (Era::Legacy, "2025-11-25"));
}

#[tokio::test]
async fn a_handshake_that_fails_says_why_and_nothing_is_sent() {
    let table = [
        ("refuses", "the handshake failed"),
        ("foreign", "1999-01-01"),
        ("dies-at-start", "ModuleNotFoundError: No module named 'nothing'"),
    ];
    for (mode, expected) in table {
        let upstream = stdio(mode);
        let called = call(&upstream, "echo").await;
        assert!(!called.sent);
        let failure = failure(called);
        assert!(matches!(failure, PerformFailure::Unavailable { .. }), "{failure}");
        assert!(failure.to_string().contains(expected), "{mode}: {failure}");
        assert!(matches!(upstream.status(), UpstreamStatus::Down { failures: 1, .. }), "{:?}", upstream.status());
    }
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_not_available() {
    let transport = Transport::Stdio {
        command: "/nonexistent/server".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        cwd: None,
    };
    let upstream =
        Upstream::new(UpstreamSpec { id: UpstreamName::from("none"), transport, limits: limits() }, notebook());
    let failure = failure(call(&upstream, "echo").await);
    assert!(failure.provably_not_executed());
    assert!(failure.to_string().contains("could not be started"), "{failure}");
    assert!(matches!(list_failure(&upstream).await, UpstreamError::Page(PerformFailure::Unavailable { .. })));
}

#[tokio::test]
async fn a_silent_server_is_not_available_when_the_time_is_up() {
    let limits = UpstreamLimits { probe_ms_max: 100, connect_ms_max: 300, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["silent"], limits), notebook());
    let failure = failure(call(&upstream, "echo").await);
    assert!(matches!(failure, PerformFailure::Unavailable { .. }), "{failure}");
}

#[tokio::test]
async fn a_caller_in_a_hurry_does_not_wait_for_a_slow_start() {
    let upstream = stdio("silent");
    let called = call_with(&upstream, "echo", "{}", options(IMPATIENCE)).await;
    assert!(!called.sent);
    assert!(failure(called).to_string().contains("not connected before the deadline"));
    assert_eq!(upstream.status(), UpstreamStatus::Connecting);
    upstream.shutdown().await;
}

#[tokio::test]
async fn restarts_are_paused_after_repeated_deaths() {
    let limits = UpstreamLimits { restart_backoff_ms: 600_000, restart_backoff_ms_max: 600_000, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["dies-at-start"], limits), notebook());
    // The second attempt comes at once, the third has to wait longer than anybody here.
    for failures in 1..=2 {
        let failure = failure(call(&upstream, "echo").await);
        assert!(!failure.to_string().contains("next attempt"), "{failure}");
        assert!(matches!(upstream.status(), UpstreamStatus::Down { failures: seen, .. } if seen == failures));
    }
    let failure = failure(call(&upstream, "echo").await);
    assert!(failure.provably_not_executed() && failure.to_string().contains("the next attempt is in"), "{failure}");
}

#[tokio::test]
async fn a_call_during_the_pause_waits_for_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("marker");
    let upstream = Upstream::new(stdio_spec(&["dies-once", marker.to_str().unwrap()], limits()), notebook());
    // The probe meets the death, and the legacy attempt of the same connection finds the server well.
    echoes(&upstream).await;
    for _ in 0..3 {
        assert!(matches!(failure(call(&upstream, "die").await), PerformFailure::Died { .. }));
    }
    echoes(&upstream).await;
}

#[tokio::test]
async fn a_reconnect_and_an_announcement_count_as_changes() {
    let upstream = stdio("legacy");
    let mut changes = upstream.changes();
    echoes(&upstream).await;
    assert!(!changes.has_changed().unwrap(), "the first connection changes nothing");
    assert_eq!(text(call(&upstream, "change").await), "changed");
    tokio::time::timeout(ANSWER_WAIT_MAX, changes.changed()).await.unwrap().unwrap();
    let _ = call(&upstream, "die").await;
    echoes(&upstream).await;
    tokio::time::timeout(ANSWER_WAIT_MAX, changes.changed()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_modern_server_is_asked_for_announcements() {
    let upstream = stdio("announcing");
    let mut changes = upstream.changes();
    echoes(&upstream).await;
    tokio::time::timeout(ANSWER_WAIT_MAX, changes.changed()).await.unwrap().unwrap();
    upstream.shutdown().await;
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let upstream = stdio("pages");
    let list = upstream.tools(&UpstreamRequester::gateway()).await.unwrap();
    let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["tool-0", "tool-1", "tool-2"]);
    assert_eq!(list.rejected.len(), 6);
    assert!(matches!(list_failure(&stdio("endless")).await, UpstreamError::RepeatedCursor { .. }));
    assert_eq!(stdio("modern").tools(&UpstreamRequester::gateway()).await.unwrap().tools[0].name, "echo");
}

#[tokio::test]
async fn shutdown_ends_the_server_and_what_it_started() {
    let upstream = stdio("legacy");
    let pid = text(call(&upstream, "pid").await);
    let grandchild = text(call(&upstream, "grandchild").await);
    assert!(runs(&pid) && runs(&grandchild));
    upstream.shutdown().await;
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "neither running nor a zombie");
    until_gone(&grandchild).await;
    let after = call(&upstream, "echo").await;
    assert!(!after.sent);
    assert!(failure(after).to_string().contains("shut down"));
}

#[tokio::test]
async fn shutdown_ends_a_server_that_does_not_want_to() {
    let upstream = stdio("stays");
    let pid = text(call(&upstream, "pid").await);
    upstream.shutdown().await;
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test]
async fn what_a_dead_server_started_is_ended() {
    let upstream = stdio("legacy");
    let grandchild = text(call(&upstream, "grandchild").await);
    let _ = call(&upstream, "die").await;
    until_gone(&grandchild).await;
}

#[tokio::test]
async fn the_last_handle_takes_the_server_with_it() {
    let upstream = stdio("legacy");
    let pid = text(call(&upstream, "pid").await);
    drop(upstream.clone());
    assert!(runs(&pid));
    drop(upstream);
    until_gone(&pid).await;
}
