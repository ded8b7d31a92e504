//! Calls that become tasks, in both eras, and tasks that the engine makes itself.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json, value::RawValue};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::{record::Outcome, refusal::EffectKnowledge};
use servanda_mcp::{Era, RpcError};
use servanda_upstream::{Announcement, Answer, PerformFailure};

use super::conversations::{failed, result, told};
use crate::{
    CallAnswer, CallRequest, ChangeEvent, Gateway as _, InquiryAnswer, InquirySubject, RequestTerms, Requester,
    testing::{
        EngineHarness, ScriptedRequest, ScriptedServer, again, call, inquiry, listening, parse, rejected, requester,
        said, text,
    },
};

/// A modern task in this state.
pub(super) fn modern_task(status: &str, more: &Value) -> Value {
    let mut task =
        json!({"resultType": "complete", "taskId": "theirs", "status": status, "ttlMs": 60000, "pollIntervalMs": 100});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

pub(super) fn modern() -> Requester {
    requester(Era::Modern, &json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

fn legacy() -> Requester {
    requester(Era::Legacy, &json!({"elicitation": {}}))
}

/// A modern server that makes tasks; the test sets their state.
pub(super) fn modern_server() -> (Arc<ScriptedServer>, Arc<Mutex<Value>>) {
    let state = Arc::new(Mutex::new(modern_task("working", &json!({}))));
    let shown = state.clone();
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard: ScriptedRequest| {
        let answer = match heard.method {
            "tools/call" if heard.delivery.requester.capabilities.as_json().contains("/tasks") => {
                let mut task = modern_task("working", &json!({"x": 1.5}));
                task["resultType"] = json!("task");
                said(Era::Modern, &task)
            }
            "tools/call" => text(Era::Modern, "at once"),
            "tasks/get" => said(Era::Modern, &shown.lock().unwrap()),
            _ => said(Era::Modern, &json!({"resultType": "complete"})),
        };
        async move { Ok(answer) }
    });
    (server, state)
}

pub(super) fn harness(server: &Arc<ScriptedServer>) -> EngineHarness {
    EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())])
}

pub(super) fn task(answer: CallAnswer) -> Value {
    match answer {
        CallAnswer::Task(json) => parse(&json),
        other => panic!("not a task: {other:?}"),
    }
}

pub(super) async fn about(
    harness: &EngineHarness,
    requester: &Requester,
    subject: InquirySubject,
    params: Value,
) -> Result<Value, RpcError> {
    match harness.engine.inquire(inquiry(requester, subject, &params, RequestTerms::default())).await? {
        InquiryAnswer::Complete(json) => Ok(parse(&json)),
        other @ InquiryAnswer::InputRequired(_) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn modern_to_modern_a_task_has_our_id_and_its_end_is_checked_and_recorded_once() {
    let (server, state) = modern_server();
    let harness = harness(&server);
    let created = task(harness.engine.call(call(&modern(), "write", RequestTerms::default())).await);
    let id = created["taskId"].as_str().unwrap().to_owned();
    assert_ne!(id, "theirs");
    assert_eq!((&created["x"], created.get("resultType")), (&json!(1.5), None));
    let record = harness.last_record();
    assert_eq!((record.outcome, record.task_id.as_ref(), record.finished_at), (Outcome::TaskCreated, Some(&id), None));

    let got = about(&harness, &modern(), InquirySubject::Task, json!({"taskId": id})).await.unwrap();
    assert_eq!((&got["taskId"], &got["status"]), (&json!(id), &json!("working")));
    let end = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}], "vendor": 1.0});
    *state.lock().unwrap() = modern_task("completed", &json!({"result": end}));
    for _ in 0..2 {
        let got = about(&harness, &modern(), InquirySubject::Task, json!({"taskId": id})).await.unwrap();
        assert_eq!(got["result"]["content"][0]["text"], "done");
        assert_eq!((&got["result"]["resultType"], &got["result"]["vendor"]), (&json!("complete"), &json!(1.0)));
        assert_eq!(got["result"]["_meta"]["servanda/call"]["id"], json!(record.call_id));
    }
    assert_eq!(harness.outcomes(), ["task_created", "completed"], "its end is recorded once");
    assert_eq!(harness.last_record().call_id, record.call_id);
    let watched = || server.heard().into_iter().filter(|line| line.contains("watch task")).collect::<Vec<_>>();
    while !watched().contains(&"watch task theirs".to_owned()) || watched().last().unwrap() != "unwatch task theirs" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_task_is_known_after_a_restart_and_only_to_its_principal() {
    let (server, _) = modern_server();
    let before = harness(&server);
    let created = task(before.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let after = EngineHarness::with_notebook(ExposedNaming::Bare, &[("up", server.clone())], before.notebook.clone());
    let params = json!({"taskId": created["taskId"]});
    assert_eq!(about(&after, &modern(), InquirySubject::Task, params.clone()).await.unwrap()["status"], "working");
    let mut other = modern();
    Arc::make_mut(&mut other.caller).principal = "other".to_owned();
    let elsewhere = Requester {
        caller: servanda_contract::Caller { tenant: "t".to_owned(), ..(*modern().caller).clone() }.into(),
        ..modern()
    };
    let undeclared = requester(Era::Modern, &json!({}));
    for subject in [InquirySubject::Task, InquirySubject::TaskCancel, InquirySubject::TaskUpdate] {
        for stranger in [&other, &elsewhere] {
            assert_eq!(about(&after, stranger, subject, params.clone()).await.unwrap_err().code, -32602);
        }
        assert_eq!(about(&after, &modern(), subject, json!({"taskId": "theirs"})).await.unwrap_err().code, -32602);
        let error = about(&after, &undeclared, subject, params.clone()).await.unwrap_err();
        assert_eq!(error.code, -32021);
        assert_eq!(
            error.data.unwrap().get(),
            r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#
        );
    }
    for subject in [InquirySubject::TaskResult, InquirySubject::Tasks] {
        assert_eq!(about(&after, &modern(), subject, params.clone()).await.unwrap_err().code, -32601);
    }
}

#[tokio::test]
async fn modern_tasks_are_answered_and_cancelled_by_their_own_ids() {
    let (server, state) = modern_server();
    let harness = harness(&server);
    let created = task(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let responses = json!({"k": {"action": "accept"}});
    // Doors keep the answers apart from the other parameters.
    let (update, terms) = (json!({"taskId": created["taskId"]}), again(&Value::Null, &responses));
    let updated = harness.engine.inquire(inquiry(&modern(), InquirySubject::TaskUpdate, &update, terms)).await;
    assert!(matches!(updated, Ok(InquiryAnswer::Complete(json)) if json == "{}"));
    let heard = server.heard();
    assert_eq!(heard.last().unwrap(), r#"tasks/update {"taskId":"theirs","inputResponses":{"k":{"action":"accept"}}}"#);
    let params = json!({"taskId": created["taskId"]});
    assert_eq!(about(&harness, &modern(), InquirySubject::TaskCancel, params.clone()).await.unwrap(), json!({}));
    *state.lock().unwrap() = modern_task("cancelled", &json!({}));
    assert_eq!(about(&harness, &modern(), InquirySubject::Task, params).await.unwrap()["status"], "cancelled");
    assert_eq!(harness.outcomes(), ["task_created", "tool_error"]);
}

#[tokio::test]
async fn how_a_task_ends_is_told_in_a_shape_that_holds() {
    let error = json!({"code": -32603, "message": "boom", "data": 7});
    // the task's state, the status that the requester gets, the recorded outcome of a tool that writes
    let table = [
        (modern_task("failed", &json!({"error": error})), "failed", "unknown"),
        (modern_task("completed", &json!({"result": {"content": [], "isError": true}})), "completed", "tool_error"),
        (modern_task("completed", &json!({"result": {"secret": 1}})), "failed", "quarantined"),
    ];
    for (ended, status, outcome) in table {
        let (server, state) = modern_server();
        let harness = harness(&server);
        let created = task(harness.engine.call(call(&modern(), "write", RequestTerms::default())).await);
        *state.lock().unwrap() = ended.clone();
        let got = about(&harness, &modern(), InquirySubject::Task, json!({"taskId": created["taskId"]})).await.unwrap();
        assert_eq!(got["status"], status, "{ended}");
        assert_eq!(
            (got.get("result").is_some(), got.get("error").is_some()),
            (status == "completed", status == "failed")
        );
        assert!(!got.to_string().contains("secret"), "what breaks the contract is kept back");
        assert_eq!(harness.outcomes(), ["task_created", outcome]);
        if status == "failed" && outcome == "unknown" {
            assert_eq!(got["error"], error, "the server's own error passes as it is");
        }
    }
}

#[tokio::test]
async fn a_requester_that_takes_no_tasks_promises_none() {
    let (server, _) = modern_server();
    let harness = harness(&server);
    for requester in [
        requester(Era::Modern, &json!({})),
        requester(Era::Legacy, &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})),
    ] {
        assert_eq!(told(harness.engine.call(call(&requester, "echo", RequestTerms::default())).await), "at once");
    }
}

/// A legacy server with one tool that it runs only as a task; the tool asks something on the way if it is told to.
fn legacy_server(support: &str) -> Arc<ScriptedServer> {
    let polls = Arc::new(AtomicUsize::new(0));
    let capabilities = json!({"tasks": {"requests": {"tools": {"call": {}}}}});
    let server = ScriptedServer::new(Era::Legacy, &capabilities, move |heard: ScriptedRequest| {
        let polls = polls.clone();
        async move { legacy_answer(&heard, &polls) }
    });
    *server.tools.lock().unwrap() = vec![
        json!({"name": "echo", "execution": {"taskSupport": support}}),
        json!({"name": "write", "execution": {"taskSupport": "forbidden"}}),
    ];
    server
}

fn legacy_answer(heard: &ScriptedRequest, polls: &AtomicUsize) -> Result<Answer, PerformFailure> {
    let task = |status: &str| json!({"taskId": "theirs", "status": status, "ttl": 60000, "pollInterval": 100});
    let answer = match heard.method {
        "tools/call" if heard.delivery.task.is_none() || heard.params["name"] == "write" => {
            return Err(rejected(-32601, "Method not found", None));
        }
        "tools/call" => json!({"task": task("working")}),
        "tasks/get" => {
            let done = polls.fetch_add(1, Ordering::SeqCst) >= 1;
            task(if done { "completed" } else { "working" })
        }
        "tasks/result" => json!({
            "content": [{"type": "text", "text": "done"}],
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "theirs"}, "a": 1}
        }),
        "tasks/cancel" => task("cancelled"),
        other => panic!("{other}"),
    };
    Ok(said(Era::Legacy, &answer))
}

fn with_task(request: CallRequest) -> CallRequest {
    CallRequest { task: Some(RawValue::from_string(r#"{"ttl":60000}"#.to_owned()).unwrap()), ..request }
}

#[tokio::test(start_paused = true)]
async fn legacy_to_legacy_tasks_pass_with_our_ids() {
    let server = legacy_server("optional");
    let harness = harness(&server);
    let created = task(harness.engine.call(with_task(call(&legacy(), "echo", RequestTerms::default()))).await);
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    assert!(server.heard()[0].contains(r#""task":{"ttl":60000}"#) && id != "theirs", "{:?}", server.heard());
    let params = json!({"taskId": id});
    let got = about(&harness, &legacy(), InquirySubject::Task, params.clone()).await.unwrap();
    assert_eq!(got, json!({"taskId": id, "status": "working", "ttl": 60000, "pollInterval": 100}));
    let listed = about(&harness, &legacy(), InquirySubject::Tasks, json!({})).await.unwrap();
    assert_eq!(listed["tasks"][0]["taskId"], json!(id));
    let mut other = legacy();
    Arc::make_mut(&mut other.caller).principal = "other".to_owned();
    assert_eq!(about(&harness, &other, InquirySubject::Tasks, json!({})).await.unwrap(), json!({"tasks": []}));
    let ended = about(&harness, &legacy(), InquirySubject::TaskResult, params.clone()).await.unwrap();
    assert_eq!(ended["content"][0]["text"], "done");
    assert_eq!(ended["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
    assert_eq!(harness.outcomes(), ["task_created", "completed"]);
    assert_eq!(
        about(&harness, &legacy(), InquirySubject::TaskCancel, params.clone()).await.unwrap()["taskId"],
        json!(id)
    );
    assert_eq!(harness.outcomes().len(), 2, "an end is recorded once");
    let update = about(&harness, &legacy(), InquirySubject::TaskUpdate, params).await.unwrap_err();
    assert_eq!(update.code, -32601);
    let error = failed(harness.engine.call(with_task(call(&legacy(), "write", RequestTerms::default()))).await);
    assert_eq!(error.code, -32601, "a tool that is never a task says so itself");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_only_ever_a_task_is_one_that_the_requester_never_sees() {
    let server = legacy_server("required");
    let harness = harness(&server);
    for requester in [legacy(), requester(Era::Modern, &json!({}))] {
        let before = server.heard().len();
        let answered = result(harness.engine.call(call(&requester, "echo", RequestTerms::default())).await);
        assert_eq!((&answered["content"][0]["text"], answered["_meta"].get("a")), (&json!("done"), Some(&json!(1))));
        assert!(answered["_meta"].get("io.modelcontextprotocol/related-task").is_none());
        let called = server.heard()[before..].iter().filter(|line| line.starts_with("tools/call")).count();
        assert_eq!(called, 1, "{:?}", server.heard());
    }
    assert_eq!(harness.outcomes(), ["completed"; 2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_about_tools_is_asked_for_again_when_they_change() {
    let server = legacy_server("optional");
    let harness = harness(&server);
    let calls = || server.heard().iter().filter(|line| line.starts_with("tools/call")).count();
    assert_eq!(result(harness.engine.call(call(&legacy(), "echo", RequestTerms::default())).await)["isError"], true);
    assert_eq!(calls(), 1);
    // Without an announcement: the engine finds out from the server's own answer.
    *server.tools.lock().unwrap() = vec![json!({"name": "echo", "execution": {"taskSupport": "required"}})];
    assert_eq!(told(harness.engine.call(call(&legacy(), "echo", RequestTerms::default())).await), "done");
    assert_eq!(calls(), 3);
    // With an announcement: then it is not a task any more, and the server rejects it.
    *server.tools.lock().unwrap() = Vec::new();
    server.said.send(Announcement::ToolsChanged).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(result(harness.engine.call(call(&legacy(), "echo", RequestTerms::default())).await)["isError"], true);
    assert_eq!(calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn without_the_definition_saying_so_nothing_is_sent_twice() {
    for (server, tool) in [(legacy_server("optional"), "echo"), (legacy_server("required"), "write")] {
        let harness = harness(&server);
        let answered = result(harness.engine.call(call(&legacy(), tool, RequestTerms::default())).await);
        assert_eq!((&answered["isError"], server.heard().len()), (&json!(true), 1), "{tool}");
    }
}

/// A server that makes a task, which then fails.
fn failing_server(get: Result<&'static str, PerformFailure>, end: PerformFailure) -> Arc<ScriptedServer> {
    let capabilities = json!({"tasks": {"requests": {"tools": {"call": {}}}}});
    let server = ScriptedServer::new(Era::Legacy, &capabilities, move |heard: ScriptedRequest| {
        let answer = match heard.method {
            "tools/call" if heard.delivery.task.is_none() => Err(rejected(-32601, "", None)),
            "tools/call" => Ok(json!({"task": {"taskId": "theirs", "status": "working"}})),
            "tasks/get" => get.clone().map(|status| json!({"taskId": "theirs", "status": status})),
            "tasks/result" => Err(end.clone()),
            _ => Ok(json!({})),
        };
        async move { answer.map(|answer| said(Era::Legacy, &answer)) }
    });
    *server.tools.lock().unwrap() = vec![json!({"name": "write", "execution": {"taskSupport": "required"}})];
    server
}

#[tokio::test(start_paused = true)]
async fn a_task_of_ours_that_goes_wrong_is_never_called_unexecuted() {
    let unavailable = || PerformFailure::Unavailable { why: "gone".to_owned() };
    let boom = rejected(-32603, "boom", None);
    // Not reachable until the deadline, not reachable at the end, an error at the end; and whether the server is told to cancel.
    let table = [
        (failing_server(Err(unavailable()), unavailable()), true),
        (failing_server(Ok("completed"), unavailable()), true),
        (failing_server(Ok("failed"), PerformFailure::Busy { in_flight_max: 1 }), true),
        (failing_server(Ok("failed"), boom), false),
    ];
    for (server, cancelled) in table {
        let harness = harness(&server);
        let answered = result(harness.engine.call(call(&legacy(), "write", RequestTerms::default())).await);
        assert_eq!((&answered["isError"], harness.outcomes()), (&json!(true), vec!["unknown"]));
        // Time is virtual: everything that was going to happen has happened by then.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let told = server.heard().iter().any(|line| line.starts_with("tasks/cancel"));
        assert_eq!(told, cancelled, "{:?}", server.heard());
    }
    // Codes that prove of a request that it was not begun prove nothing about a task that ran.
    for code in [-32021, -32042] {
        let harness = harness(&failing_server(Ok("failed"), rejected(code, "theirs", None)));
        assert_eq!(failed(harness.engine.call(call(&legacy(), "write", RequestTerms::default())).await).code, code);
        assert_eq!(harness.last_word(), ("unknown", Some(EffectKnowledge::Unknown), true));
    }
}

#[tokio::test]
async fn what_a_server_says_about_a_task_reaches_its_principal_under_our_id() {
    let (server, _) = modern_server();
    let harness = harness(&server);
    let created = task(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let mut news = harness.engine.change_events();
    let said = |state: &Value| {
        let params = serde_json::value::to_raw_value(state).unwrap().into();
        server.said.send(Announcement::TaskChanged { task_id: "theirs".to_owned(), params }).unwrap();
    };
    said(&modern_task("completed", &json!({"result": {"nonsense": 1}})));
    let Ok(ChangeEvent::Task { owner, task_id, params }) = news.recv().await else { panic!("nothing said") };
    assert_eq!((owner.principal.as_str(), json!(*task_id)), ("local", created["taskId"].clone()));
    let told = parse(params.get());
    assert_eq!((&told["taskId"], &told["status"]), (&created["taskId"], &json!("failed")), "checked like any answer");
    assert_eq!(harness.outcomes(), ["task_created", "quarantined"]);
}

#[tokio::test(start_paused = true)]
async fn legacy_requester_modern_task() {
    let (server, state) = modern_server();
    let harness = harness(&server);
    let created = task(harness.engine.call(with_task(call(&legacy(), "echo", RequestTerms::default()))).await);
    let id = created["task"]["taskId"].clone();
    assert_eq!((&created["task"]["ttl"], &created["task"]["pollInterval"]), (&json!(60000), &json!(100)));
    let params = json!({"taskId": id});
    assert_eq!(about(&harness, &legacy(), InquirySubject::Task, params.clone()).await.unwrap()["status"], "working");
    let end = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
    *state.lock().unwrap() = modern_task("completed", &json!({"result": end}));
    let got = about(&harness, &legacy(), InquirySubject::Task, params.clone()).await.unwrap();
    assert_eq!((&got["status"], got.get("result"), &got["ttl"]), (&json!("completed"), None, &json!(60000)));
    let ended = about(&harness, &legacy(), InquirySubject::TaskResult, params).await.unwrap();
    assert_eq!((&ended["content"][0]["text"], ended.get("resultType")), (&json!("done"), None));
    assert_eq!(ended["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
    assert_eq!(harness.outcomes(), ["task_created", "completed"]);
}

#[tokio::test]
async fn related_tasks_are_named_as_the_other_side_knows_them() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let at_server = seen.clone();
    let server = ScriptedServer::new(Era::Legacy, &json!({}), move |heard: ScriptedRequest| {
        let meta = heard.delivery.meta.iter().map(|(name, raw)| format!("{name}={raw}")).collect::<Vec<_>>().join(" ");
        at_server.lock().unwrap().push(meta);
        let task = heard.delivery.task.is_some();
        async move {
            let task =
                if task { json!({"task": {"taskId": "theirs", "status": "working"}}) } else { json!({"content": []}) };
            Ok(said(Era::Legacy, &task))
        }
    });
    let harness = harness(&server);
    let created = task(harness.engine.call(with_task(call(&legacy(), "echo", RequestTerms::default()))).await);
    let related = |id: &Value| {
        let related = serde_json::value::to_raw_value(&json!({"taskId": id})).unwrap();
        let other = serde_json::value::to_raw_value(&1).unwrap();
        let (terms, _) = listening();
        let meta = vec![("io.modelcontextprotocol/related-task".to_owned(), related), ("x".to_owned(), other)];
        call(&legacy(), "echo", RequestTerms { meta, ..terms })
    };
    harness.engine.call(related(&created["task"]["taskId"])).await;
    harness.engine.call(related(&json!("made up"))).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[1..], [r#"io.modelcontextprotocol/related-task={"taskId":"theirs"} x=1"#, "x=1"]);
}
