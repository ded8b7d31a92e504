//! A modern requester at a legacy server: the call waits while the requester gets the answers.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json, value::RawValue};
use servanda_catalog::names::ExposedNaming;
use servanda_mcp::{Era, RpcError};
use servanda_upstream::{Answer, PerformFailure, ServerMessage};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    CallAnswer, ClientMessage, Gateway as _, RequestTerms, Requester,
    bridge::INPUT_MS_MAX,
    testing::{EngineHarness, ScriptedRequest, ScriptedServer, again, ask, call, listening, parse, requester, text},
};

pub(super) fn input(answer: CallAnswer) -> Value {
    match answer {
        CallAnswer::InputRequired(json) => parse(&json),
        other => panic!("not a question: {other:?}"),
    }
}

pub(super) fn result(answer: CallAnswer) -> Value {
    match answer {
        CallAnswer::Result(result) => parse(&crate::answers::tool_result::with_full_detail(result).json),
        other => panic!("not a result: {other:?}"),
    }
}

pub(super) fn failed(answer: CallAnswer) -> RpcError {
    match answer {
        CallAnswer::Failed(error) => error,
        other => panic!("not an error: {other:?}"),
    }
}

pub(super) fn told(answer: CallAnswer) -> String {
    result(answer)["content"][0]["text"].as_str().unwrap().to_owned()
}

fn modern() -> Requester {
    requester(Era::Modern, &json!({"elicitation": {}, "roots": {}}))
}

/// Asks for a name and greets it; says so if it got none.
async fn greet(heard: ScriptedRequest) -> Result<Answer, PerformFailure> {
    let reply = ask(&heard.delivery, "elicitation/create", &json!({"message": "Who?"})).await;
    let name = match reply {
        Ok(Ok(answer)) => parse(answer.get())["content"]["name"].as_str().unwrap_or("?").to_owned(),
        Ok(Err(_)) | Err(_) => "nobody".to_owned(),
    };
    Ok(text(Era::Legacy, &format!("hello {name}")))
}

fn harness(server: Arc<ScriptedServer>) -> EngineHarness {
    EngineHarness::new(ExposedNaming::Bare, &[("up", server)])
}

fn greeting_harness() -> EngineHarness {
    harness(ScriptedServer::new(Era::Legacy, &json!({}), greet))
}

fn named(name: &str) -> Value {
    json!({"ask-1": {"action": "accept", "content": {"name": name}}})
}

#[tokio::test(start_paused = true)]
async fn a_question_becomes_input_required_and_the_answer_comes_with_the_next_request() {
    let harness = greeting_harness();
    let asked = input(harness.engine.call(call(&modern(), "write", RequestTerms::default())).await);
    assert_eq!(
        asked["inputRequests"],
        json!({"ask-1": {"method": "elicitation/create", "params": {
            "message": "[asked by the tool server `up`] Who?",
            "_meta": {"servanda/asked-by": "up"},
        }}})
    );
    assert_eq!((harness.outcomes().len(), harness.engine.bridge().parked()), (0, 1), "the call is not over");
    let terms = again(&asked["requestState"], &named("Ada"));
    assert_eq!(told(harness.engine.call(call(&modern(), "write", terms)).await), "hello Ada");
    assert_eq!(harness.outcomes(), ["completed"], "one call, one record");
    assert_eq!(harness.engine.bridge().parked(), 0);

    let terms = again(&asked["requestState"], &named("Eve"));
    let error = failed(harness.engine.call(call(&modern(), "write", terms)).await);
    let call_id = harness.last_record().call_id.to_string();
    assert_eq!(error.code, -32602);
    assert!(error.data.unwrap().get().contains(&format!("servanda explain {call_id}")), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn questions_that_come_together_are_told_together_and_answered_one_by_one() {
    let server = ScriptedServer::new(Era::Legacy, &json!({}), |heard| async move {
        let (one, other) = (
            ask(&heard.delivery, "elicitation/create", &json!({"message": "one"})),
            ask(&heard.delivery, "roots/list", &json!({})),
        );
        let (one, other) = (one.await.unwrap().unwrap(), other.await.unwrap().unwrap());
        Ok(text(Era::Legacy, &format!("{one} {other}")))
    });
    let harness = harness(server);
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let keys: Vec<&String> = asked["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ask-1", "ask-2"]);
    let asked = again(&asked["requestState"], &json!({"ask-2": {"roots": []}, "other": 1}));
    let asked = input(harness.engine.call(call(&modern(), "echo", asked)).await);
    let keys: Vec<&String> = asked["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ask-1"], "what is still open is asked again");
    let terms = again(&asked["requestState"], &json!({"ask-1": {"action": "decline"}}));
    let answered = told(harness.engine.call(call(&modern(), "echo", terms)).await);
    assert_eq!(answered, r#"{"action":"decline"} {"roots":[]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_requester_that_stays_away_is_not_waited_for_for_ever() {
    let harness = greeting_harness();
    let asked = input(harness.engine.call(call(&modern(), "write", RequestTerms::default())).await);
    // Time only advances here, so everything else has happened when the sleep ends.
    tokio::time::sleep(Duration::from_millis(INPUT_MS_MAX + 1)).await;
    assert_eq!(harness.outcomes(), ["completed"], "the question was declined and the call ended by itself");
    let terms = again(&asked["requestState"], &named("Ada"));
    assert_eq!(failed(harness.engine.call(call(&modern(), "write", terms)).await).code, -32602);
    assert_eq!(harness.engine.bridge().parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_requester_that_comes_too_late_is_refused_even_if_the_call_goes_on() {
    let (server, mut hears, may_end) = patient();
    let harness = harness(server);
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    hears.recv().await.unwrap();
    let terms = again(&asked["requestState"], &named("Ada"));
    let error = failed(harness.engine.call(call(&modern(), "echo", terms)).await);
    assert!(error.message.contains("is no longer waiting"), "{}", error.message);
    assert!(harness.outcomes().is_empty(), "the call itself goes on");
    may_end.add_permits(1);
    while harness.outcomes().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_while_the_requester_is_away_is_kept_for_it() {
    let server = ScriptedServer::new(Era::Legacy, &json!({}), |heard| async move {
        let reply = ask(&heard.delivery, "elicitation/create", &json!({}));
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(reply);
        Ok(text(Era::Legacy, "went on without"))
    });
    let harness = harness(server);
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(harness.outcomes(), ["completed"]);
    let terms = again(&asked["requestState"], &named("Ada"));
    assert_eq!(told(harness.engine.call(call(&modern(), "echo", terms)).await), "went on without");
    assert_eq!(harness.engine.bridge().parked(), 0);
}

/// A requester that is asked something goes away to get the answer. Whether the server ends meanwhile or waits for the answer, the
/// requester gets all its messages when it comes back.
#[tokio::test(start_paused = true)]
async fn what_is_said_while_the_requester_is_away_is_told_when_it_comes_again() {
    for waits in [true, false] {
        let server = ScriptedServer::new(Era::Legacy, &json!({}), move |heard| async move {
            let say = |count: u8| {
                let progress = RawValue::from_string(format!(r#"{{"progress":{count}}}"#)).unwrap();
                heard.delivery.server_messages.as_ref().unwrap().try_send(ServerMessage::Progress(progress)).unwrap();
            };
            say(1);
            let reply = ask(&heard.delivery, "roots/list", &json!({}));
            tokio::time::sleep(Duration::from_secs(1)).await;
            say(2);
            if waits {
                let _ = reply.await;
            }
            say(3);
            Ok(text(Era::Legacy, "done"))
        });
        let harness = harness(server);
        let (terms, mut first) = listening();
        let asked = input(harness.engine.call(call(&modern(), "echo", terms)).await);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (listens, mut second) = listening();
        let answers = again(&asked["requestState"], &json!({"ask-1": {"roots": []}}));
        let terms = RequestTerms { messages: listens.messages, wants_progress: true, ..answers };
        assert_eq!(told(harness.engine.call(call(&modern(), "echo", terms)).await), "done");
        assert_eq!((heard(&mut first), heard(&mut second)), (vec![1], vec![2, 3]), "waits: {waits}");
    }
}

/// The values of the progress messages, in order.
fn heard(messages: &mut mpsc::Receiver<ClientMessage>) -> Vec<u64> {
    std::iter::from_fn(|| messages.try_recv().ok())
        .map(|message| match message {
            ClientMessage::Progress(params) => parse(params.get())["progress"].as_u64().unwrap(),
            other => panic!("not progress: {other:?}"),
        })
        .collect()
}

/// A server that asks, passes the cancellation token of the call to the test, and answers when the test allows it.
fn patient() -> (Arc<ScriptedServer>, mpsc::Receiver<CancellationToken>, Arc<Semaphore>) {
    let (heard_it, hears) = mpsc::channel(4);
    let may_end = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&may_end);
    let server = ScriptedServer::new(Era::Legacy, &json!({}), move |heard| {
        let (heard_it, gate) = (heard_it.clone(), Arc::clone(&gate));
        async move {
            let _ = ask(&heard.delivery, "elicitation/create", &json!({})).await;
            heard_it.send(heard.delivery.cancel.clone()).await.unwrap();
            let _ = gate.acquire().await.unwrap();
            Ok(text(Era::Legacy, "done"))
        }
    });
    (server, hears, may_end)
}

#[tokio::test(start_paused = true)]
async fn one_requester_waits_at_a_time() {
    let (server, mut hears, may_end) = patient();
    let harness = Arc::new(harness(server));
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let (state, first) = (asked["requestState"].clone(), harness.clone());
    let terms = again(&state, &named("Ada"));
    let waiting = tokio::spawn(async move { first.engine.call(call(&modern(), "echo", terms)).await });
    hears.recv().await.unwrap();
    let error = failed(harness.engine.call(call(&modern(), "echo", again(&state, &named("Eve")))).await);
    assert_eq!(error.code, -32602);
    assert!(error.message.contains("still waiting"), "{}", error.message);
    may_end.add_permits(1);
    assert_eq!(told(waiting.await.unwrap()), "done");
}

#[tokio::test(start_paused = true)]
async fn giving_up_counts_only_while_waiting() {
    let (server, mut hears, may_end) = patient();
    let harness = Arc::new(harness(server));
    let first = CancellationToken::new();
    let terms = RequestTerms { cancel: first.clone(), ..RequestTerms::default() };
    let asked = input(harness.engine.call(call(&modern(), "echo", terms)).await);
    // A door cancels a request that it has answered; by then the call no longer depends on that request.
    first.cancel();
    let second = CancellationToken::new();
    let terms = RequestTerms { cancel: second.clone(), ..again(&asked["requestState"], &named("Ada")) };
    let waiter = harness.clone();
    let waiting = tokio::spawn(async move { waiter.engine.call(call(&modern(), "echo", terms)).await });
    let at_the_server = hears.recv().await.unwrap();
    assert!(!at_the_server.is_cancelled());
    second.cancel();
    at_the_server.cancelled().await;
    may_end.add_permits(1);
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_state_is_for_its_own_principal_and_its_own_request() {
    let harness = greeting_harness();
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let state = &asked["requestState"];
    let mut other = modern();
    Arc::make_mut(&mut other.caller).principal = "other".to_owned();
    let mut longer = call(&modern(), "echo", again(state, &named("Ada")));
    longer.arguments = bytes::Bytes::from_static(br#"{"text":"other"}"#);
    let tampered = json!(format!("{}x", state.as_str().unwrap()));
    let refused = [
        harness.engine.call(call(&other, "echo", again(state, &named("Ada")))).await,
        harness.engine.call(longer).await,
        harness.engine.call(call(&modern(), "write", again(state, &named("Ada")))).await,
        harness.engine.call(call(&modern(), "echo", again(&tampered, &named("Ada")))).await,
    ];
    for answer in refused {
        assert_eq!(failed(answer).code, -32602);
    }
    assert_eq!(harness.outcomes(), ["refused"; 4], "a call that is turned away is on record like any other");
    let terms = again(state, &named("Ada"));
    assert_eq!(told(harness.engine.call(call(&modern(), "echo", terms)).await), "hello Ada", "none of it did any harm");
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_over_a_restart() {
    let before = greeting_harness();
    let asked = input(before.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let server = ScriptedServer::new(Era::Legacy, &json!({}), greet);
    let after = EngineHarness::with_notebook(ExposedNaming::Bare, &[("up", server)], before.notebook.clone());
    let terms = again(&asked["requestState"], &named("Ada"));
    let error = failed(after.engine.call(call(&modern(), "echo", terms)).await);
    assert_eq!(error.code, -32602);
    assert!(error.data.unwrap().get().contains("servanda explain call_"), "the key was kept, the call was not");
}

#[tokio::test(start_paused = true)]
async fn malformed_answers_leave_the_call_waiting() {
    let harness = greeting_harness();
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let terms = again(&asked["requestState"], &json!([1]));
    assert_eq!(failed(harness.engine.call(call(&modern(), "echo", terms)).await).code, -32602);
    let terms = again(&asked["requestState"], &Value::Null);
    let asked = input(harness.engine.call(call(&modern(), "echo", terms)).await);
    let terms = again(&asked["requestState"], &named("Ada"));
    assert_eq!(told(harness.engine.call(call(&modern(), "echo", terms)).await), "hello Ada");
}

#[tokio::test(start_paused = true)]
async fn without_a_place_to_wait_questions_are_declined() {
    let harness = greeting_harness();
    let mut parked = 0;
    let answer = loop {
        match harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await {
            CallAnswer::InputRequired(_) => parked += 1,
            other => break other,
        }
        assert!(parked < 10_000, "there is no bound");
    };
    assert_eq!(told(answer), "hello nobody");
    assert_eq!(harness.engine.bridge().parked(), parked);
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_declared_capability_is_never_asked() {
    let harness = greeting_harness();
    for capabilities in [json!({}), json!({"roots": {}})] {
        let requester = requester(Era::Modern, &capabilities);
        let (terms, _messages) = crate::testing::listening();
        assert_eq!(told(harness.engine.call(call(&requester, "echo", terms)).await), "hello nobody");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_engine_ends_what_waits_is_ended_and_recorded() {
    let harness = greeting_harness();
    input(harness.engine.call(call(&modern(), "write", RequestTerms::default())).await);
    harness.engine.drain(Duration::from_secs(1)).await;
    assert_eq!(harness.outcomes(), ["completed"]);
}
