//! What upstreams say outside any request, and who wants to hear it.

use std::sync::Arc;

use serde_json::{json, value::RawValue};
use servanda_catalog::names::ExposedNaming;
use servanda_mcp::Era;
use servanda_upstream::{Announcement, ServerMessage};

use crate::{
    ChangeEvent, ClientMessage, Gateway as _, Requester,
    testing::{EngineHarness, ScriptedServer, requester, said},
};

fn silent() -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(said(Era::Modern, &json!({}))) })
}

fn raw(text: &str) -> Arc<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap().into()
}

fn of_session(name: &str) -> Requester {
    Requester { affinity: Arc::from(name), ..requester(Era::Legacy, &json!({"roots": {}})) }
}

#[tokio::test]
async fn changes_are_told_with_the_names_requesters_know() {
    let server = silent();
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", server.clone())]);
    let mut news = harness.engine.change_events();
    let uri = "a://b".to_owned();
    server.said.send(Announcement::ResourcesChanged).unwrap();
    server.said.send(Announcement::TaskChanged { task_id: "nobody's".to_owned(), params: raw("{}") }).unwrap();
    server.said.send(Announcement::ResourceUpdated { uri, params: raw(r#"{"uri":"a://b","t": 1.0}"#) }).unwrap();
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Resources)));
    let Ok(ChangeEvent::Resource { uri, params }) = news.recv().await else { panic!("not of the resource") };
    assert_eq!((&*uri, params.get()), ("servanda://up/a://b", r#"{"uri":"servanda://up/a://b","t":1.0}"#));
}

#[tokio::test]
async fn a_resource_is_watched_as_long_as_anybody_does() {
    let (one, other) = (silent(), silent());
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("one", one.clone()), ("other", other.clone())]);
    let requester = of_session("s");
    let first = harness.engine.watch(&requester, "servanda://one/a://b").await.unwrap();
    let second = harness.engine.watch(&of_session("t"), "servanda://one/a://b").await.unwrap();
    drop(first);
    assert_eq!(one.heard(), ["watch a://b", "watch a://b"]);
    drop(second);
    assert_eq!(one.heard().last().unwrap(), "unwatch a://b");
    assert!(other.heard().is_empty());
    assert_eq!(harness.engine.watch(&requester, "a://b").await.unwrap_err().code, -32002, "nobody's");
}

#[tokio::test]
async fn a_session_hears_every_upstream_until_it_leaves() {
    let (one, other) = (silent(), silent());
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("one", one.clone()), ("other", other.clone())]);
    let mut messages = harness.engine.subscribe_session("s");
    for server in [&one, &other] {
        let session_forwarder = server.attached.lock().unwrap()["s"].clone();
        assert!(session_forwarder.receive(ServerMessage::LogMessage(RawValue::from_string("{}".to_owned()).unwrap())));
        assert!(matches!(messages.recv().await, Some(ClientMessage::LogMessage(_))));
    }
    harness.engine.roots_changed(&of_session("s"));
    harness.engine.end_session("s");
    for server in [&one, &other] {
        assert_eq!(server.heard(), ["attach s", "notify s notifications/roots/list_changed", "release s"]);
    }
    assert!(messages.recv().await.is_none());
}
