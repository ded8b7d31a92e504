//! Long work that is cancelled, or whose upstream asks something.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use servanda_contract::{TaxonomyClass, refusal::EffectKnowledge};
use servanda_effects::effect::EffectState;
use servanda_mcp::Era;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{
    conversations::{input, result},
    effects::{Bank, refusal},
};
use super::{
    about, keyed, legacy, long_read, long_write, of_class, slow, status, takes_tasks, task, until_status, with_task,
};
use crate::{
    CallRequest, InquirySubject, RequestTerms,
    testing::{ScriptedRequest, ScriptedServer, call, draft, requester, said, text},
};

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_never_called_cancelled_while_it_may_be_done() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let created = task(bank.call(with_task(call(&legacy(), "write", RequestTerms::default()))).await);
    let id = &created["task"]["taskId"];
    while bank.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let told = about(&bank.harness, &legacy(), InquirySubject::TaskCancel, json!({"taskId": id})).await.unwrap();
    assert_eq!(told["status"], "working");
    assert!(told["statusMessage"].as_str().unwrap().contains("cancellation was asked for"), "{told}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(slow.heard_cancel.load(Ordering::SeqCst), "the upstream is told");
    assert_eq!(status(&bank.harness, &legacy(), id).await["status"], "working");
    slow.go.add_permits(1);
    let ended = until_status(&bank.harness, &legacy(), id, "completed").await;
    assert!(ended["statusMessage"].as_str().unwrap().contains("cancellation"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_cancelled_is() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_read()]);
    let id = task(bank.call(call(&takes_tasks(), "echo", RequestTerms::default())).await)["taskId"].clone();
    while bank.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let told = about(&bank.harness, &takes_tasks(), InquirySubject::TaskCancel, json!({"taskId": id})).await.unwrap();
    assert_eq!(told, json!({}));
    until_status(&bank.harness, &takes_tasks(), &id, "cancelled").await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_before_the_fence_leaves_nothing_behind() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard: ScriptedRequest| {
        let counted = counted.clone();
        async move {
            assert_eq!(heard.params["name"], "echo", "nothing is sent");
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    });
    let mut contract = long_write();
    let condition = json!([{"id": "p", "tool": "up.echo", "arguments": {"text": "{text}"},
        "expect": {"rule": "result.ok == true", "message": "it must be ok"}}]);
    contract.preconditions = serde_json::from_value(condition).unwrap();
    let bank = Bank::new(server, vec![contract, draft("up", "echo", false)]);
    let cancel = CancellationToken::new();
    let calling =
        bank.call(call(&takes_tasks(), "write", RequestTerms { cancel: cancel.clone(), ..RequestTerms::default() }));
    let giving_up = async {
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(bank.states().await, [EffectState::Claimed]);
        cancel.cancel();
    };
    let (answered, ()) = tokio::join!(calling, giving_up);
    assert_eq!(refusal(answered).effect, EffectKnowledge::None);
    assert_eq!(bank.states().await, [EffectState::FailedRetryable]);
}

#[tokio::test(start_paused = true)]
async fn what_the_upstream_asks_comes_first_where_the_requester_can_be_asked() {
    let server = ScriptedServer::new(Era::Legacy, &json!({}), |heard: ScriptedRequest| async move {
        let asked = crate::testing::ask(&heard.delivery, "elicitation/create", &json!({"message": "Who?"}));
        let first = asked.await.is_ok_and(|reply| reply.is_ok());
        tokio::time::sleep(Duration::from_mins(2)).await;
        let again = crate::testing::ask(&heard.delivery, "elicitation/create", &json!({"message": "Still?"}));
        let second = again.await.is_ok_and(|reply| reply.is_ok());
        Ok(text(Era::Legacy, &format!("{first} {second}")))
    });
    let bank = Bank::new(server, vec![long_write()]);
    let able = requester(Era::Modern, &json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let asked = input(bank.call(call(&able, "write", RequestTerms::default())).await);
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let terms = crate::testing::again(&asked["requestState"], &json!({key: {"action": "accept"}}));
    let created = task(bank.call(call(&able, "write", terms)).await);
    let ended = until_status(&bank.harness, &able, &created["taskId"], "completed").await;
    assert_eq!(
        ended["result"]["content"][0]["text"], "true false",
        "afterwards no client is waiting that could be asked"
    );
}

/// A cancelled call may be made again under the same key, and then the earlier cancellation no longer counts.
#[tokio::test(start_paused = true)]
async fn a_cancellation_is_of_one_attempt() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_read()]);
    let read = || CallRequest { tool: "echo".to_owned(), ..keyed(&takes_tasks()) };
    let id = task(bank.call(read()).await)["taskId"].clone();
    about(&bank.harness, &takes_tasks(), InquirySubject::TaskCancel, json!({"taskId": id})).await.unwrap();
    until_status(&bank.harness, &takes_tasks(), &id, "cancelled").await;
    bank.clock.pass_ms(1_000);
    assert_eq!(task(bank.call(read()).await)["taskId"], id);
    let told = status(&bank.harness, &takes_tasks(), &id).await;
    assert_eq!((&told["status"], told.get("statusMessage")), (&json!("working"), None));
}

/// A question that comes when no client is waiting any more is not passed on, and the call is not reported as done.
#[tokio::test(start_paused = true)]
async fn a_question_that_comes_too_late_is_not_passed_on() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let wants = json!({"k": {"method": "elicitation/create", "params": {"message": "Sure?"}}});
        Ok(said(Era::Modern, &json!({"resultType": "input_required", "inputRequests": wants, "requestState": "s"})))
    });
    let bank = Bank::new(server, vec![long_write()]);
    let able = requester(Era::Modern, &json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let id = task(bank.call(call(&able, "write", RequestTerms::default())).await)["taskId"].clone();
    let ended = until_status(&bank.harness, &able, &id, "failed").await;
    assert_eq!(ended["error"]["data"]["effect"], "unknown", "{ended}");
    assert_eq!(bank.harness.outcomes(), ["unknown"]);
}

/// A call that waits for its turn cannot be asked about yet, so its caller is answered while it still waits.
#[tokio::test(start_paused = true)]
async fn a_call_whose_turn_does_not_come_is_told_while_its_caller_waits() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![of_class("N")]);
    task(bank.call(with_task(call(&legacy(), "write", RequestTerms::default()))).await);
    let began = Instant::now();
    let refused = refusal(bank.call(call(&takes_tasks(), "write", RequestTerms::default())).await);
    assert_eq!((refused.error_code, refused.effect), (TaxonomyClass::IdempotencyConflict, EffectKnowledge::None));
    assert_eq!(began.elapsed().as_secs(), 25);
    assert_eq!(bank.calls(), 1);
}

/// If too much long work is under way, a caller waits for the end as with any call.
#[tokio::test(start_paused = true)]
async fn without_a_place_a_call_is_waited_for() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let works = bank.harness.engine.long_running().works.clone();
    let places: Vec<_> = std::iter::from_fn(|| works.reserve_place()).collect();
    assert!(!places.is_empty());
    let release = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        slow.go.add_permits(1);
    };
    let (answered, ()) = tokio::join!(bank.call(call(&takes_tasks(), "write", RequestTerms::default())), release);
    assert_eq!(result(answered)["content"][0]["text"], "done");
}
