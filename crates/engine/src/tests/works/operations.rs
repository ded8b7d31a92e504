//! Operations whose contract says how to ask about them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use servanda_contract::{ToolContract, refusal::EffectKnowledge};
use servanda_mcp::Era;

use super::super::{
    conversations::result,
    effects::{Bank, refusal},
};
use super::{MINUTE_MS, TwoLives, fetch, of_class, plain, status, takes_tasks, until_status};
use crate::{
    Gateway as _, RequestTerms,
    testing::{ScriptedRequest, ScriptedServer, call, draft, said},
};

/// A tool that submits an operation, and the tool that reports its state.
fn polled() -> Vec<ToolContract> {
    let mut submits = of_class("N");
    let plan = json!({"tool": "up.echo", "operation_pointer": "/job/id", "operation_argument": "text",
        "state_pointer": "/state", "done_states": ["done"], "failed_states": ["failed"], "result_pointer": "/out"});
    submits.execution.as_mut().unwrap().poll = Some(serde_json::from_value(plan).unwrap());
    let output = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
    submits.affordance.output_schema = output.as_object().unwrap().clone().into();
    vec![submits, draft("up", "echo", false)]
}

/// A server with these tools; the test sets the state of its operation.
fn operations(submitted: Value) -> (Arc<ScriptedServer>, Arc<Mutex<Value>>) {
    let stands = Arc::new(Mutex::new(json!({"state": "queued"})));
    let now = stands.clone();
    let server = ScriptedServer::new(Era::Legacy, &json!({}), move |heard: ScriptedRequest| {
        let structured = if heard.params["name"] == "write" {
            submitted.clone()
        } else {
            assert_eq!(heard.params["arguments"], json!({"text": "op-1"}));
            now.lock().unwrap().clone()
        };
        async move { Ok(said(Era::Legacy, &json!({"content": [], "structuredContent": structured}))) }
    });
    (server, stands)
}

#[test]
fn an_operation_is_asked_about_as_its_contract_says_and_asked_on_after_a_crash() {
    // the final state of the operation, the status of the task, the result
    let table = [
        (json!({"state": "done", "out": {"ok": true}}), "completed", json!({"ok": true})),
        (json!({"state": "failed", "why": "no paper"}), "completed", Value::Null),
        (json!({"state": "done", "out": {"secret": 1}}), "failed", Value::Null),
    ];
    for (ends, stands, structured) in table {
        let (server, state) = operations(json!({"job": {"id": "op-1"}}));
        let lives = TwoLives::new(server.clone(), polled());
        let handle = lives.live(async |harness| {
            let handed = refusal(harness.engine.call(call(&plain(), "write", RequestTerms::default())).await);
            let handle = json!(handed.handle.unwrap());
            assert_eq!(status(harness, &takes_tasks(), &handle).await["statusMessage"], "queued");
            handle
        });
        lives.recover(MINUTE_MS, async |harness| {
            *state.lock().unwrap() = ends.clone();
            let ended = until_status(harness, &takes_tasks(), &handle, stands).await;
            assert!(!ended.to_string().contains("secret"), "what breaks the contract is kept back");
            let fetched = result(harness.engine.call(fetch(&plain(), &json!({"handle": handle}))).await);
            assert_eq!(fetched["structuredContent"], structured, "{ends}");
            assert_eq!(fetched["isError"] == true, structured.is_null(), "{ends}");
        });
        let submitted = server.heard().iter().filter(|line| line.contains(r#""name":"write""#)).count();
        assert_eq!(submitted, 1, "{ends}: it is never submitted again");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_names_no_operation_leaves_an_unknown_one() {
    let (server, _) = operations(json!({"job": {}}));
    let bank = Bank::new(server, polled());
    let refused = refusal(bank.call(call(&plain(), "write", RequestTerms::default())).await);
    assert_eq!(refused.effect, EffectKnowledge::Unknown);
    assert!(refused.message.contains("/job/id"), "{}", refused.message);
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_tasks_waits_for_its_operation() {
    let (server, state) = operations(json!({"job": {"id": "op-1"}}));
    let bank = Bank::new(server, polled());
    let ends = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        *state.lock().unwrap() = json!({"state": "done", "out": {"ok": true}});
    };
    let (answered, ()) = tokio::join!(bank.call(call(&plain(), "write", RequestTerms::default())), ends);
    assert_eq!(result(answered)["structuredContent"], json!({"ok": true}));
}
