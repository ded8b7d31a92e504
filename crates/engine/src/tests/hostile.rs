//! Servers that speak past the rules: outside of calls, in errors, in tasks, in lists and in plain results. Issue 16.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json, value::RawValue};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::{time::Clock as _, tool::QuestionKind};
use servanda_mcp::Era;
use servanda_upstream::{Answer, QuestionReply, ServerMessage, UpstreamQuestion};
use tokio::sync::oneshot;

use super::questions::{by_contract, by_policy, harness};
use crate::{
    CallAnswer, ClientMessage, Gateway as _, InquiryAnswer, InquirySubject, NoteKind, Notebook as _, RequestTerms,
    Requester, SystemClock,
    testing::{
        EngineHarness, ScriptedRequest, ScriptedServer, ask, call, inquiry, listening, parse, rejected, requester,
        said, text,
    },
};

const MARK: &str = "[asked by the tool server `up`]";

fn silent() -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Legacy, &json!({}), |_| async { Ok(text(Era::Legacy, "done")) })
}

fn url(address: &str) -> Value {
    json!({"mode": "url", "elicitationId": "e", "url": address, "message": "RAW"})
}

fn everybody() -> [Requester; 2] {
    let modern = json!({"elicitation": {"form": {}, "url": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    [requester(Era::Legacy, &json!({"elicitation": {"form": {}, "url": {}}})), requester(Era::Modern, &modern)]
}

/// Asks the session `s` outside of any request.
fn ask_outside(server: &ScriptedServer, method: &str, params: &Value) -> oneshot::Receiver<QuestionReply> {
    let (reply, replied) = oneshot::channel();
    let params = Some(serde_json::value::to_raw_value(params).unwrap());
    let session_forwarder = server.attached.lock().unwrap()["s"].clone();
    assert!(session_forwarder.receive(ServerMessage::Ask(UpstreamQuestion {
        method: method.to_owned(),
        params,
        reply
    })));
    replied
}

/// The text that a client gets for an answer of any kind.
fn shown(answer: CallAnswer) -> String {
    match answer {
        CallAnswer::Result(result) => crate::answers::tool_result::with_full_detail(result).json,
        CallAnswer::Task(json) | CallAnswer::InputRequired(json) => json,
        CallAnswer::Failed(error) => serde_json::to_string(&error).unwrap(),
        CallAnswer::UnknownTool(refusal) => refusal.message.clone(),
    }
}

async fn about(harness: &EngineHarness, requester: &Requester, subject: InquirySubject, params: &Value) -> String {
    match harness.engine.inquire(inquiry(requester, subject, params, RequestTerms::default())).await {
        Ok(InquiryAnswer::Complete(json) | InquiryAnswer::InputRequired(json)) => json,
        Err(error) => serde_json::to_string(&error).unwrap(),
    }
}

#[tokio::test]
async fn a_question_outside_of_calls_is_put_like_any_other() {
    let server = silent();
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    let mut messages = harness.engine.subscribe_session("s");
    let _waiting = ask_outside(&server, "elicitation/create", &json!({"message": "a\u{202e}b"}));
    let Some(ClientMessage::Ask(ask)) = messages.recv().await else { panic!("the client is not asked") };
    let params = parse(ask.question.params().unwrap().get());
    assert_eq!(params["message"], format!("{MARK} a<U+202E>b"));
    for (method, params) in [
        ("elicitation/create", url("javascript:alert(1)")),
        ("sampling/createMessage", json!({"messages": [], "includeContext": "allServers"})),
        ("acme/ask", json!({})),
    ] {
        let told = ask_outside(&server, method, &params).await.unwrap().unwrap_err();
        assert!(told.message.contains("did not ask"), "{}", told.message);
        assert!(messages.try_recv().is_err());
    }
}

#[tokio::test]
async fn outside_of_calls_nothing_is_asked_that_a_contract_or_a_policy_may_refuse() {
    for (snapshot, roots) in [(by_contract as fn(&Arc<ScriptedServer>) -> _, true), (by_policy, false)] {
        let server = silent();
        let harness = harness(snapshot(&server));
        let mut messages = harness.engine.subscribe_session("s");
        let told = ask_outside(&server, "elicitation/create", &json!({"message": "m"})).await.unwrap().unwrap_err();
        assert!(told.message.contains("belongs to no one call"), "{}", told.message);
        let _waiting = ask_outside(&server, "roots/list", &json!({}));
        assert_eq!(messages.try_recv().is_ok(), roots);
    }
}

#[tokio::test]
async fn a_client_hears_the_end_of_elicitations_that_it_was_given_only() {
    let server = silent();
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    let mut messages = harness.engine.subscribe_session("s");
    let complete = |id: &str| {
        let params = serde_json::value::to_raw_value(&json!({"elicitationId": id})).unwrap();
        let method = "notifications/elicitation/complete".to_owned();
        let session_forwarder = server.attached.lock().unwrap()["s"].clone();
        session_forwarder.receive(ServerMessage::Notification { method, params: Some(params) })
    };
    assert!(!complete("e"));
    let _waiting = ask_outside(&server, "elicitation/create", &url("https://example.com/"));
    assert!(complete("e") && !complete("another"));
    assert!(matches!(messages.recv().await, Some(ClientMessage::Ask(_))));
    assert!(matches!(messages.recv().await, Some(ClientMessage::Notification { .. })));
}

/// A server whose every answer is that a URL has to be visited first.
fn demanding(address: &'static str) -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Legacy, &json!({"resources": {}}), move |_| async move {
        let data = json!({"elicitations": [url(address)], "servanda/x": "FORGED"});
        Err(rejected(-32042, "\u{1b}[2Jlog in", Some(&data)))
    })
}

#[tokio::test]
async fn an_error_that_asks_for_a_visit_is_named_checked_and_on_record() {
    for requester in everybody() {
        let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", demanding("https://example.com/"))]);
        let told = shown(harness.engine.call(call(&requester, "echo", RequestTerms::default())).await);
        assert!(told.contains(&format!("{MARK} RAW")) && !told.contains("FORGED"), "{told}");
        assert!(!told.contains("\\u001b") && told.matches("RAW").count() == 1, "{told}");
        let [question] = harness.last_record().questions.try_into().unwrap();
        assert_eq!((question.kind, question.refused), (Some(QuestionKind::Url), None));
        let read = about(&harness, &requester, InquirySubject::Resource, &json!({"uri": "a://b"})).await;
        assert!(read.contains(&format!("{MARK} RAW")), "{read}");
    }
}

#[tokio::test]
async fn an_error_that_asks_for_what_may_not_be_asked_says_so() {
    for requester in everybody() {
        let unsafe_address = EngineHarness::new(ExposedNaming::Bare, &[("up", demanding("javascript:alert(1)"))]);
        let refused = harness(by_contract(&demanding("https://example.com/")));
        for harness in [unsafe_address, refused] {
            let told = shown(harness.engine.call(call(&requester, "write", RequestTerms::default())).await);
            assert!(told.contains("did not ask") && !told.contains("RAW"), "{told}");
            let [question] = harness.last_record().questions.try_into().unwrap();
            assert!(question.refused.is_some());
            let read = about(&harness, &requester, InquirySubject::Resource, &json!({"uri": "a://b"})).await;
            assert!(read.contains("did not ask") && !read.contains("RAW"), "{read}");
        }
    }
}

/// A server that makes tasks, whose answers a test sets: to the call, and to questions about the task.
fn tasking(created: Value, state: &Arc<Mutex<Value>>) -> Arc<ScriptedServer> {
    let state = Arc::clone(state);
    ScriptedServer::new(Era::Modern, &json!({}), move |heard: ScriptedRequest| {
        let answer = match heard.method {
            "tools/call" => said(Era::Modern, &created),
            _ => said(Era::Modern, &state.lock().unwrap()),
        };
        async move { Ok(answer) }
    })
}

fn task(status: &str, more: &Value) -> Value {
    let mut task = json!({"resultType": "task", "taskId": "theirs", "status": status, "ttlMs": 60000});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn raw_questions(address: &str) -> Value {
    json!({"inputRequests": {"k": {"method": "elicitation/create", "params": url(address)}}})
}

#[tokio::test]
async fn a_task_asks_only_while_it_waits_and_what_it_asks_is_on_record() {
    let requester = &everybody()[1];
    let end = json!({"result": {"content": [], "inputRequests": {"k": "RAW"}, "requestState": "RAW"}});
    let error =
        json!({"error": {"code": -32042, "message": "m", "data": {"elicitations": [url("https://example.com/")]}}});
    // the task's state, what it says beside its questions, and how often it may say RAW
    for (status, more, puts) in [
        ("working", json!({}), 0),
        ("input_required", json!({}), 1),
        ("completed", end, 0),
        ("failed", error, 1),
        ("cancelled", json!({}), 0),
    ] {
        let mut now = task(status, &raw_questions("https://example.com/"));
        now.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        now["resultType"] = json!("complete");
        let state = Arc::new(Mutex::new(now));
        let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", tasking(task("working", &json!({})), &state))]);
        let created = parse(&shown(harness.engine.call(call(requester, "echo", RequestTerms::default())).await));
        for _ in 0..2 {
            let got = about(&harness, requester, InquirySubject::Task, &json!({"taskId": created["taskId"]})).await;
            assert_eq!(got.matches("RAW").count(), puts, "{status}: {got}");
            assert_eq!(got.matches(MARK).count(), puts, "{status}: {got}");
        }
        *state.lock().unwrap() = task("cancelled", &json!({"resultType": "complete"}));
        about(&harness, requester, InquirySubject::Task, &json!({"taskId": created["taskId"]})).await;
        assert_eq!(harness.last_record().questions.len(), puts, "{status}");
    }
}

#[tokio::test]
async fn a_task_that_asks_when_it_is_made_is_put_and_on_record() {
    let state = Arc::new(Mutex::new(task("working", &json!({}))));
    for (address, is_put) in [("https://example.com/", true), ("javascript:alert(1)", false)] {
        let made = task("input_required", &raw_questions(address));
        let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", tasking(made, &state))]);
        let created = shown(harness.engine.call(call(&everybody()[1], "echo", RequestTerms::default())).await);
        assert_eq!(created.matches("RAW").count(), usize::from(is_put), "{created}");
        assert_eq!(created.contains(MARK), is_put, "{created}");
        let [question] = harness.last_record().questions.try_into().unwrap();
        assert_eq!(question.refused.is_none(), is_put);
    }
}

#[tokio::test]
async fn a_plain_result_asks_nothing() {
    let server = ScriptedServer::new(Era::Modern, &json!({"resources": {}}), |_| async {
        let more = json!({"content": [], "contents": [], "requestState": "RAW"});
        let mut result = raw_questions("javascript:alert(1)");
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Ok(said(Era::Modern, &result))
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server)]);
    for requester in everybody() {
        let told = shown(harness.engine.call(call(&requester, "echo", RequestTerms::default())).await);
        assert!(!told.contains("RAW") && told.contains("\"content\""), "{told}");
        let read = about(&harness, &requester, InquirySubject::Resource, &json!({"uri": "a://b"})).await;
        assert!(!read.contains("RAW") && read.contains("\"contents\""), "{read}");
    }
}

#[tokio::test]
async fn a_request_for_input_says_nothing_beside_its_questions() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async {
        let asked = json!({"k": {"method": "elicitation/create", "params": {"message": "m"}}});
        let result =
            json!({"resultType": "input_required", "inputRequests": asked, "extra": "RAW", "content": ["RAW"]});
        Ok(said(Era::Modern, &result))
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server)]);
    let told = shown(harness.engine.call(call(&everybody()[1], "echo", RequestTerms::default())).await);
    assert!(told.contains(MARK) && !told.contains("RAW"), "{told}");
}

#[tokio::test]
async fn a_task_that_readers_would_read_differently_is_quarantined() {
    for (era, task) in [
        (
            Era::Modern,
            r#"{"resultType":"task","taskId":"t","status":"working","_meta":{"servanda/x":"RAW","\ud800":1}}"#,
        ),
        (Era::Modern, r#"{"resultType":"input_required","inputRequests":{},"_meta":{"servanda/x":"RAW","\udc00":1}}"#),
        (Era::Legacy, r#"{"task":{"taskId":"t","status":"working","_meta":{"servanda/x":"RAW","\ud800":1}}}"#),
    ] {
        let server =
            ScriptedServer::new(era, &json!({}), move |_| async move { Ok(Answer { result: task.into(), era }) });
        let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server)]);
        let mut request = call(&everybody()[usize::from(era == Era::Modern)], "echo", RequestTerms::default());
        request.task = (era == Era::Legacy).then(|| RawValue::from_string("{}".to_owned()).unwrap());
        let told = shown(harness.engine.call(request).await);
        assert!(told.contains("no text") && !told.contains("RAW"), "{told}");
        assert_eq!(harness.outcomes(), ["quarantined"]);
    }
}

#[tokio::test]
async fn only_the_items_of_a_list_are_passed_on() {
    let server = ScriptedServer::new(Era::Legacy, &json!({"prompts": {}, "resources": {}}), |heard| async move {
        let hidden = heard.method == "prompts/list";
        let note = if hidden { "RAW\u{202e}" } else { "fine" };
        let items = json!({"prompts": [{"name": "p"}], "resources": [{"uri": "a://b", "name": "b"}]});
        let mut page = json!({"instructions": "RAW", "ttlMs": "RAW", "cacheScope": "RAW", "_meta": {"note": note}});
        page.as_object_mut().unwrap().extend(items.as_object().unwrap().clone());
        Ok(said(Era::Legacy, &page))
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server)]);
    for (subject, note) in [(InquirySubject::Prompts, false), (InquirySubject::Resources, true)] {
        let page = about(&harness, &everybody()[0], subject, &json!({})).await;
        assert!(!page.contains("RAW"), "{page}");
        assert_eq!(page.contains("fine"), note, "{page}");
        assert!(page.contains("\"name\""), "{page}");
    }
}

#[tokio::test]
async fn names_of_the_gateways_own_are_never_asked_for() {
    let server = ScriptedServer::new(Era::Legacy, &json!({"prompts": {}, "completions": {}}), |heard| async move {
        Ok(said(
            Era::Legacy,
            &if heard.method == "prompts/list" { json!({"prompts": []}) } else { json!({"messages": []}) },
        ))
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    let reference =
        |name: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "a", "value": ""}});
    for name in ["servanda__x", "Servanda__result", "s\u{435}rvanda__x"] {
        about(&harness, &everybody()[0], InquirySubject::Prompt, &json!({"name": name})).await;
        about(&harness, &everybody()[0], InquirySubject::Completion, &reference(name)).await;
    }
    let both = json!({"ref": {"type": "ref/prompt", "uri": "a://b", "name": "servanda__x"}, "argument": {}});
    about(&harness, &everybody()[0], InquirySubject::Completion, &both).await;
    let heard = server.heard().join("\n");
    assert!(!heard.contains("ervanda__") && heard.contains("a://b"), "{heard}");
    about(&harness, &everybody()[0], InquirySubject::Prompt, &json!({"name": "unlisted"})).await;
    assert!(server.heard().join("\n").contains("unlisted"), "an unlisted name goes to the server");
}

/// A legacy server that makes tasks, and asks something whenever it is asked about one.
fn curious(told: &Arc<Mutex<Vec<String>>>) -> Arc<ScriptedServer> {
    let told = Arc::clone(told);
    ScriptedServer::new(Era::Legacy, &json!({"tasks": {}}), move |heard: ScriptedRequest| {
        let told = Arc::clone(&told);
        async move {
            let task = json!({"taskId": "theirs", "status": "working", "ttl": 60000});
            if heard.method == "tools/call" {
                return Ok(said(Era::Legacy, &json!({"task": task})));
            }
            let reply = ask(&heard.delivery, "elicitation/create", &json!({"message": "m"})).await;
            told.lock().unwrap().push(reply.unwrap().unwrap_err().message);
            Ok(said(Era::Legacy, &task))
        }
    })
}

#[tokio::test]
async fn what_a_task_may_not_ask_it_does_not_ask_in_a_list_either_and_it_is_on_record() {
    let told = Arc::default();
    let harness = harness(by_contract(&curious(&told)));
    let requester = &everybody()[0];
    let mut request = call(requester, "write", RequestTerms::default());
    request.task = Some(RawValue::from_string("{}".to_owned()).unwrap());
    let created = parse(&shown(harness.engine.call(request).await));
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    let (terms, mut messages) = listening();
    harness.engine.inquire(inquiry(requester, InquirySubject::Tasks, &json!({}), terms)).await.unwrap();
    assert!(messages.try_recv().is_err(), "the client is not asked");
    let [why] = told.lock().unwrap().clone().try_into().unwrap();
    assert!(why.contains("the tool's contract"), "{why}");
    let note = harness.notebook.read(NoteKind::Task, &id, SystemClock.now()).await.unwrap().unwrap();
    assert_eq!(parse(&note.value)["record"]["questions"][0]["kind"], "form");
}
