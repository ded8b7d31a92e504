//! Modern servers, which ask by their answers: to modern requesters it is passed on, legacy ones are asked on the way.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::refusal::EffectKnowledge;
use servanda_mcp::{Era, RpcError};
use servanda_upstream::{Answer, PerformFailure, ServerMessage};
use tokio::sync::mpsc;

use super::conversations::{failed, input, result, told};
use crate::{
    CallAnswer, ClientMessage, Gateway as _, InquirySubject, RequestTerms, Requester,
    questions::QUESTIONS_MAX,
    testing::{
        EngineHarness, ScriptedRequest, ScriptedServer, again, ask, call, inquiry, listening, parse, requester, said,
        text,
    },
};

/// Spaced as nobody else would, so that it is seen when it is not passed on as it is.
const REQUESTS: &str = r#"{"who" : {"method":"elicitation/create","params":{ "message":"Who?","n":1.0 }}}"#;

/// Asks twice, then says what it was told.
fn asks_twice(heard: &ScriptedRequest) -> Answer {
    let continuation = &heard.delivery.continuation;
    let state = continuation.request_state.as_deref();
    match (&continuation.input_responses, state) {
        (None, None) => {
            let text = format!(r#"{{"resultType":"input_required","inputRequests":{REQUESTS},"requestState":"one"}}"#);
            Answer { result: Bytes::from(text), era: Era::Modern }
        }
        (Some(_), Some("one")) => {
            let text = format!(r#"{{"resultType":"input_required","inputRequests":{REQUESTS},"requestState":"two"}}"#);
            Answer { result: Bytes::from(text), era: Era::Modern }
        }
        (responses, state) => text(Era::Modern, &format!("{responses:?} {state:?}")),
    }
}

fn server(answer: impl Fn(&ScriptedRequest) -> Answer + Send + Sync + 'static) -> Arc<ScriptedServer> {
    let answer = Arc::new(answer);
    ScriptedServer::new(Era::Modern, &json!({}), move |heard| {
        let answered = answer(&heard);
        async move { Ok(answered) }
    })
}

fn harness(server: &Arc<ScriptedServer>) -> EngineHarness {
    EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())])
}

fn modern() -> Requester {
    requester(Era::Modern, &json!({"elicitation": {}}))
}

fn legacy() -> Requester {
    requester(Era::Legacy, &json!({"elicitation": {}, "sampling": {}}))
}

fn named(name: &str) -> Value {
    json!({"who": {"action": "accept", "content": {"name": name}}})
}

#[tokio::test]
async fn modern_to_modern_everything_passes_and_every_round_is_a_call() {
    let server = server(asks_twice);
    let harness = harness(&server);
    let CallAnswer::InputRequired(json) = harness.engine.call(call(&modern(), "write", RequestTerms::default())).await
    else {
        panic!("no question");
    };
    let (mut asked, mut expected) = (parse(&json)["inputRequests"].clone(), parse(REQUESTS));
    for question in expected.as_object_mut().unwrap().values_mut() {
        let message = format!("[asked by the tool server `up`] {}", question["params"]["message"].as_str().unwrap());
        question["params"]["message"] = Value::String(message);
        question["params"]["_meta"] = json!({"servanda/asked-by": "up"});
    }
    assert_eq!(asked.take(), expected);
    assert!(!json.contains("resultType") && !json.contains("\"one\""), "{json}");
    let mut state = parse(&json)["requestState"].clone();
    let second = input(harness.engine.call(call(&modern(), "write", again(&state, &named("Ada")))).await);
    assert_ne!(second["requestState"], state);
    state = second["requestState"].clone();
    result(harness.engine.call(call(&modern(), "write", again(&state, &named("Bob")))).await);
    let heard: Vec<Value> =
        server.heard().iter().map(|line| parse(line.strip_prefix("tools/call ").unwrap())).collect();
    let rounds: Vec<_> = heard.iter().map(|params| (&params["requestState"], &params["inputResponses"])).collect();
    let (none, one, two) = (Value::Null, json!("one"), json!("two"));
    assert_eq!(rounds, [(&none, &none), (&one, &named("Ada")), (&two, &named("Bob"))]);
    assert_eq!(harness.outcomes(), ["input_required", "input_required", "completed"]);
    let records = harness.records.finished.lock().unwrap().clone();
    let first = Some(records[0].call_id.clone());
    assert_eq!((&records[0].continues, &records[1].continues, &records[2].continues), (&None, &first, &first));
    assert!(records[0].class.is_none() && records[0].refusal.is_none() && records[0].answer_digest.is_some());
}

#[tokio::test]
async fn modern_to_modern_a_server_without_state_gets_none() {
    let server = server(|heard| match &heard.delivery.continuation.input_responses {
        None => said(Era::Modern, &json!({"resultType": "input_required", "inputRequests": parse(REQUESTS)})),
        Some(_) => text(Era::Modern, "thanks"),
    });
    let harness = harness(&server);
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    assert!(asked["requestState"].is_string(), "ours is there all the same");
    let terms = again(&asked["requestState"], &named("Ada"));
    assert_eq!(told(harness.engine.call(call(&modern(), "echo", terms)).await), "thanks");
    assert!(!server.heard()[1].contains("requestState"), "{}", server.heard()[1]);
    // Answers to what nobody asked are the server's to ignore.
    let terms = again(&Value::Null, &named("Ada"));
    assert_eq!(told(harness.engine.call(call(&modern(), "echo", terms)).await), "thanks");
}

#[tokio::test]
async fn modern_to_modern_a_tool_that_changes_something_is_told_only_what_it_asked() {
    let server = server(asks_twice);
    let harness = harness(&server);
    input(harness.engine.call(call(&modern(), "write", again(&Value::Null, &named("Ada")))).await);
    assert!(!server.heard()[0].contains("inputResponses"), "{}", server.heard()[0]);
}

#[tokio::test]
async fn modern_to_modern_what_a_state_stands_for_happens_once_unless_it_is_a_read() {
    let server = server(asks_twice);
    let harness = harness(&server);
    for (tool, twice) in [("write", false), ("echo", true)] {
        let asked = input(harness.engine.call(call(&modern(), tool, RequestTerms::default())).await);
        let terms = || again(&asked["requestState"], &named("Ada"));
        input(harness.engine.call(call(&modern(), tool, terms())).await);
        let (first_use, heard) = (harness.last_record().call_id.to_string(), server.heard().len());
        let repeated = harness.engine.call(call(&modern(), tool, terms())).await;
        assert_eq!(server.heard().len() > heard, twice, "{tool}");
        if !twice {
            let error = failed(repeated);
            assert!(error.code == -32602 && error.message.contains(&first_use), "{error:?}");
            assert_eq!(harness.last_word(), ("refused", Some(EffectKnowledge::None), false));
        }
    }
}

#[tokio::test]
async fn modern_to_modern_a_state_on_whose_behalf_nothing_was_sent_is_good_again() {
    let down = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_down = down.clone();
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| {
        let unavailable = || PerformFailure::Unavailable { why: "it is down".to_owned() };
        let answer = if is_down.load(Ordering::SeqCst) { Err(unavailable()) } else { Ok(asks_twice(&heard)) };
        async move { answer }
    });
    let harness = harness(&server);
    let asked = input(harness.engine.call(call(&modern(), "write", RequestTerms::default())).await);
    let terms = || again(&asked["requestState"], &named("Ada"));
    down.store(true, Ordering::SeqCst);
    result(harness.engine.call(call(&modern(), "write", terms())).await);
    assert_eq!(harness.last_record().outcome.name(), "not_executed");
    down.store(false, Ordering::SeqCst);
    input(harness.engine.call(call(&modern(), "write", terms())).await);
    failed(harness.engine.call(call(&modern(), "write", terms())).await);
}

#[tokio::test]
async fn what_is_not_strict_json_beside_the_arguments_reaches_no_server() {
    let server = server(asks_twice);
    let harness = harness(&server);
    let deep = format!("{}{}", "[".repeat(3_000), "]".repeat(3_000));
    for text in [deep.as_str(), r#"{"k":1,"k":2}"#, r#"{"k":"\ud800"}"#, r#"{"k":1e999999}"#] {
        let raw = || RawValue::from_string(text.to_owned()).unwrap();
        let answers = || RequestTerms { input_responses: Some(raw()), ..RequestTerms::default() };
        let meta = || RequestTerms { meta: vec![("a/b".to_owned(), raw())], ..RequestTerms::default() };
        for (requester, terms) in [(modern(), answers()), (modern(), meta()), (legacy(), meta())] {
            assert_eq!(failed(harness.engine.call(call(&requester, "echo", terms)).await).code, -32602, "{text}");
            assert_eq!(harness.last_word(), ("refused", Some(EffectKnowledge::None), false));
        }
        for terms in [answers(), meta()] {
            let inquiry = inquiry(&modern(), InquirySubject::Prompt, &json!({"name": "greet"}), terms);
            assert_eq!(harness.engine.inquire(inquiry).await.unwrap_err().code, -32602, "{text}");
        }
        let mut inquiry =
            inquiry(&modern(), InquirySubject::Prompt, &json!({"name": "greet"}), RequestTerms::default());
        inquiry.params.push(("arguments".to_owned(), raw()));
        assert!(harness.engine.inquire(inquiry).await.unwrap_err().message.starts_with("`params` cannot"), "{text}");
    }
    assert!(server.heard().is_empty(), "{:?}", server.heard());
}

#[tokio::test]
async fn more_questions_than_anybody_answers_reach_nobody() {
    for (count, passes) in [(QUESTIONS_MAX, true), (QUESTIONS_MAX + 1, false)] {
        let question = parse(REQUESTS)["who"].clone();
        let requests: serde_json::Map<_, _> = (0..count).map(|n| (n.to_string(), question.clone())).collect();
        let server =
            server(move |_| said(Era::Modern, &json!({"resultType": "input_required", "inputRequests": requests})));
        match harness(&server).engine.call(call(&modern(), "echo", RequestTerms::default())).await {
            CallAnswer::InputRequired(_) => assert!(passes),
            CallAnswer::Result(refused) => {
                assert!(!passes && refused.json.contains("asked more than 64 things"), "{refused:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn modern_to_modern_a_state_that_was_changed_is_refused_before_the_server_hears_of_it() {
    let server = server(asks_twice);
    let harness = harness(&server);
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let tampered = json!(format!("{}-TAMPERED", asked["requestState"].as_str().unwrap()));
    let error = failed(harness.engine.call(call(&modern(), "echo", again(&tampered, &named("Ada")))).await);
    assert_eq!((error.code, server.heard().len()), (-32602, 1));
    let record = harness.last_record();
    assert_eq!(record.outcome.name(), "refused");
    assert!(record.refusal.unwrap().message.contains("requestState"));
}

#[tokio::test]
async fn modern_to_modern_the_gates_judge_every_round() {
    let server = server(asks_twice);
    let harness = harness(&server);
    let mut bad = call(&modern(), "echo", RequestTerms::default());
    bad.arguments = Bytes::from_static(br#"{"text":7}"#);
    assert_eq!(result(harness.engine.call(bad).await)["isError"], true);
    let asked = input(harness.engine.call(call(&modern(), "echo", RequestTerms::default())).await);
    let terms = again(&asked["requestState"], &named("Ada"));
    input(harness.engine.call(call(&modern(), "echo", terms)).await);
    let verdicts: Vec<usize> =
        harness.records.finished.lock().unwrap().iter().map(|record| record.verdicts.len()).collect();
    assert!(verdicts[2] > verdicts[0] && verdicts[1] == verdicts[2], "{verdicts:?}");
}

#[tokio::test]
async fn modern_to_modern_what_the_requester_never_declared_is_an_error_of_the_protocol() {
    let server = server(asks_twice);
    let harness = harness(&server);
    for capabilities in [json!({}), json!({"sampling": {}})] {
        let requester = requester(Era::Modern, &capabilities);
        let error = failed(harness.engine.call(call(&requester, "echo", RequestTerms::default())).await);
        assert_eq!(error.code, -32021);
        assert_eq!(error.data.unwrap().get(), r#"{"requiredCapabilities":{"elicitation":{}}}"#);
    }
    assert_eq!(harness.outcomes(), ["input_required"; 2]);
    assert!(harness.last_record().refusal.is_some());
    failed(harness.engine.call(call(&requester(Era::Modern, &json!({})), "write", RequestTerms::default())).await);
    assert_eq!(harness.last_word(), ("unknown", Some(EffectKnowledge::Unknown), true));
}

#[tokio::test]
async fn a_request_for_input_that_says_nothing_is_kept_back() {
    let server = server(|_| said(Era::Modern, &json!({"resultType": "input_required"})));
    let harness = harness(&server);
    for requester in [modern(), legacy()] {
        assert_eq!(
            result(harness.engine.call(call(&requester, "echo", RequestTerms::default())).await)["isError"],
            true
        );
        assert_eq!(harness.last_record().outcome.name(), "quarantined");
    }
}

/// Answers every question of a server, as a legacy requester's client would.
fn answering(
    mut messages: mpsc::Receiver<ClientMessage>,
    reply: impl Fn(&str, Value) -> Result<Value, RpcError> + Send + 'static,
) {
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            if let ClientMessage::Ask(ask) = message {
                let params = ask.question.params().map_or(Value::Null, |raw| parse(raw.get()));
                let reply =
                    reply(ask.question.method(), params).map(|value| serde_json::value::to_raw_value(&value).unwrap());
                let _ = ask.reply.send(reply);
            }
        }
    });
}

#[tokio::test]
async fn legacy_to_modern_the_requester_is_asked_and_the_request_made_again() {
    let server = server(asks_twice);
    let harness = harness(&server);
    let (terms, messages) = listening();
    answering(messages, |method, params| Ok(json!({"method": method, "asked": params["message"]})));
    let answered = told(harness.engine.call(call(&legacy(), "write", terms)).await);
    assert!(answered.contains("two"), "{answered}");
    let heard = parse(server.heard()[2].strip_prefix("tools/call ").unwrap());
    assert_eq!(
        heard["inputResponses"],
        json!({"who": {"method": "elicitation/create", "asked": "[asked by the tool server `up`] Who?"}})
    );
    assert_eq!(heard["arguments"], json!({"text": "hello"}));
    assert_eq!(harness.outcomes(), ["completed"], "the guest made one call");
}

#[tokio::test]
async fn legacy_to_modern_a_requester_that_refuses_ends_the_call_in_words() {
    let server = server(asks_twice);
    let harness = harness(&server);
    let (terms, messages) = listening();
    answering(messages, |_, _| Err(RpcError::new(-1, "User rejected")));
    let answered = result(harness.engine.call(call(&legacy(), "write", terms)).await);
    assert_eq!(answered["isError"], true);
    let refusal = parse(answered["content"][0]["text"].as_str().unwrap());
    assert!(refusal["message"].as_str().unwrap().contains("elicitation/create"), "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("User rejected"), "{refusal}");
    // Whoever asks may have begun: of a tool that changes something that is not known, and not forgotten.
    assert_eq!((harness.last_word(), server.heard().len()), (("unknown", Some(EffectKnowledge::Unknown), true), 1));
    assert_eq!((&refusal["effect"], &refusal["retryable"]), (&json!("unknown"), &json!(false)), "{refusal}");
    let (terms, messages) = listening();
    answering(messages, |_, _| Err(RpcError::new(-1, "User rejected")));
    result(harness.engine.call(call(&legacy(), "echo", terms)).await);
    assert_eq!(harness.last_word(), ("input_required", Some(EffectKnowledge::None), false));
    // A requester that cannot be asked at all is not waited for.
    let answered = result(harness.engine.call(call(&legacy(), "write", RequestTerms::default())).await);
    assert_eq!(answered["isError"], true);
}

#[tokio::test]
async fn legacy_to_modern_a_server_that_is_gone_after_it_asked_may_have_done_something() {
    let failures: [fn() -> PerformFailure; 3] = [
        || PerformFailure::Unavailable { why: "it does not start again".to_owned() },
        || PerformFailure::Busy { in_flight_max: 1 },
        || PerformFailure::Cancelled { sent: false },
    ];
    for failure in failures {
        for (tool, expected) in [
            ("write", ("unknown", Some(EffectKnowledge::Unknown), true)),
            ("echo", ("tool_error", Some(EffectKnowledge::None), false)),
        ] {
            let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| async move {
                let first = heard.delivery.continuation.input_responses.is_none();
                if first { Ok(asks_twice(&heard)) } else { Err(failure()) }
            });
            let harness = harness(&server);
            let (terms, messages) = listening();
            answering(messages, |_, _| Ok(json!({})));
            let answered = result(harness.engine.call(call(&legacy(), tool, terms)).await);
            assert_eq!(harness.last_word(), expected, "{tool} {}", failure());
            let refusal = parse(answered["content"][0]["text"].as_str().unwrap());
            if tool == "write" {
                assert_eq!(refusal["retryable"], false, "{refusal}");
                assert!(!refusal.to_string().contains("nothing was sent"), "{refusal}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn legacy_to_modern_the_servers_time_stands_still_while_the_requester_thinks() {
    let began = tokio::time::Instant::now();
    let deadlines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = deadlines.clone();
    let server = server(move |heard| {
        seen.lock().unwrap().push(heard.delivery.deadline - began);
        asks_twice(heard)
    });
    let harness = harness(&server);
    let (terms, mut messages) = listening();
    let thinking = tokio::spawn(async move {
        while let Some(ClientMessage::Ask(ask)) = messages.recv().await {
            tokio::time::sleep(std::time::Duration::from_mins(1)).await;
            ask.reply.send(Ok(serde_json::value::to_raw_value(&json!({})).unwrap())).unwrap();
        }
    });
    told(harness.engine.call(call(&legacy(), "echo", terms)).await);
    thinking.await.unwrap();
    let seconds: Vec<u64> = deadlines.lock().unwrap().iter().map(std::time::Duration::as_secs).collect();
    assert_eq!(seconds, [5, 65, 125], "the contract allows five seconds of the server's own");
}

#[tokio::test(start_paused = true)]
async fn legacy_to_modern_a_requester_that_goes_away_ends_it_too() {
    let server = server(asks_twice);
    let harness = harness(&server);
    let (terms, mut messages) = listening();
    let cancel = terms.cancel.clone();
    let gone = tokio::spawn(async move {
        let question = messages.recv().await;
        cancel.cancel();
        (question, messages)
    });
    let answered = result(harness.engine.call(call(&legacy(), "echo", terms)).await);
    assert!(answered["content"][0]["text"].as_str().unwrap().contains("went away"));
    drop(gone.await.unwrap());
}

#[tokio::test]
async fn legacy_to_legacy_questions_and_progress_pass() {
    let server = ScriptedServer::new(Era::Legacy, &json!({}), |heard| async move {
        let progress = serde_json::value::to_raw_value(&json!({"progress": 1})).unwrap();
        heard.delivery.server_messages.as_ref().unwrap().try_send(ServerMessage::Progress(progress)).unwrap();
        let reply = ask(&heard.delivery, "sampling/createMessage", &json!({"messages": []})).await.unwrap().unwrap();
        Ok(text(Era::Legacy, reply.get()))
    });
    let harness = harness(&server);
    let (terms, mut messages) = listening();
    let calling = harness.engine.call(call(&legacy(), "echo", terms));
    let client = async {
        let Some(ClientMessage::Progress(progress)) = messages.recv().await else { panic!("no progress") };
        let Some(ClientMessage::Ask(ask)) = messages.recv().await else { panic!("no question") };
        ask.reply.send(Ok(serde_json::value::to_raw_value(ask.question.method()).unwrap())).unwrap();
        progress.get().to_owned()
    };
    let (answered, progress) = tokio::join!(calling, client);
    assert_eq!((told(answered).as_str(), progress.as_str()), (r#""sampling/createMessage""#, r#"{"progress":1}"#));
}

#[tokio::test]
async fn errors_of_the_protocol_pass_as_they_are_and_others_stay_readable() {
    let (old, new) = (legacy(), modern());
    let codes = [
        (&new, -32021, true),
        (&new, -32020, true),
        (&new, -32022, true),
        (&new, -32042, false),
        (&new, -32603, false),
        (&old, -32021, true),
        (&old, -32042, true),
        (&old, -32603, false),
    ];
    for (requester, code, passes) in codes {
        let server = ScriptedServer::new(Era::Modern, &json!({}), move |_| async move {
            let data = serde_json::value::to_raw_value(&json!({"requiredCapabilities": {}})).unwrap();
            Err(PerformFailure::Rejected { code, message: "theirs".to_owned(), data: Some(data), era: Era::Modern })
        });
        let harness = harness(&server);
        if passes {
            failed(harness.engine.call(call(requester, "echo", RequestTerms::default())).await);
            assert_eq!(harness.last_word(), ("not_executed", Some(EffectKnowledge::None), false), "{code}");
        }
        let answered = harness.engine.call(call(requester, "write", RequestTerms::default())).await;
        // It passes as it is, and proves nothing: the server may have done it first.
        assert_eq!(harness.last_word(), ("unknown", Some(EffectKnowledge::Unknown), true), "{code}");
        match answered {
            CallAnswer::Failed(error) => {
                assert!(passes, "{code}");
                assert_eq!((error.code, error.message.as_str()), (code, "theirs"));
                assert_eq!(error.data.unwrap().get(), r#"{"requiredCapabilities":{}}"#);
            }
            CallAnswer::Result(refused) => {
                assert!(!passes, "{code}");
                let refused = parse(&crate::answers::tool_result::with_full_detail(refused).json);
                let theirs = &refused["_meta"]["servanda/upstream-error"];
                assert_eq!(*theirs, json!({"code": code, "message": "theirs", "data": {"requiredCapabilities": {}}}));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn annotated_arguments_go_into_headers() {
    let server = server(|_| text(Era::Modern, "ok"));
    harness(&server).engine.call(call(&modern(), "echo", RequestTerms::default())).await;
    let heard = parse(server.heard()[0].strip_prefix("tools/call ").unwrap());
    assert_eq!(heard["headers"], json!([["Text", "hello"]]));
}
