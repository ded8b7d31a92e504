//! Callers whose calls are refused again and again: their next calls are rejected unread, and calls of others are not.

use std::sync::Arc;

use serde_json::{Value, json};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::Caller;
use servanda_mcp::Era;

use super::conversations::{result, told};
use crate::{
    CallAnswer, Gateway as _, RefusedCallLimits, RequestTerms, Requester,
    testing::{EngineHarness, ScriptedServer, call, text},
};

fn harness() -> EngineHarness {
    let server: Arc<ScriptedServer> =
        ScriptedServer::new(Era::Legacy, &json!({}), |_| async { Ok(text(Era::Legacy, "done")) });
    EngineHarness::new(ExposedNaming::Bare, &[("up", server)])
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_principal_that_is_refused_too_often_are_turned_away_unread() {
    let (harness, limits) = (harness(), RefusedCallLimits::default());
    let greedy = Requester::local();
    let other = Requester {
        caller: Caller { principal: "other".to_owned(), ..(*greedy.caller).clone() }.into(),
        ..greedy.clone()
    };
    for _ in 0..limits.calls_per_minute_max {
        let answer = harness.engine.call(call(&greedy, "no such tool", RequestTerms::default())).await;
        assert!(matches!(answer, CallAnswer::UnknownTool(_)), "{answer:?}");
    }
    let records = || harness.records.finished.lock().unwrap().len();
    let before = records();
    assert_eq!(before, limits.calls_per_minute_max as usize);
    // Even a call that would pass the gates.
    let turned_away = result(harness.engine.call(call(&greedy, "echo", RequestTerms::default())).await);
    let status = |answer: &Value| answer["_meta"]["servanda/observation"]["status"]["taxonomy_class"].clone();
    assert_eq!(status(&turned_away), "RATE_LIMITED", "{turned_away}");
    let mut keyed = call(&greedy, "write", RequestTerms::default());
    keyed.keys.idempotency_key = Some("k".to_owned());
    let turned_away = result(harness.engine.call(keyed).await).to_string();
    assert!(turned_away.contains("unknown_before"), "an earlier call may have been done under the key: {turned_away}");
    assert_eq!(records(), before, "nothing is written down");
    assert_eq!(told(harness.engine.call(call(&other, "echo", RequestTerms::default())).await), "done");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(told(harness.engine.call(call(&greedy, "echo", RequestTerms::default())).await), "done");
}
