//! A world that is replaced while it is in use.

use std::sync::Arc;

use serde_json::json;
use servanda_catalog::names::ExposedNaming;
use servanda_mcp::Era;
use servanda_upstream::{Announcement, PerformFailure};
use tokio::sync::Semaphore;

use super::conversations::{input, told};
use crate::{
    CallAnswer, Gateway as _, ChangeEvent, RequestTerms,
    testing::{EngineHarness, ScriptedServer, again, call, guest, rejected, said, scene, text},
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
    let house = Arc::new(EngineHarness::new(ExposedNaming::Prefixed, &[("up", slow)]));
    let caller = house.clone();
    let guest = guest(Era::Modern, &json!({}));
    let request = call(&guest, "up__echo", RequestTerms::default());
    let calling = tokio::spawn(async move { caller.engine.call(request).await });
    let _ = begun.acquire().await.unwrap();
    let mut news = house.engine.change_events();
    let changes = house.engine.changes();
    house.engine.install(scene(ExposedNaming::Prefixed, &[("other", saying("new"))]));
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Tools)));
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Prompts)));
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Resources)));
    assert!(changes.has_changed().unwrap());
    let now = house.engine.call(call(&guest, "other__echo", RequestTerms::default())).await;
    assert_eq!(told(now), "new");
    let gone = house.engine.call(call(&guest, "up__echo", RequestTerms::default())).await;
    assert!(matches!(gone, CallAnswer::UnknownTool(_)));
    may_end.add_permits(1);
    assert_eq!(told(calling.await.unwrap()), "old");
}

#[tokio::test]
async fn what_guests_wanted_of_the_old_world_they_want_of_the_new() {
    let (old, new) = (saying("old"), saying("new"));
    let house = EngineHarness::new(ExposedNaming::Prefixed, &[("up", old.clone())]);
    let guest = guest(Era::Legacy, &json!({}));
    let _remarks = house.engine.subscribe_session("s");
    let watch = house.engine.watch(&guest, "servanda://up/a://b").await.unwrap();
    house.engine.install(scene(ExposedNaming::Prefixed, &[("up", new.clone())]));
    let mut news = house.engine.change_events();
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

/// Why the first try failed, what the server says then, and how often it is asked in the end.
#[tokio::test(start_paused = true)]
async fn a_resource_of_a_server_that_is_down_is_watched_when_it_is_back() {
    let down = || Some(PerformFailure::Unavailable { why: "it is down".to_owned() });
    let no = || Some(rejected(-32601, "there are no subscriptions", None));
    for (failure, says, tries) in [(down(), true, 2), (down(), false, 2), (no(), true, 1)] {
        let (old, new) = (saying("old"), saying("new"));
        let house = EngineHarness::new(ExposedNaming::Prefixed, &[("up", old.clone())]);
        let watch = house.engine.watch(&guest(Era::Legacy, &json!({})), "servanda://up/a://b").await.unwrap();
        *new.watches_fail.lock().unwrap() = failure;
        house.engine.install(scene(ExposedNaming::Prefixed, &[("up", new.clone())]));
        while new.heard().is_empty() {
            tokio::task::yield_now().await;
        }
        *new.watches_fail.lock().unwrap() = None;
        if says {
            new.said.send(Announcement::ResourcesChanged).unwrap();
        }
        // The clock goes on by itself whenever nobody else has anything to do.
        tokio::time::sleep(std::time::Duration::from_mins(10)).await;
        assert_eq!(new.heard(), vec!["watch a://b"; tries], "{says}");
        drop(watch);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_any_more_is_not_tried_again() {
    let (old, new) = (saying("old"), saying("new"));
    let house = EngineHarness::new(ExposedNaming::Prefixed, &[("up", old.clone())]);
    let watch = house.engine.watch(&guest(Era::Legacy, &json!({})), "servanda://up/a://b").await.unwrap();
    *new.watches_fail.lock().unwrap() = Some(PerformFailure::Unavailable { why: "it is down".to_owned() });
    house.engine.install(scene(ExposedNaming::Prefixed, &[("up", new.clone())]));
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
    let house = EngineHarness::new(ExposedNaming::Bare, &[("up", asking)]);
    let guest = guest(Era::Modern, &json!({"elicitation": {}}));
    let asked = input(house.engine.call(call(&guest, "echo", RequestTerms::default())).await);
    house.engine.install(scene(ExposedNaming::Bare, &[("moved", other.clone())]));
    let terms = again(&asked["requestState"], &json!({}));
    let answered = super::conversations::result(house.engine.call(call(&guest, "echo", terms)).await);
    assert_eq!((&answered["isError"], other.heard().len()), (&json!(true), 0), "a state is nobody else's business");
}
