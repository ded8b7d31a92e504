//! Tasks that an upstream makes of long work, followed to their end by whichever process is alive.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use servanda_contract::{ToolContract, refusal::EffectKnowledge, tool::TimeoutClass};
use servanda_effects::effect::{EffectStore as _, EffectTarget};
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};

use super::super::effects::{Bank, refusal};
use super::{
    MINUTE_MS, TwoLives, about, keyed, legacy, of_class, plain, status, takes_tasks, task, until_status, with_task,
};
use crate::{
    CallAnswer, ClientMessage, Gateway as _, InquirySubject, RequestTerms,
    testing::{RecordingEffects, ScriptedRequest, ScriptedServer, call, parse, rejected, said, text},
};

/// Work whose caller never waits.
fn always(class: &str) -> ToolContract {
    let mut contract = of_class(class);
    contract.execution.as_mut().unwrap().timeout_class = TimeoutClass::Async;
    contract
}

/// A server that makes tasks of either era. They continue while no process asks, and end when the test lets them.
fn tasks_server(era: Era) -> (Arc<ScriptedServer>, Arc<AtomicBool>) {
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let capabilities = match era {
        Era::Legacy => json!({"tasks": {"requests": {"tools": {"call": {}}}}}),
        Era::Modern => json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
    };
    let server = ScriptedServer::new(era, &capabilities, move |heard: ScriptedRequest| {
        let is_done = is_done.load(Ordering::SeqCst);
        async move {
            // As the real upstream does with a question that was cancelled.
            if heard.method != "tools/call" && heard.delivery.cancel.is_cancelled() {
                return Err(PerformFailure::Cancelled { sent: true });
            }
            task_answer(era, &heard, is_done)
        }
    });
    *server.tools.lock().unwrap() = vec![json!({"name": "write", "execution": {"taskSupport": "optional"}})];
    (server, done)
}

fn task_answer(era: Era, heard: &ScriptedRequest, is_done: bool) -> Result<Answer, PerformFailure> {
    let state = if is_done { "completed" } else { "working" };
    let done = json!({"content": [{"type": "text", "text": "done"}]});
    let answer = match (era, heard.method) {
        (Era::Legacy, "tools/call") if heard.delivery.task.is_none() => {
            return Err(rejected(-32603, "as a task", None));
        }
        (Era::Legacy, "tools/call") => json!({"task": {"taskId": "theirs", "status": "working", "pollInterval": 700}}),
        (Era::Legacy, "tasks/result") => done,
        (Era::Modern, "tools/call") => {
            assert!(heard.delivery.requester.capabilities.as_json().contains("/tasks"));
            json!({"resultType": "task", "taskId": "theirs", "status": "working", "ttlMs": null})
        }
        (Era::Modern, "tasks/get") if is_done => json!({"taskId": "theirs", "status": state, "result": done}),
        (_, "tasks/get") => json!({"taskId": "theirs", "status": state, "statusMessage": "half"}),
        (_, "tasks/cancel") => json!({}),
        (_, other) => panic!("{other}"),
    };
    Ok(said(era, &answer))
}

#[test]
fn a_task_of_the_upstream_is_followed_and_followed_on_after_a_crash() {
    for era in [Era::Legacy, Era::Modern] {
        let (server, done) = tasks_server(era);
        let lives = TwoLives::new(server.clone(), vec![always("N")]);
        let handle = lives.live(async |harness| {
            let handed = refusal(harness.engine.call(call(&plain(), "write", RequestTerms::default())).await);
            let handle = handed.handle.unwrap();
            let effect = harness.effects.find(EffectTarget::Id(handle.clone().into())).await.unwrap().unwrap();
            assert!(effect.awaits.is_some() && effect.overdue_at_ms >= effect.created_ms + 240_000, "{effect:?}");
            handle
        });
        let polled = server.heard().iter().filter(|line| line.starts_with("tasks/get")).count();
        assert!((4..=30).contains(&polled), "less and less often: {polled}");
        // Not before it is clear that no process follows the task any more, although its owner is long gone.
        lives.recover(MINUTE_MS / 4, async |harness| {
            assert!(harness.engine.long_running().works.find(&handle.clone().into()).is_none());
        });
        lives.recover(MINUTE_MS, async |harness| {
            let found = status(harness, &takes_tasks(), &json!(handle)).await;
            assert_eq!((&found["status"], &found["statusMessage"]), (&json!("working"), &json!("half")), "{era:?}");
            done.store(true, Ordering::SeqCst);
            let ended = until_status(harness, &takes_tasks(), &json!(handle), "completed").await;
            assert_eq!(ended["result"]["content"][0]["text"], "done", "{era:?}");
            assert_eq!(harness.last_record().outcome.name(), "completed");
        });
        let called = server.heard().iter().filter(|line| line.starts_with("tools/call")).count();
        assert_eq!(called, 1, "{era:?}: it is never begun again");
    }
}

#[test]
fn a_task_whose_upstream_forgot_it_is_unknown_and_one_in_time_is_not_given_up() {
    let forgot = Arc::new(AtomicBool::new(false));
    let forgets = forgot.clone();
    let server = ScriptedServer::new(
        Era::Modern,
        &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        move |heard: ScriptedRequest| {
            let forgets = forgets.load(Ordering::SeqCst);
            async move {
                if heard.method == "tasks/get" && forgets {
                    return Err(rejected(-32602, "no such task", None));
                }
                task_answer(Era::Modern, &heard, false)
            }
        },
    );
    let lives = TwoLives::new(server, vec![always("N")]);
    let handle = lives.live(async |harness| {
        refusal(harness.engine.call(call(&plain(), "write", RequestTerms::default())).await).handle.unwrap()
    });
    lives.recover(2 * MINUTE_MS, async |harness| {
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(status(harness, &takes_tasks(), &json!(handle)).await["status"], "working");
        forgot.store(true, Ordering::SeqCst);
        let found = until_status(harness, &takes_tasks(), &json!(handle), "failed").await;
        assert_eq!(found["error"]["data"]["effect"], "unknown", "{found}");
    });
}

#[tokio::test(start_paused = true)]
async fn a_followed_task_that_is_cancelled_is_cancelled_there_and_waited_for() {
    let (server, done) = tasks_server(Era::Legacy);
    let bank = Bank::new(server.clone(), vec![always("N")]);
    let handle = json!(refusal(bank.call(call(&plain(), "write", RequestTerms::default())).await).handle.unwrap());
    let cancelled = || server.heard().iter().filter(|line| line.starts_with("tasks/cancel")).count();
    about(&bank.harness, &takes_tasks(), InquirySubject::TaskCancel, json!({"taskId": handle})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((cancelled(), &status(&bank.harness, &takes_tasks(), &handle).await["status"]), (1, &json!("working")));
    done.store(true, Ordering::SeqCst);
    until_status(&bank.harness, &takes_tasks(), &handle, "completed").await;
}

#[tokio::test(start_paused = true)]
async fn the_upstreams_own_task_is_passed_on_to_a_requester_that_takes_tasks() {
    let (server, _) = tasks_server(Era::Legacy);
    let bank = Bank::new(server.clone(), vec![always("N")]);
    let created = task(bank.call(with_task(call(&legacy(), "write", RequestTerms::default()))).await);
    assert_eq!(created["task"]["pollInterval"], 700, "as the upstream wrote it");
    assert!(!created["task"]["taskId"].as_str().unwrap().starts_with("eff_"));
    assert_eq!(bank.harness.outcomes(), ["task_created"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_hears_the_state_of_a_followed_task() {
    let (server, _) = tasks_server(Era::Legacy);
    let bank = Bank::new(server, vec![always("N")]);
    let (terms, mut heard) = crate::testing::listening();
    refusal(bank.call(call(&legacy(), "write", terms)).await);
    let ClientMessage::Progress(params) = heard.recv().await.unwrap() else { panic!("another message") };
    assert_eq!(parse(params.get()), json!({"progress": 1, "message": "half"}));
    assert!(heard.try_recv().is_err(), "the same is said once");
}

/// A note about an earlier attempt says nothing about a later one under the same key.
#[test]
fn a_task_of_an_earlier_attempt_is_not_followed() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let server = ScriptedServer::new(Era::Modern, &capabilities, move |heard: ScriptedRequest| {
        let call = if heard.method == "tools/call" { counted.fetch_add(1, Ordering::SeqCst) } else { 0 };
        async move {
            match (heard.method, call) {
                ("tools/call", 0) => task_answer(Era::Modern, &heard, false),
                ("tools/call", 1) => std::future::pending().await,
                ("tools/call", _) => Ok(text(Era::Modern, "by its key")),
                _ => Err(rejected(-32602, "no such task", None)),
            }
        }
    });
    let lives = TwoLives::new(server, vec![always("K")]);
    let handle = lives.live(async |harness| {
        let forgotten = refusal(harness.engine.call(keyed(&plain())).await);
        assert_eq!(forgotten.effect, EffectKnowledge::Unknown);
        harness.effects.heartbeat(harness.engine.core().owner.clone()).await.unwrap();
        let handed = refusal(harness.engine.call(keyed(&plain())).await);
        assert_eq!(handed.handle, forgotten.handle);
        json!(handed.handle.unwrap())
    });
    lives.recover(MINUTE_MS, async |harness| {
        let ended = until_status(harness, &takes_tasks(), &handle, "completed").await;
        assert_eq!(ended["result"]["content"][0]["text"], "by its key");
    });
}

/// The note is stored first: a process that dies before the effect says that it waits for a task leaves enough behind.
#[test]
fn what_was_only_noted_is_followed_too() {
    let store: Arc<OnceLock<Arc<RecordingEffects>>> = Arc::default();
    let at_server = store.clone();
    let server = ScriptedServer::new(
        Era::Modern,
        &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        move |heard: ScriptedRequest| {
            if heard.method == "tools/call" {
                at_server.get().unwrap().down.store(true, Ordering::SeqCst);
            }
            let done = !at_server.get().unwrap().down.load(Ordering::SeqCst);
            async move { task_answer(Era::Modern, &heard, done) }
        },
    );
    let lives = TwoLives::new(server, vec![always("N")]);
    let handle = lives.live(async |harness| {
        store.set(harness.effects.clone()).unwrap();
        harness.effects.heartbeat(harness.engine.core().owner.clone()).await.unwrap();
        let handle =
            refusal(harness.engine.call(call(&plain(), "write", RequestTerms::default())).await).handle.unwrap();
        let effect = harness.effects.find(EffectTarget::Id(handle.clone().into())).await.unwrap().unwrap();
        assert_eq!(effect.awaits, None);
        json!(handle)
    });
    store.get().unwrap().down.store(false, Ordering::SeqCst);
    lives.recover(MINUTE_MS, async |harness| {
        until_status(harness, &takes_tasks(), &handle, "completed").await;
    });
}

/// The engine does not declare the task extension for a modern requester that did not declare it itself.
#[tokio::test(start_paused = true)]
async fn a_modern_server_hears_of_tasks_only_from_requesters_that_take_them() {
    let server = ScriptedServer::new(
        Era::Modern,
        &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        |heard: ScriptedRequest| async move {
            let takes = heard.delivery.requester.capabilities.as_json().contains("/tasks");
            if takes {
                Ok(text(Era::Modern, "as for one that takes tasks"))
            } else {
                Err(rejected(-32021, "needs tasks", None))
            }
        },
    );
    let bank = Bank::new(server, vec![of_class("N")]);
    let told = bank.harness.engine.call(call(&plain(), "write", RequestTerms::default())).await;
    assert!(matches!(&told, CallAnswer::Failed(error) if error.code == -32021), "{told:?}");
}
