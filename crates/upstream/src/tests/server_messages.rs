//! Log lines and other notifications: whose they are taken for.

use super::*;

const LINE: &str = r#"{"level":"info","data":"working"}"#;

fn log_line() -> Value {
    json!({"method": "notifications/message", "params": serde_json::from_str::<Value>(LINE).unwrap()})
}

fn told(server_messages: &mut mpsc::Receiver<ServerMessage>) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(server_message) = server_messages.try_recv() {
        told.push(match server_message {
            ServerMessage::Progress(params) => format!("progress {}", params.get()),
            ServerMessage::LogMessage(params) => format!("log {}", params.get().replace(": ", ":").replace(", ", ",")),
            ServerMessage::Notification { method, params } => format!("{method} {}", params.unwrap().get()),
            ServerMessage::Ask(ask) => format!("ask {}", ask.method),
        });
    }
    told
}

#[tokio::test]
async fn what_is_said_about_a_request_reaches_whoever_made_it() {
    let server = serve("legacy").await;
    for upstream in [stdio("legacy"), client(&server.url)] {
        for client in [UpstreamRequester::gateway(), requester("a", r#"{"elicitation":{}}"#)] {
            let (options, mut server_messages) = heard_options(&client);
            let messages = json!({"messages": [
                log_line(),
                {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e"}},
                {"method": "notifications/resources/updated", "params": {}},
                {"method": "notifications/elicitation/create", "params": {"message": "nobody knows this method"}},
                {"method": "elicitation/create", "params": {"message": "nor this one"}},
                {"method": "notifications/message", "params": {"level": "info", "<half a pair>": 1}},
                {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e", "<half a pair>": 1}},
                {"method": "notifications/cancelled", "params": {"requestId": "nothing"}},
            ]});
            assert_eq!(text(call_json(&upstream, "say", &messages, options).await), "said");
            let elicitation = r#"notifications/elicitation/complete {"elicitationId": "e"}"#;
            assert_eq!(told(&mut server_messages), [format!("log {LINE}"), elicitation.to_owned()]);
        }
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_log_line_that_may_be_anybodys_goes_to_the_client_or_nowhere() {
    let server = serve("legacy,stream,quiet").await;
    let client_of = |affinity: &str| requester(affinity, r#"{"roots":{}}"#);
    for (upstream, tool) in [(stdio("legacy"), "say"), (client(&server.url), "say-on-stream")] {
        let (sink, mut attached) = mpsc::channel(8);
        upstream.attach("a", Arc::new(sink));
        let (sink, mut strangers) = mpsc::channel(8);
        upstream.attach("b", Arc::new(sink));
        for affinity in ["a", "c"] {
            let messages = json!({"messages": [log_line()]});
            let called = call_json(&upstream, tool, &messages, options_for(&client_of(affinity))).await;
            assert_eq!(text(called), "said");
        }
        let mut seen = Vec::new();
        until("the line of the one who listens", async || {
            seen.extend(told(&mut attached));
            !seen.is_empty()
        })
        .await;
        assert_eq!(seen, [format!("log {LINE}")]);
        assert_eq!(told(&mut strangers), Vec::<String>::new());
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn a_log_line_about_a_request_without_a_listener_is_not_taken_for_another_s() {
    let upstream = stdio("legacy");
    echoes(&upstream).await;
    let cancel = tokio_util::sync::CancellationToken::new();
    let (listening, mut server_messages) = heard_options(&UpstreamRequester::gateway());
    let hanging = call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..listening });
    let logging = async {
        let messages = json!({"messages": [log_line()]});
        assert_eq!(text(call_json(&upstream, "say", &messages, options(ANSWER_WAIT_MAX)).await), "said");
        cancel.cancel();
    };
    tokio::join!(hanging, logging);
    assert_eq!(told(&mut server_messages), Vec::<String>::new());

    // The one that hangs was given up, and may still be what is talked about.
    let (listening, mut server_messages) = heard_options(&UpstreamRequester::gateway());
    let messages = json!({"messages": [log_line()]});
    assert_eq!(text(call_json(&upstream, "say", &messages, listening).await), "said");
    assert_eq!(told(&mut server_messages), Vec::<String>::new());
}

#[tokio::test]
async fn a_modern_server_logs_for_those_who_asked_for_it() {
    let upstream = stdio("modern");
    let cancel = tokio_util::sync::CancellationToken::new();
    let (quiet, mut quiet_server_messages) = heard_options(&UpstreamRequester::gateway());
    let hanging = call_with(&upstream, "hang", "{}", RequestOptions { cancel: cancel.clone(), ..quiet });
    let logging = async {
        let (options, mut server_messages) = heard_options(&UpstreamRequester::gateway());
        let curious = RequestOptions { log_level: Some("info".to_owned()), ..options };
        let messages = json!({"messages": [log_line(), {"id": 1, "method": "roots/list"}]});
        assert_eq!(text(call_json(&upstream, "say", &messages, curious).await), "said");
        assert_eq!(told(&mut server_messages), [format!("log {LINE}")]);
        let received = json_text(call(&upstream, "received").await);
        let answered = received.as_array().unwrap().iter().any(|message| message.get("method").is_none());
        assert!(!answered, "a modern server has nothing to ask, and is not answered");
        cancel.cancel();
    };
    tokio::join!(hanging, logging);
    assert_eq!(told(&mut quiet_server_messages), Vec::<String>::new());
}
