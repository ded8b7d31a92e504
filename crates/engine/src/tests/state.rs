//! Preconditions, which are asked before a call is sent, end to end: which tool is asked, what is refused, and what happens to the claim.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use servanda_contract::{
    GateName, OperationKeys, TaxonomyClass, ToolContract,
    record::{Decision, Outcome},
    refusal::EffectKnowledge,
};
use servanda_effects::effect::EffectState;
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    conversations::result,
    effects::{Bank, died, keyed, refusal},
};
use crate::{
    CallRequest, RequestTerms,
    testing::{ScriptedRequest, ScriptedServer, draft, said, text},
};

fn condition() -> Value {
    json!([{
        "id": "open", "tool": "up.echo", "arguments": { "text": "{text}" },
        "expect": { "rule": "result.open && result.text == args.text", "message": "it is closed" },
    }])
}

fn contracts(write: impl FnOnce(&mut ToolContract)) -> Vec<ToolContract> {
    let (reading, mut writing) = (draft("up", "echo", false), draft("up", "write", true));
    writing.preconditions = serde_json::from_value(condition()).unwrap();
    write(&mut writing);
    vec![reading, writing]
}

/// A server whose `echo` answers as the script says, and whose `write` succeeds.
fn bank<F>(echo: impl Fn(ScriptedRequest) -> F + Send + Sync + 'static) -> Bank
where
    F: Future<Output = Result<Answer, PerformFailure>> + Send + 'static,
{
    Bank::new(server(echo), contracts(|_| {}))
}

fn server<F>(echo: impl Fn(ScriptedRequest) -> F + Send + Sync + 'static) -> Arc<ScriptedServer>
where
    F: Future<Output = Result<Answer, PerformFailure>> + Send + 'static,
{
    let echo = Arc::new(echo);
    ScriptedServer::new(Era::Modern, &json!({}), move |heard| {
        let echo = Arc::clone(&echo);
        async move { if heard.params["name"] == "echo" { echo(heard).await } else { Ok(text(Era::Modern, "done")) } }
    })
}

fn told(result: &Value) -> Answer {
    said(Era::Modern, &json!({"content": [], "structuredContent": result}))
}

fn written(bank: &Bank) -> usize {
    bank.server.heard().iter().filter(|line| line.contains(r#""name":"write""#)).count()
}

#[tokio::test]
async fn what_holds_is_asked_first_and_then_done_once() {
    let bank = bank(|_| async { Ok(told(&json!({"open": true, "text": "hello"}))) });
    for _ in 0..2 {
        assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    }
    let heard = bank.server.heard();
    assert_eq!(heard.len(), 2, "a replay asks nothing: {heard:?}");
    assert!(heard[0].contains(r#"{"name":"echo","arguments":{"text":"hello"}}"#), "{heard:?}");
    assert_eq!(bank.states().await, [EffectState::Completed]);
    let record = bank.harness.records.finished.lock().unwrap()[0].clone();
    let gates: Vec<_> = record.verdicts.iter().map(|verdict| verdict.gate).collect();
    let last = [GateName::Confirmation, GateName::Budget, GateName::State, GateName::Fence];
    assert!(gates.windows(4).any(|window| window == last), "{gates:?}");
    assert_eq!(bank.effects().await[0].epoch, 1, "claimed and fenced under one claim");
}

#[tokio::test]
async fn what_does_not_hold_or_cannot_be_asked_is_refused_and_given_back() {
    let answers: Vec<(Result<Answer, PerformFailure>, TaxonomyClass, &str)> = vec![
        (
            Ok(told(&json!({"open": false, "text": "hello"}))),
            TaxonomyClass::StaleState,
            "it is closed (precondition `open`)",
        ),
        (Ok(told(&json!({"open": true, "text": "other"}))), TaxonomyClass::StaleState, "it is closed"),
        (Ok(text(Era::Modern, "what?")), TaxonomyClass::DependencyUnavailable, "cannot be decided"),
        (Err(died()), TaxonomyClass::DependencyUnavailable, "`open`"),
        (
            Ok(said(Era::Modern, &json!({"isError": true, "content": []}))),
            TaxonomyClass::DependencyUnavailable,
            "failed",
        ),
    ];
    for (answer, class, message) in answers {
        let bank = bank(move |_| {
            let answer = answer.clone();
            async move { answer }
        });
        let refused = refusal(bank.call(keyed("k")).await);
        assert_eq!((refused.gate, refused.error_code, refused.effect), (GateName::State, class, EffectKnowledge::None));
        assert!(refused.message.contains(message), "{}", refused.message);
        assert_eq!((written(&bank), bank.states().await), (0, vec![EffectState::FailedRetryable]));
        let record = bank.harness.last_record();
        assert_eq!(record.outcome, Outcome::Refused);
        assert_eq!(
            record.verdicts.last().map(|last| (last.gate, last.decision)),
            Some((GateName::State, Decision::Refused))
        );
    }
}

#[tokio::test]
async fn what_was_given_back_may_be_tried_again_with_the_same_key() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let bank = bank(move |_| {
        let open = counting.fetch_add(1, Ordering::Relaxed) > 0;
        async move { Ok(told(&json!({"open": open, "text": "hello"}))) }
    });
    assert_eq!(refusal(bank.call(keyed("k")).await).error_code, TaxonomyClass::StaleState);
    assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    assert_eq!((written(&bank), bank.effects().await[0].epoch), (1, 2));
}

#[tokio::test]
async fn a_tool_that_changes_something_or_asks_itself_is_not_asked() {
    for spoil in [
        |read: &mut ToolContract| read.preconditions = serde_json::from_value(condition()).unwrap(),
        |read: &mut ToolContract| {
            *read = ToolContract {
                identity: read.identity.clone(),
                binding: read.binding.clone(),
                ..draft("up", "write", true)
            }
        },
    ] {
        let mut contracts = contracts(|_| {});
        spoil(&mut contracts[0]);
        let bank = Bank::new(server(|_| async { Ok(told(&json!({"open": true, "text": "hello"}))) }), contracts);
        assert_eq!(refusal(bank.call(keyed("k")).await).error_code, TaxonomyClass::DependencyUnavailable);
        assert_eq!(bank.calls(), 0);
    }
}

#[tokio::test]
async fn a_lost_update_is_refused() {
    let version = json!({"argument": "text", "tool": "up.echo", "arguments": {"text": "x"}, "rule": "result.version"});
    for (now_is, written_then) in [("hello", 1), ("newer", 0)] {
        let contracts = contracts(|write| {
            write.preconditions.clear();
            write.effect.as_mut().unwrap().version = Some(serde_json::from_value(version.clone()).unwrap());
        });
        let server = server(move |_| async move { Ok(told(&json!({"version": now_is}))) });
        let bank = Bank::new(server, contracts);
        let answer = bank.call(keyed("k")).await;
        assert_eq!(written(&bank), written_then, "{now_is}");
        if written_then == 0 {
            let refused = refusal(answer);
            assert_eq!((refused.gate, refused.error_code), (GateName::State, TaxonomyClass::StaleState));
        }
    }
}

#[tokio::test]
async fn during_a_precondition_others_get_a_handle_and_a_caller_that_leaves_has_done_nothing() {
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (telling, waiting) = (begun.clone(), gate.clone());
    let bank = Arc::new(bank(move |_| {
        let (telling, waiting) = (telling.clone(), waiting.clone());
        async move {
            telling.notify_one();
            waiting.notified().await;
            Ok(told(&json!({"open": true, "text": "hello"})))
        }
    }));
    let cancel = CancellationToken::new();
    let request =
        CallRequest { terms: RequestTerms { cancel: cancel.clone(), ..RequestTerms::default() }, ..keyed("k") };
    let inside = bank.clone();
    let call = tokio::spawn(async move { inside.call(request).await });
    begun.notified().await;
    assert_eq!(bank.states().await, [EffectState::Claimed]);
    let other = refusal(bank.call(keyed("k")).await);
    assert_eq!(other.error_code, TaxonomyClass::IdempotencyConflict);
    assert!(other.handle.is_some() && other.retry_after_ms.is_some());
    cancel.cancel();
    let refused = refusal(call.await.unwrap());
    assert_eq!((refused.gate, refused.effect), (GateName::State, EffectKnowledge::None));
    assert_eq!((written(&bank), bank.states().await), (0, vec![EffectState::FailedRetryable]));
}

#[tokio::test]
async fn a_read_with_a_precondition_asks_and_claims_nothing() {
    let mut echo = draft("up", "echo", false);
    echo.preconditions = serde_json::from_value(condition()).unwrap();
    echo.preconditions[0].tool = "up.look".to_owned();
    let server = ScriptedServer::new(Era::Modern, &json!({}), |heard| async move {
        let open = heard.params["arguments"]["text"] == "hello";
        Ok(if heard.params["name"] == "look" {
            told(&json!({"open": open, "text": "hello"}))
        } else {
            text(Era::Modern, "read")
        })
    });
    let bank = Bank::new(server, vec![echo, draft("up", "look", false)]);
    let request = |words: &'static str| CallRequest {
        tool: "echo".to_owned(),
        keys: OperationKeys::default(),
        arguments: words.into(),
        ..keyed("")
    };
    assert_eq!(result(bank.call(request(r#"{"text":"hello"}"#)).await)["content"][0]["text"], "read");
    assert_eq!(refusal(bank.call(request(r#"{"text":"other"}"#)).await).error_code, TaxonomyClass::StaleState);
    assert!(bank.effects().await.is_empty());
    assert_eq!(bank.calls(), 3);
}
