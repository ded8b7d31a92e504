//! Questions of legacy servers: which client is asked, what the server is told, and how long that may take.

use servanda_mcp::RpcError;
use tokio_util::sync::CancellationToken;

use super::*;

const CAPABILITIES: &str = r#"{"roots":{},"sampling":{},"elicitation":{}}"#;

fn question(id: impl Into<Value>) -> Value {
    json!({"id": id.into(), "method": "elicitation/create", "params": {"message": "name?"}})
}

/// What the server was told, as the answer of the call that asked.
async fn asked(upstream: &Upstream, question: &Value, options: RequestOptions) -> Value {
    json_text(call_json(upstream, "ask", question, options).await)
}

/// A server with room for one connection of a kind, so that all requests of a client use it.
fn crowded() -> Upstream {
    Upstream::new(stdio_spec(&["legacy"], UpstreamLimits { connections_max: 1, ..limits() }), notebook())
}

/// Makes a call that asks a question, and answers the question.
async fn asked_and_answered(upstream: &Upstream, client: &UpstreamRequester) {
    let (options, mut server_messages) = heard_options(client);
    let question = question("mine");
    let answering = async { next_ask(&mut server_messages).await.reply.send(Ok(raw("{}"))).unwrap() };
    let (told, ()) = tokio::join!(asked(upstream, &question, options), answering);
    assert_eq!(told["result"], json!({}));
}

#[tokio::test]
async fn a_question_is_answered_under_the_servers_own_id() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let client = requester("a", CAPABILITIES);
        for id in [json!("q-1"), json!(7), json!(-3)] {
            let (options, mut server_messages) = heard_options(&client);
            let question = question(id.clone());
            let answering = async {
                let ask = next_ask(&mut server_messages).await;
                assert_eq!(ask.method, "elicitation/create");
                let params: Value = serde_json::from_str(ask.params.unwrap().get()).unwrap();
                assert_eq!(params, json!({"message": "name?"}));
                ask.reply.send(Ok(raw("{\"action\":\r\n\"accept\",\"content\":{\"n\":1.0}}"))).unwrap();
            };
            let (told, ()) = tokio::join!(asked(&upstream, &question, options), answering);
            let result = json!({"action": "accept", "content": {"n": 1.0}});
            assert_eq!(told, json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_refusal_and_silence_are_told_as_errors() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let client = requester("a", CAPABILITIES);
        for refused in [true, false] {
            let (options, mut server_messages) = heard_options(&client);
            let question = question("q");
            let answering = async {
                let ask = next_ask(&mut server_messages).await;
                if refused {
                    ask.reply.send(Err(RpcError::new(-1, "the user rejected it"))).unwrap();
                }
            };
            let (told, ()) = tokio::join!(asked(&upstream, &question, options), answering);
            let expected = if refused { (-1, "the user rejected it") } else { (-32603, "the client was not asked or") };
            assert_eq!(told["error"]["code"], expected.0);
            assert!(told["error"]["message"].as_str().unwrap().starts_with(expected.1), "{told}");
        }
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn only_what_the_client_declared_is_asked() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let able = requester("a", r#"{"elicitation":{"form":{}},"roots":{}}"#);
        let table = [
            (json!({"id": 1, "method": "sampling/createMessage", "params": {}}), &able),
            (json!({"id": 2, "method": "elicitation/create", "params": {"mode": "url"}}), &able),
            (json!({"id": 3, "method": "tools/list"}), &able),
            (json!({"id": 4, "method": "roots/list"}), &UpstreamRequester::gateway()),
        ];
        for (question, client) in table {
            let (options, mut server_messages) = heard_options(client);
            let told = asked(&upstream, &question, options).await;
            assert_eq!(told["error"]["code"], -32601, "{told}");
            assert!(server_messages.try_recv().is_err(), "{question}");
        }
        let ping = json!({"id": "p", "method": "ping"});
        let told = asked(&upstream, &ping, options_for(&able)).await;
        assert_eq!(told, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_that_takes_no_questions_declines_them() {
    let upstream = stdio("legacy");
    let client = requester("a", CAPABILITIES);
    let deaf = options_for(&client);
    let told = asked(&upstream, &question(1), deaf).await;
    assert!(told["error"]["message"].as_str().unwrap().contains("takes nothing outside"), "{told}");

    let (sink, _full) = mpsc::channel(1);
    sink.try_send(ServerMessage::LogMessage(raw("{}"))).unwrap();
    let full = RequestOptions { server_messages: Some(sink), ..options_for(&client) };
    let told = asked(&upstream, &question(1), full).await;
    assert!(told["error"]["message"].as_str().unwrap().contains("does not take questions now"), "{told}");
}

#[tokio::test]
async fn a_question_of_an_unknown_request_goes_to_the_client_and_to_no_request() {
    let upstream = crowded();
    let client = requester("a", CAPABILITIES);
    let cancel = CancellationToken::new();
    let (other, mut other_server_messages) = heard_options(&client);
    let (asking, mut asking_server_messages) = heard_options(&client);
    let hanging = call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..other });
    let asking = async {
        let told = asked(&upstream, &question(1), asking).await;
        assert!(told["error"]["message"].as_str().unwrap().contains("not clear which request"), "{told}");

        let (sink, mut attached) = mpsc::channel(8);
        upstream.attach("a", Arc::new(sink));
        let (asking, _kept) = heard_options(&client);
        let question = question(2);
        let answering = async { next_ask(&mut attached).await.reply.send(Ok(raw("{}"))).unwrap() };
        let (told, ()) = tokio::join!(asked(&upstream, &question, asking), answering);
        assert_eq!(told["result"], json!({}));
        cancel.cancel();
    };
    tokio::join!(hanging, asking);
    assert!(other_server_messages.try_recv().is_err() && asking_server_messages.try_recv().is_err());
}

#[tokio::test]
async fn requests_without_a_listener_are_candidates_too() {
    let upstream = crowded();
    let client = requester("a", CAPABILITIES);
    let cancel = CancellationToken::new();
    let hanging = call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..options_for(&client) });
    let asking = async {
        let (options, mut server_messages) = heard_options(&client);
        let told = asked(&upstream, &question(1), options).await;
        assert!(told["error"]["message"].as_str().unwrap().contains("not clear which request"), "{told}");
        assert!(server_messages.try_recv().is_err());
        cancel.cancel();
    };
    tokio::join!(hanging, asking);
}

#[tokio::test]
async fn clients_without_a_session_who_call_at_once_are_each_asked_their_own() {
    let upstream = stdio("legacy");
    let client = requester("shared", CAPABILITIES);
    echoes(&upstream).await;
    let cancel = CancellationToken::new();
    let (other, mut other_server_messages) = heard_options(&client);
    let hanging = call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..other });
    let asking = async {
        asked_and_answered(&upstream, &client).await;
        cancel.cancel();
    };
    tokio::join!(hanging, asking);
    assert!(other_server_messages.try_recv().is_err());
}

#[tokio::test]
async fn calls_one_after_the_other_or_of_one_session_share_a_connection() {
    let upstream = stdio("legacy");
    let client = requester("a", CAPABILITIES);
    let pid = async || text(call_with(&upstream, "pid", "{}", options_for(&client)).await);
    let first = pid().await;
    assert_eq!(pid().await, first);
    let (sink, _attached) = mpsc::channel(8);
    upstream.attach("a", Arc::new(sink));
    let cancel = CancellationToken::new();
    let hanging = call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..options_for(&client) });
    let calling = async {
        assert_eq!(pid().await, first);
        cancel.cancel();
    };
    tokio::join!(hanging, calling);
}

#[tokio::test]
async fn a_question_about_an_abandoned_request_goes_to_no_other_client() {
    let upstream = stdio("legacy");
    let client = requester("shared", CAPABILITIES);
    let pid = async || text(call_with(&upstream, "pid", "{}", options_for(&client)).await);
    let first = pid().await;
    let impatient = RequestOptions { requester: client.clone(), ..options(IMPATIENCE) };
    let given_up = failure(call_with(&upstream, "hang", "{}", impatient).await);
    assert!(matches!(given_up, PerformFailure::TimedOut { .. }), "{given_up}");
    assert_eq!(pid().await, first, "a server that never asked keeps its connection");

    let (options, mut server_messages) = heard_options(&client);
    let told = asked(&upstream, &question("whose"), options).await;
    assert!(told["error"]["message"].as_str().unwrap().contains("not clear which request"), "{told}");
    assert!(server_messages.try_recv().is_err(), "the question may belong to the abandoned request");

    // The server is now known to ask, so the next request gets a connection without abandoned requests.
    assert_ne!(pid().await, first);
    asked_and_answered(&upstream, &client).await;
}

#[tokio::test]
async fn an_abandoned_request_that_is_answered_after_all_is_no_candidate_any_more() {
    let upstream = crowded();
    let client = requester("shared", CAPABILITIES);
    assert_eq!(text(call_with(&upstream, "echo", "{}", options_for(&client)).await), "{}");
    let impatient = RequestOptions { requester: client.clone(), ..options(IMPATIENCE) };
    failure(call_with(&upstream, "until-cancelled", "{}", impatient).await);
    assert_eq!(text(call_with(&upstream, "echo", "{}", options_for(&client)).await), "{}");
    asked_and_answered(&upstream, &client).await;
}

#[tokio::test]
async fn over_http_every_request_has_its_own_questions() {
    let server = serve("legacy").await;
    let upstream = client(&server.url);
    let client = requester("a", CAPABILITIES);
    let ask = async |number: i64| {
        let (options, mut server_messages) = heard_options(&client);
        let question = json!({"id": number, "method": "elicitation/create", "params": {"message": number}});
        let answering = async {
            let ask = next_ask(&mut server_messages).await;
            let params: Value = serde_json::from_str(ask.params.unwrap().get()).unwrap();
            assert_eq!(params["message"], number);
            ask.reply.send(Ok(raw(&format!(r#"{{"n":{number}}}"#)))).unwrap();
        };
        let (told, ()) = tokio::join!(asked(&upstream, &question, options), answering);
        assert_eq!(told["result"], json!({"n": number}));
    };
    futures_util::future::join_all((1..=8).map(ask)).await;
}

#[tokio::test]
async fn a_question_on_the_standing_stream_is_treated_as_on_standard_streams() {
    let server = serve("legacy,stream,quiet").await;
    let upstream = client(&server.url);
    let client = requester("a", CAPABILITIES);
    let ask = async |id: i64, listener: &mut mpsc::Receiver<ServerMessage>, options: RequestOptions| {
        let question = question(id);
        let answering = async { next_ask(listener).await.reply.send(Ok(raw("{}"))).unwrap() };
        let (told, ()) = tokio::join!(call_json(&upstream, "ask-on-stream", &question, options), answering);
        assert_eq!(json_text(told)["result"], json!({}));
    };
    let (options, mut server_messages) = heard_options(&client);
    ask(1, &mut server_messages, options).await;
    let (sink, mut attached) = mpsc::channel(8);
    upstream.attach("a", Arc::new(sink));
    ask(2, &mut attached, options_for(&client)).await;
}

#[tokio::test]
async fn two_clients_are_never_asked_each_others_questions() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let clients: Vec<UpstreamRequester> =
            (0..4).map(|number| requester(&number.to_string(), CAPABILITIES)).collect();
        let (sink, mut strangers) = mpsc::channel(8);
        upstream.attach("another client", Arc::new(sink));
        let ask = async |client: &UpstreamRequester| {
            let (options, mut server_messages) = heard_options(client);
            let name = format!("for {}", client.affinity);
            let question = json!({"id": name, "method": "sampling/createMessage", "params": {"for": name}});
            let answering = async {
                let ask = next_ask(&mut server_messages).await;
                assert!(ask.params.as_ref().unwrap().get().contains(&name));
                ask.reply.send(Ok(raw(&format!(r#"{{"from":"{}"}}"#, client.affinity)))).unwrap();
            };
            let (told, ()) = tokio::join!(asked(&upstream, &question, options), answering);
            assert_eq!(told["result"]["from"], &*client.affinity);
            assert!(server_messages.try_recv().is_err());
        };
        futures_util::future::join_all(clients.iter().map(ask)).await;
        assert!(strangers.try_recv().is_err());
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn the_deadline_stands_still_while_a_client_is_asked() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let client = requester("a", CAPABILITIES);
        assert_eq!(text(call_with(&upstream, "echo", "{}", options_for(&client)).await), "{}");
        let (sink, mut server_messages) = mpsc::channel(8);
        let impatient =
            RequestOptions { server_messages: Some(sink), requester: client.clone(), ..options(4 * IMPATIENCE) };
        let question = question(1);
        let answering = async {
            let ask = next_ask(&mut server_messages).await;
            // Longer than the call may take.
            tokio::time::sleep(6 * IMPATIENCE).await;
            ask.reply.send(Ok(raw("{}"))).unwrap();
        };
        let (told, ()) = tokio::join!(asked(&upstream, &question, impatient), answering);
        assert_eq!(told["result"], json!({}));

        // The clock runs again after the question: a call that then hangs times out.
        let impatient = RequestOptions { requester: client, ..options(IMPATIENCE) };
        let hanging = failure(call_with(&upstream, "hang", "{}", impatient).await);
        assert!(matches!(hanging, PerformFailure::TimedOut { .. }), "{hanging}");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_has_a_limited_time_for_an_answer() {
    let limits = UpstreamLimits { input_ms_max: 100, ..limits() };
    let upstream = Upstream::new(stdio_spec(&["legacy"], limits), notebook());
    let (options, mut server_messages) = heard_options(&requester("a", CAPABILITIES));
    let question = question(1);
    let thinking = async {
        let mut ask = next_ask(&mut server_messages).await;
        ask.reply.closed().await;
    };
    let (told, ()) = tokio::join!(asked(&upstream, &question, options), thinking);
    assert_eq!(told["error"]["message"], "the client did not answer in time");
}

#[tokio::test]
async fn a_cancelled_call_asks_no_client_any_more() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let client = requester("a", CAPABILITIES);
        for effect in [EffectClass::R, EffectClass::N] {
            let cancel = CancellationToken::new();
            let (options, mut server_messages) = heard_options(&client);
            let options = RequestOptions { cancel: cancel.clone(), ..options };
            let arguments = Bytes::from(question("q").to_string());
            let calling = upstream.call_tool("ask", &arguments, effect, options);
            let cancelling = async {
                let mut ask = next_ask(&mut server_messages).await;
                cancel.cancel();
                ask.reply.closed().await;
            };
            let (called, ()) = tokio::join!(calling, cancelling);
            if effect.mutates() {
                // The server is told, and its answer is read to the end.
                assert_eq!(json_text(called)["error"]["message"], "the request that this belongs to is over");
            } else {
                assert!(matches!(failure(called), PerformFailure::Cancelled { sent: true }));
            }
        }
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_question_can_be_taken_back_or_outlive_its_request() {
    let upstream = stdio("legacy");
    let client = requester("a", CAPABILITIES);
    let cancel = CancellationToken::new();
    let (options, mut server_messages) = heard_options(&client);
    let options = RequestOptions { cancel: cancel.clone(), ..options };
    let taken_back = question("taken back");
    let watching = async {
        let mut ask = next_ask(&mut server_messages).await;
        ask.reply.closed().await;
        cancel.cancel();
    };
    tokio::join!(call_json(&upstream, "ask-and-withdraw", &taken_back, options), watching);

    let (options, mut server_messages) = heard_options(&client);
    let outliving = question("outliving");
    let called = call_json(&upstream, "ask-and-answer", &outliving, options).await;
    assert_eq!(text(called), "answered without waiting");
    next_ask(&mut server_messages).await.reply.closed().await;
    let received = async || json_text(call_with(&upstream, "received", "{}", options_for(&client)).await);
    until("the server is told that the request is over", async || {
        let received = received().await;
        let told = received.as_array().unwrap().iter().find(|message| message["id"] == "outliving");
        told.is_some_and(|told| told["error"]["message"] == "the request that this belongs to is over")
    })
    .await;
    let about_the_other = received().await.as_array().unwrap().iter().any(|message| message["id"] == "taken back");
    assert!(!about_the_other, "what was taken back is not answered");
}

#[tokio::test]
async fn questions_are_bounded() {
    let upstream = stdio("legacy");
    let client = requester("a", CAPABILITIES);
    let (sink, mut attached): (ServerMessageSender, _) = mpsc::channel(1_000);
    upstream.attach("a", Arc::new(sink));
    // The last question uses an id that is still open.
    let messages: Vec<Value> = (0..100).chain([0]).map(question).collect();
    let said = call_json(&upstream, "say", &json!({"messages": messages}), options_for(&client)).await;
    assert_eq!(text(said), "said");
    let mut open = Vec::new();
    while let Ok(ServerMessage::Ask(ask)) = attached.try_recv() {
        open.push(ask);
    }
    assert_eq!(open.len(), 64);
    let received = json_text(call_with(&upstream, "received", "{}", options_for(&client)).await);
    let declined = received.as_array().unwrap().iter().filter(|message| message.get("error").is_some()).count();
    assert_eq!(declined, 36);
}

#[tokio::test]
async fn a_message_with_a_name_that_is_no_text_reaches_no_client() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        let (options, mut server_messages) = heard_options(&requester("a", CAPABILITIES));
        let question = json!({"id": 1, "method": "elicitation/create", "params": {"_meta": {"<half a pair>": 1}}});
        let told = asked(&upstream, &question, options).await;
        assert_eq!(told["error"]["code"], -32602, "{told}");
        assert!(server_messages.try_recv().is_err());
    }
}
