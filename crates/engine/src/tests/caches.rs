//! Reads that are answered from the cache, and everything that invalidates it.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{
    GateName, OperationKeys, ToolContract,
    record::{Decision, Outcome},
    time::Clock as _,
    tool::DataClassification,
};
use servanda_mcp::Era;
use servanda_upstream::{Announcement, Answer, PerformFailure};

use super::{
    conversations::{input, result},
    effects::{Bank, keyed},
};
use crate::{
    CallRequest, Gateway as _, RequestTerms, Requester,
    testing::{
        ScriptedRequest, ScriptedServer, again, ask, call, draft, listening, requester, requester_of, said,
        snapshot_of, text,
    },
};

fn contracts(change: impl FnOnce(&mut ToolContract, &mut ToolContract)) -> Vec<ToolContract> {
    let (mut echo, mut write) = (draft("up", "echo", false), draft("up", "write", true));
    echo.execution.as_mut().unwrap().cache_ttl_sec = Some(60);
    change(&mut echo, &mut write);
    vec![echo, write]
}

fn bank(change: impl FnOnce(&mut ToolContract, &mut ToolContract)) -> Bank {
    scripted(change, |_| async { Ok(text(Era::Modern, "read")) })
}

fn scripted<F>(
    change: impl FnOnce(&mut ToolContract, &mut ToolContract),
    script: impl Fn(ScriptedRequest) -> F + Send + Sync + 'static,
) -> Bank
where
    F: Future<Output = Result<Answer, PerformFailure>> + Send + 'static,
{
    Bank::new(ScriptedServer::new(Era::Modern, &json!({}), script), contracts(change))
}

fn read() -> CallRequest {
    call(&Requester::local(), "echo", RequestTerms::default())
}

fn call_of(bank: &Bank, tenant: &str, principal: &str) -> CallRequest {
    call(&requester_of(tenant, principal, bank.clock.now()), "echo", RequestTerms::default())
}

fn warnings(answer: &Value) -> &Value {
    &answer["_meta"]["servanda/observation"]["result_payload"]["warnings"]
}

#[tokio::test]
async fn the_same_read_is_answered_again_and_says_so() {
    let bank = bank(|_, _| {});
    let first = result(bank.call(read()).await);
    let second = result(bank.call(read()).await);
    assert_eq!((first["content"].clone(), bank.calls()), (second["content"].clone(), 1));
    assert_eq!((warnings(&first), warnings(&second)), (&json!([]), &json!(["served from cache"])));
    let observation = &second["_meta"]["servanda/observation"];
    assert_eq!(observation["execution_metadata"]["idempotency_hit"], false);
    let record = bank.harness.last_record();
    assert_eq!((record.outcome, record.dispatched_at), (Outcome::Completed, None));
    let skipped = record.verdicts.iter().filter(|verdict| verdict.decision == Decision::Skipped);
    assert_eq!(
        skipped.map(|verdict| verdict.gate).collect::<Vec<_>>(),
        [GateName::Budget, GateName::Fence, GateName::Perform]
    );
    assert_eq!(bank.harness.records.finished.lock().unwrap().len(), 2, "every call leaves a record");
    let other = CallRequest { arguments: Bytes::from_static(br#"{"text":"other"}"#), ..read() };
    result(bank.call(other).await);
    assert_eq!(bank.calls(), 2);
}

#[tokio::test]
async fn what_its_contract_does_not_let_be_kept_is_asked_every_time() {
    let without = bank(|echo, _| echo.execution.as_mut().unwrap().cache_ttl_sec = None);
    let checked = bank(|echo, _| {
        let condition =
            json!([{ "id": "c", "tool": "up.write", "arguments": {}, "expect": { "rule": "true", "message": "m" } }]);
        echo.preconditions = serde_json::from_value(condition).unwrap();
    });
    let failing = scripted(|_, _| {}, |_| async { Ok(said(Era::Modern, &json!({"isError": true, "content": []}))) });
    for (bank, calls) in [(without, 2), (checked, 0), (failing, 2)] {
        for _ in 0..2 {
            result(bank.call(read()).await);
        }
        assert_eq!(bank.calls(), calls);
    }
    let keyed = bank(|_, _| {});
    for key in ["a", "b"] {
        let keys = OperationKeys { idempotency_key: Some(key.to_owned()), ..OperationKeys::default() };
        result(keyed.call(CallRequest { keys, ..read() }).await);
    }
    assert_eq!(keyed.calls(), 2, "an operation of its own each");
}

#[tokio::test]
async fn private_answers_stay_with_their_principal_and_public_ones_in_their_tenant() {
    let callers = [("acme", "ada"), ("acme", "bob"), ("other", "ada")];
    for (classification, calls) in [
        (DataClassification::Public, 2),
        (DataClassification::Internal, 3),
        (DataClassification::Confidential, 3),
        // Without a policy that permits it, no principal sees it at all.
        (DataClassification::Secret, 0),
    ] {
        let bank = bank(|echo, _| echo.security.data_classification = classification);
        for (tenant, principal) in callers {
            result(bank.call(call_of(&bank, tenant, principal)).await);
        }
        assert_eq!(bank.calls(), calls, "{classification:?}");
    }
}

/// A server that gets each user's credential may give each user private data, whatever the contract calls the data.
#[tokio::test]
async fn a_personal_servers_public_answers_stay_with_their_principal() {
    let bank = bank(|echo, _| echo.security.data_classification = DataClassification::Public);
    bank.server.personal.store(true, Ordering::Relaxed);
    for (principal, calls) in [("ada", 1), ("bob", 2), ("ada", 2)] {
        result(bank.call(call_of(&bank, "acme", principal)).await);
        assert_eq!(bank.calls(), calls, "{principal}");
    }
}

#[tokio::test]
async fn a_change_gives_up_what_it_touches() {
    let table = [
        (&[][..], "invoice/7", false),
        (&["invoice/{text}"], "invoice/*", false),
        (&["invoice/{text}"], "invoice/{text}", false),
        (&["customer/{text}"], "invoice/*", true),
    ];
    for (reads, changes, stays) in table {
        let bank = bank(|echo, write| {
            echo.effect.as_mut().unwrap().reads = reads.iter().map(|&name| name.to_owned()).collect();
            write.effect.as_mut().unwrap().manifest[0].resource = changes.to_owned();
        });
        result(bank.call(read()).await);
        result(bank.call(keyed("k")).await);
        result(bank.call(read()).await);
        assert_eq!(bank.calls() == 2, stays, "{reads:?} {changes}");
    }
}

#[tokio::test]
async fn what_is_read_while_something_changes_is_not_kept() {
    let (begun, gate) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (telling, letting) = (begun.clone(), gate.clone());
    let bank = Arc::new(scripted(
        |_, _| {},
        move |heard| {
            let (telling, letting) = (telling.clone(), letting.clone());
            async move {
                if heard.params["name"] == "write" {
                    telling.notify_one();
                    letting.notified().await;
                }
                Ok(text(Era::Modern, "said"))
            }
        },
    ));
    let inside = bank.clone();
    let writing = tokio::spawn(async move { inside.call(keyed("k")).await });
    begun.notified().await;
    result(bank.call(read()).await);
    gate.notify_one();
    result(writing.await.unwrap());
    result(bank.call(read()).await);
    assert_eq!(bank.calls(), 3, "it may have been read before the change and kept after it");
}

#[tokio::test]
async fn an_upstream_that_says_it_changed_is_believed() {
    let bank = bank(|_, _| {});
    let mut news = bank.harness.engine.change_events();
    for calls in 1..4 {
        result(bank.call(read()).await);
        result(bank.call(read()).await);
        assert_eq!(bank.calls(), calls);
        bank.server.said.send(Announcement::ResourcesChanged).unwrap();
        news.recv().await.unwrap();
    }
}

#[tokio::test]
async fn another_world_is_asked_anew() {
    let bank = bank(|_, _| {});
    result(bank.call(read()).await);
    bank.harness.engine.install(snapshot_of(&bank.server, contracts(|_, _| {})));
    result(bank.call(read()).await);
    assert_eq!(bank.calls(), 2);
}

#[tokio::test]
async fn an_answer_that_took_a_question_is_not_cached() {
    let legacy = ScriptedServer::new(Era::Legacy, &json!({}), |heard| async move {
        let _ = ask(&heard.delivery, "elicitation/create", &json!({"message": "Who?"})).await;
        Ok(text(Era::Legacy, "for you"))
    });
    let bank = Bank::new(legacy, contracts(|_, _| {}));
    for _ in 0..2 {
        let (terms, messages) = listening();
        drop(messages);
        result(bank.call(call(&requester(Era::Legacy, &json!({"elicitation": {}})), "echo", terms)).await);
    }
    assert_eq!(bank.calls(), 2);
    let modern = scripted(
        |_, _| {},
        |heard| async move {
            let asked = heard.delivery.continuation.input_responses.is_some();
            let wanted = json!({"resultType": "input_required", "requestState": "s", "inputRequests":
                {"q": {"method": "elicitation/create", "params": {"message": "Who?"}}}});
            Ok(if asked { text(Era::Modern, "for you") } else { said(Era::Modern, &wanted) })
        },
    );
    let requester = requester(Era::Modern, &json!({"elicitation": {}}));
    for _ in 0..2 {
        let asked = input(modern.call(call(&requester, "echo", RequestTerms::default())).await);
        let answers = json!({"q": {"action": "accept", "content": {}}});
        result(modern.call(call(&requester, "echo", again(&asked["requestState"], &answers))).await);
    }
    assert_eq!(modern.calls(), 4);
}
