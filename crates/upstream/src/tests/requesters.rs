//! Which connection a request uses, and how long such connections live.

use servanda_mcp::Era;

use super::*;
use crate::UpstreamStatus;

const EVERYTHING: &str = r#"{"roots":{},"sampling":{},"elicitation":{}}"#;

async fn pid_for(upstream: &Upstream, requester: &UpstreamRequester) -> String {
    text(call_with(upstream, "pid", "{}", options_for(requester)).await)
}

async fn tools_for(upstream: &Upstream, requester: &UpstreamRequester) -> Vec<String> {
    upstream.tools(requester).await.unwrap().tools.into_iter().map(|tool| tool.name).collect()
}

/// The number of this process's children, zombies included.
fn children() -> usize {
    let own = std::process::id().to_string();
    let is_child = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?;
        (parent == own).then_some(())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(is_child).count()
}

#[tokio::test]
async fn a_legacy_server_learns_at_its_handshake_what_a_client_can_do() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let able = requester("a", EVERYTHING);
        assert_eq!(tools_for(&upstream, &UpstreamRequester::gateway()).await, ["echo"]);
        assert_eq!(tools_for(&upstream, &able).await, ["echo", "elicitation", "roots", "sampling"]);
        let declared = json_text(call_with(&upstream, "capabilities", "{}", options_for(&able)).await);
        assert_eq!(declared, serde_json::from_str::<Value>(EVERYTHING).unwrap());
        assert_eq!(json_text(call(&upstream, "capabilities").await), json!({}));
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_modern_server_has_one_connection_and_learns_it_with_every_request() {
    let upstream = stdio("modern");
    let able = requester("a", EVERYTHING);
    assert_eq!(pid_for(&upstream, &able).await, pid_for(&upstream, &UpstreamRequester::gateway()).await);
    let declared = json_text(call_with(&upstream, "capabilities", "{}", options_for(&able)).await);
    assert_eq!(declared, serde_json::from_str::<Value>(EVERYTHING).unwrap());
    assert_eq!(json_text(call(&upstream, "capabilities").await), json!({}));
    assert_eq!(upstream.census().0, 0);
}

#[tokio::test]
async fn only_clients_that_can_be_asked_nothing_share_a_connection() {
    let upstream = stdio("legacy");
    let base = pid_for(&upstream, &UpstreamRequester::gateway()).await;
    assert_eq!(pid_for(&upstream, &requester("a", "{}")).await, base);
    assert_eq!(pid_for(&upstream, &requester("b", r#"{"experimental":{"x":{}}}"#)).await, base);
    let first = pid_for(&upstream, &requester("a", EVERYTHING)).await;
    assert_eq!(pid_for(&upstream, &requester("a", EVERYTHING)).await, first);
    let others = [requester("b", EVERYTHING), requester("a", r#"{"roots":{}}"#)];
    let mut pids = vec![base, first];
    for other in others {
        pids.push(pid_for(&upstream, &other).await);
    }
    let different: std::collections::BTreeSet<_> = pids.iter().collect();
    assert_eq!(different.len(), 4, "{pids:?}");
    upstream.shutdown().await;
    assert_eq!(children(), 0);
}

#[tokio::test]
async fn when_there_is_no_room_the_longest_idle_connection_goes() {
    let limits = UpstreamLimits { connections_max: 2, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["legacy"], limits), notebook());
    let [a, b, c] = ["a", "b", "c"].map(|affinity| requester(affinity, EVERYTHING));
    let pid_a = pid_for(&upstream, &a).await;
    let pid_b = pid_for(&upstream, &b).await;
    let pid_c = pid_for(&upstream, &c).await;
    until_gone(&pid_a).await;
    assert_eq!(pid_for(&upstream, &b).await, pid_b);
    assert_eq!(pid_for(&upstream, &c).await, pid_c);

    // Both are in use: there is no room, and nothing is sent.
    let cancel = tokio_util::sync::CancellationToken::new();
    let hang = |requester: &UpstreamRequester| {
        let options = RequestOptions { cancel: cancel.clone(), ..options_for(requester) };
        let upstream = upstream.clone();
        async move { call_with(&upstream, "hang", "{}", options).await }
    };
    let refused = async {
        let called = call_with(&upstream, "pid", "{}", options_for(&a)).await;
        cancel.cancel();
        called
    };
    let (_, _, refused) = tokio::join!(hang(&b), hang(&c), refused);
    assert!(!refused.sent);
    assert!(matches!(failure(refused), PerformFailure::Busy { in_flight_max: 2 }));
    assert_ne!(pid_for(&upstream, &a).await, pid_a);
}

#[tokio::test]
async fn one_client_cannot_take_all_connections() {
    let limits = UpstreamLimits { connections_max: 8, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["legacy"], limits), notebook());
    echoes(&upstream).await;
    let spelled = |number: u32| requester("a", &format!(r#"{{"roots":{{}},"experimental":{{"v{number}":{{}}}}}}"#));
    let cancel = tokio_util::sync::CancellationToken::new();
    let hang = |number: u32| {
        let options = RequestOptions { cancel: cancel.clone(), ..options_for(&spelled(number)) };
        let upstream = upstream.clone();
        async move { call_with(&upstream, "hang", "{}", options).await }
    };
    let others = async {
        let refused = call_with(&upstream, "pid", "{}", options_for(&spelled(3))).await;
        let other = call_with(&upstream, "echo", "{}", options_for(&requester("b", EVERYTHING))).await;
        cancel.cancel();
        (refused, other)
    };
    let (_, _, (refused, other)) = tokio::join!(hang(1), hang(2), others);
    assert!(!refused.sent);
    assert!(matches!(failure(refused), PerformFailure::Busy { in_flight_max: 2 }));
    assert_eq!(text(other), "{}");
    pid_for(&upstream, &spelled(4)).await;
    assert!(upstream.census().0 <= 3, "an idle one made room");
}

#[tokio::test]
async fn one_principals_sessions_cannot_take_all_connections() {
    let limits = UpstreamLimits { connections_max: 8, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["legacy"], limits), notebook());
    echoes(&upstream).await;
    let cancel = tokio_util::sync::CancellationToken::new();
    let session = |tenant: &str, principal: &str, number: usize| {
        client_of(tenant, principal, &format!("{tenant} {principal} {number}"), EVERYTHING)
    };
    let hang = |client: UpstreamRequester| {
        let options = RequestOptions { cancel: cancel.clone(), ..options_for(&client) };
        let upstream = upstream.clone();
        async move { call_with(&upstream, "hang", "{}", options).await }
    };
    let hanging = async {
        let sessions = ["a", "b", "c"].into_iter().flat_map(|principal| [1, 2].map(|number| (principal, number)));
        let calls = sessions.map(|(principal, number)| hang(session("greedy", principal, number)));
        futures_util::future::join_all(calls).await
    };
    let others = async {
        until("six connections", async || upstream.census().0 == 6).await;
        let third = call_with(&upstream, "pid", "{}", options_for(&session("greedy", "a", 3))).await;
        let fourth = call_with(&upstream, "pid", "{}", options_for(&session("greedy", "d", 1))).await;
        let other = call_with(&upstream, "echo", "{}", options_for(&session("quiet", "a", 1))).await;
        cancel.cancel();
        [third, fourth, other]
    };
    let (_, [third, fourth, other]) = tokio::join!(hanging, others);
    assert!(!third.sent && !fourth.sent);
    assert!(matches!(failure(third), PerformFailure::Busy { in_flight_max: 2 }), "the principal's share");
    assert!(matches!(failure(fourth), PerformFailure::Busy { in_flight_max: 6 }), "the tenant's share");
    assert_eq!(text(other), "{}");
    pid_for(&upstream, &session("greedy", "a", 4)).await;
    assert!(upstream.census().0 <= 7, "an idle one of the same principal made room");
}

#[tokio::test]
async fn an_idle_connection_ends_and_one_in_use_does_not() {
    let limits = UpstreamLimits { connection_idle_ms_max: 50, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["legacy"], limits), notebook());
    let able = requester("a", EVERYTHING);
    let pid = pid_for(&upstream, &able).await;
    until_gone(&pid).await;
    // A call that takes longer than the idle time, because its client thinks.
    let (options, mut server_messages) = heard_options(&able);
    let question = json!({"id": 1, "method": "roots/list"});
    let thinking = async {
        let ask = next_ask(&mut server_messages).await;
        tokio::time::sleep(IMPATIENCE).await;
        ask.reply.send(Ok(raw("{}"))).unwrap();
    };
    let (asked, ()) = tokio::join!(call_json(&upstream, "ask", &question, options), thinking);
    assert_eq!(json_text(asked)["result"], json!({}), "it was used all the time");
    // And a question that comes after its call.
    let (sink, mut attached) = mpsc::channel(8);
    upstream.attach("a", Arc::new(sink));
    let asked = call_json(&upstream, "ask-and-answer", &question, options_for(&able)).await;
    assert_eq!(text(asked), "answered without waiting");
    let ask = next_ask(&mut attached).await;
    tokio::time::sleep(IMPATIENCE).await;
    assert_eq!(upstream.census().0, 1);
    ask.reply.send(Ok(raw("{}"))).expect("the server still waits");
    until("every own connection has ended", async || upstream.census().0 == 0).await;
    echoes(&upstream).await;
}

#[tokio::test]
async fn connections_on_their_way_out_are_counted() {
    let limits = UpstreamLimits { connections_max: 1, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["stays"], limits), notebook());
    let [a, b, c] = ["a", "b", "c"].map(|affinity| requester(affinity, EVERYTHING));
    let pid_a = pid_for(&upstream, &a).await;
    pid_for(&upstream, &b).await;
    assert!(runs(&pid_a), "it refuses to end");
    let refused = call_with(&upstream, "pid", "{}", options_for(&c)).await;
    assert!(!refused.sent);
    assert!(matches!(failure(refused), PerformFailure::Busy { in_flight_max: 1 }));
    until_gone(&pid_a).await;
    until("there is room", async || call_with(&upstream, "pid", "{}", options_for(&c)).await.outcome.is_ok()).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_released_session_ends_what_was_on_its_way() {
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    let able = requester("a", EVERYTHING);
    assert_eq!(text(call_with(&upstream, "echo", "{}", options_for(&able)).await), "{}");
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        upstream.release("a");
    };
    let (hanging, ()) = tokio::join!(call_with(&upstream, "hang", "{}", options_for(&able)), releasing);
    let hanging = failure(hanging);
    assert!(matches!(&hanging, PerformFailure::Died { why } if why.contains("closed")), "{hanging}");
}

#[tokio::test]
async fn a_released_connection_is_ended_with_whatever_was_on_it() {
    let upstream = stdio("legacy");
    let (a, b) = (requester("a", EVERYTHING), requester("b", EVERYTHING));
    let (pid_a, pid_b) = (pid_for(&upstream, &a).await, pid_for(&upstream, &b).await);
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        upstream.release("a");
    };
    let (hanging, ()) = tokio::join!(call_with(&upstream, "hang", "{}", options_for(&a)), releasing);
    let hanging = failure(hanging);
    assert!(matches!(hanging, PerformFailure::Died { .. }), "{hanging}");
    until_gone(&pid_a).await;
    assert_eq!(pid_for(&upstream, &b).await, pid_b);
    assert_ne!(pid_for(&upstream, &a).await, pid_a, "it is made again when it is needed");
}

#[tokio::test]
async fn an_own_connection_that_dies_is_made_again_for_the_same_client() {
    let upstream = stdio("legacy");
    let able = requester("a", EVERYTHING);
    let pid = pid_for(&upstream, &able).await;
    let base = pid_for(&upstream, &UpstreamRequester::gateway()).await;
    let edition = upstream.edition(&able);
    assert!(edition.is_some() && edition != upstream.edition(&UpstreamRequester::gateway()));
    let died = failure(call_with(&upstream, "die", "{}", options_for(&able)).await);
    assert!(matches!(died, PerformFailure::Died { .. }), "{died}");
    assert_ne!(pid_for(&upstream, &able).await, pid);
    assert_ne!(upstream.edition(&able), edition);
    assert_eq!(tools_for(&upstream, &able).await.len(), 4);
    assert_eq!(pid_for(&upstream, &UpstreamRequester::gateway()).await, base, "the others do not notice");
}

#[tokio::test]
async fn a_server_that_refuses_an_own_connection_is_asked_again_what_it_is() {
    let upstream = stdio("refuses-capabilities");
    let base = pid_for(&upstream, &UpstreamRequester::gateway()).await;
    let called = call_with(&upstream, "echo", "{}", options_for(&requester("a", EVERYTHING))).await;
    assert!(!called.sent);
    let refused = failure(called).to_string();
    assert!(refused.contains("the handshake failed"), "{refused}");
    until_gone(&base).await;
    echoes(&upstream).await;
}

#[tokio::test]
async fn a_server_that_comes_back_modern_takes_own_connections_back() {
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    let able = requester("a", EVERYTHING);
    let (tool, become_modern) = ("capabilities", "become-modern");
    assert_eq!(json_text(call_with(&upstream, tool, "{}", options_for(&able)).await)["roots"], json!({}));
    assert_eq!(text(call(&upstream, become_modern).await), "become");
    // The first request meets the change; the next one knows about it.
    let _ = call_with(&upstream, tool, "{}", options_for(&able)).await;
    until("the server is known to be modern", async || {
        let declared = call_with(&upstream, tool, "{}", options_for(&able)).await;
        declared.outcome.is_ok() && matches!(upstream.status(), UpstreamStatus::Ready { era: Era::Modern, .. })
    })
    .await;
}

#[tokio::test]
async fn fifty_connections_leave_nothing_behind() {
    let upstream = stdio("legacy");
    echoes(&upstream).await;
    let (_, tasks_before) = upstream.census();
    let clients: Vec<UpstreamRequester> =
        (0..50).map(|number| requester(&format!("client-{number}"), EVERYTHING)).collect();
    for group in clients.chunks(10) {
        let calls = group.iter().map(|client| call_with(&upstream, "echo", "{}", options_for(client)));
        for called in futures_util::future::join_all(calls).await {
            assert_eq!(text(called), "{}");
        }
    }
    assert!(upstream.census().0 <= UpstreamLimits::default().connections_max);
    for client in &clients {
        upstream.release(&client.affinity);
    }
    until("only the shared connection is left", async || upstream.census() == (0, tasks_before) && children() == 1)
        .await;
    upstream.shutdown().await;
    assert_eq!((upstream.census(), children()), ((0, 0), 0));
}

#[tokio::test]
async fn fifty_sessions_are_ended_at_the_server() {
    let server = serve("legacy,stream,quiet").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    // Every client calls twice at once and has one session.
    let clients: Vec<UpstreamRequester> =
        (0..50).map(|number| requester(&format!("client-{number}"), EVERYTHING)).collect();
    for group in clients.chunks(10) {
        let calls = group.iter().chain(group).map(|client| call_with(&upstream, "echo", "{}", options_for(client)));
        for called in futures_util::future::join_all(calls).await {
            assert_eq!(text(called), "{}");
        }
    }
    let begun = seen(&upstream).await.iter().filter(|method| *method == "initialize").count();
    assert_eq!(begun, 51);
    for client in &clients {
        upstream.release(&client.affinity);
    }
    until("the shared session is the only one", async || {
        json_text(call(&upstream, "sessions").await) == json!(["session-1"])
    })
    .await;
    upstream.shutdown().await;
    assert_eq!(upstream.census(), (0, 0));
    assert_eq!(json_text(call(&client(&server.url), "sessions").await).as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_client_s_notification_goes_to_its_own_connection() {
    let upstream = stdio("legacy");
    let (a, b) = (requester("a", EVERYTHING), requester("b", EVERYTHING));
    let method = "notifications/roots/list_changed";
    upstream.notify(&a, method, None);
    echoes(&upstream).await;
    for client in [&a, &b] {
        assert_eq!(text(call_with(&upstream, "echo", "{}", options_for(client)).await), "{}");
    }
    upstream.notify(&a, method, Some(raw("{\"x\":\n1}")));
    let told = async |client: &UpstreamRequester| {
        let received = json_text(call_with(&upstream, "received", "{}", options_for(client)).await);
        received.as_array().unwrap().iter().filter(|message| message["method"] == method).cloned().collect::<Vec<_>>()
    };
    assert_eq!(told(&a).await, [json!({"jsonrpc": "2.0", "method": method, "params": {"x": 1}})]);
    assert_eq!(told(&b).await, Vec::<Value>::new());
    assert_eq!(told(&UpstreamRequester::gateway()).await, Vec::<Value>::new());
}
