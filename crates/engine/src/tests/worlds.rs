//! A world that is replaced while it is in use.

use std::sync::Arc;

use serde_json::json;
use servanda_catalog::names::ExposedNaming;
use servanda_mcp::Era;
use servanda_upstream::{Announcement, PerformFailure};
use tokio::sync::Semaphore;

use super::conversations::{input, told};
use crate::{
    CallAnswer, ChangeEvent, Gateway as _, RequestTerms,
    testing::{EngineHarness, ScriptedServer, again, call, rejected, requester, said, snapshot, text},
};

fn saying(what: &'static str) -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Modern, &json!({}), move |_| async move { Ok(text(Era::Modern, what)) })
}

#[tokio::test]
async fn a_call_ends_in_the_world_it_began_in() {
    let (begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (at_server, gate) = (begun.clone(), may_end.clone());
    let slow = ScriptedServer::new(Era::Modern, &json!({}), move |_| {
        let (at_server, gate) = (at_server.clone(), gate.clone());
        async move {
            at_server.add_permits(1);
            let _ = gate.acquire().await.unwrap();
            Ok(text(Era::Modern, "old"))
        }
    });
    let harness = Arc::new(EngineHarness::new(ExposedNaming::Prefixed, &[("up", slow)]));
    let caller = harness.clone();
    let requester = requester(Era::Modern, &json!({}));
    let request = call(&requester, "up__echo", RequestTerms::default());
    let calling = tokio::spawn(async move { caller.engine.call(request).await });
    let _ = begun.acquire().await.unwrap();
    let mut news = harness.engine.change_events();
    let changes = harness.engine.changes();
    harness.engine.install(snapshot(ExposedNaming::Prefixed, &[("other", saying("new"))]));
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Tools)));
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Prompts)));
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Resources)));
    assert!(changes.has_changed().unwrap());
    let now = harness.engine.call(call(&requester, "other__echo", RequestTerms::default())).await;
    assert_eq!(told(now), "new");
    let gone = harness.engine.call(call(&requester, "up__echo", RequestTerms::default())).await;
    assert!(matches!(gone, CallAnswer::UnknownTool(_)));
    may_end.add_permits(1);
    assert_eq!(told(calling.await.unwrap()), "old");
}

#[tokio::test]
async fn what_requesters_wanted_of_the_old_world_they_want_of_the_new() {
    let (old, new) = (saying("old"), saying("new"));
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", old.clone())]);
    let requester = requester(Era::Legacy, &json!({}));
    let _messages = harness.engine.subscribe_session("s");
    let watch = harness.engine.watch(&requester, "servanda://up/a://b").await.unwrap();
    harness.engine.install(snapshot(ExposedNaming::Prefixed, &[("up", new.clone())]));
    let mut news = harness.engine.change_events();
    // The new upstream is followed from the moment of the change.
    new.said.send(Announcement::ResourcesChanged).unwrap();
    while !matches!(news.recv().await, Ok(ChangeEvent::Resources)) {}
    while new.heard().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(new.heard(), ["attach s", "watch a://b"]);
    drop(watch);
    assert_eq!(new.heard().last().unwrap(), "unwatch a://b");
}

/// The failure of the first attempt, the server's announcement after it, and how often the server is asked in total.
#[tokio::test(start_paused = true)]
async fn a_resource_of_a_server_that_is_down_is_watched_when_it_is_back() {
    let down = || Some(PerformFailure::Unavailable { why: "it is down".to_owned() });
    let no = || Some(rejected(-32601, "there are no subscriptions", None));
    for (failure, says, tries) in [(down(), true, 2), (down(), false, 2), (no(), true, 1)] {
        let (old, new) = (saying("old"), saying("new"));
        let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", old.clone())]);
        let watch = harness.engine.watch(&requester(Era::Legacy, &json!({})), "servanda://up/a://b").await.unwrap();
        *new.watches_fail.lock().unwrap() = failure;
        harness.engine.install(snapshot(ExposedNaming::Prefixed, &[("up", new.clone())]));
        while new.heard().is_empty() {
            tokio::task::yield_now().await;
        }
        *new.watches_fail.lock().unwrap() = None;
        if says {
            new.said.send(Announcement::ResourcesChanged).unwrap();
        }
        // Virtual time passes whenever no task has anything to do.
        tokio::time::sleep(std::time::Duration::from_mins(10)).await;
        assert_eq!(new.heard(), vec!["watch a://b"; tries], "{says}");
        drop(watch);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_no_longer_watched_is_not_tried_again() {
    let (old, new) = (saying("old"), saying("new"));
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", old.clone())]);
    let watch = harness.engine.watch(&requester(Era::Legacy, &json!({})), "servanda://up/a://b").await.unwrap();
    *new.watches_fail.lock().unwrap() = Some(PerformFailure::Unavailable { why: "it is down".to_owned() });
    harness.engine.install(snapshot(ExposedNaming::Prefixed, &[("up", new.clone())]));
    while new.heard().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(watch);
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    let heard = new.heard();
    assert!(heard.iter().filter(|what| *what == "watch a://b").count() <= 2, "{heard:?}");
    assert_eq!(heard.last().unwrap(), "unwatch a://b");
}

#[tokio::test]
async fn a_round_does_not_go_on_at_another_upstream() {
    let asks = |_| async { Ok(said(Era::Modern, &json!({"resultType": "input_required", "requestState": "theirs"}))) };
    let (asking, other) = (ScriptedServer::new(Era::Modern, &json!({}), asks), saying("other"));
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", asking)]);
    let requester = requester(Era::Modern, &json!({"elicitation": {}}));
    let asked = input(harness.engine.call(call(&requester, "echo", RequestTerms::default())).await);
    harness.engine.install(snapshot(ExposedNaming::Bare, &[("moved", other.clone())]));
    let terms = again(&asked["requestState"], &json!({}));
    let answered = super::conversations::result(harness.engine.call(call(&requester, "echo", terms)).await);
    assert_eq!(
        (&answered["isError"], other.heard().len()),
        (&json!(true), 0),
        "a request state belongs to one upstream"
    );
}
