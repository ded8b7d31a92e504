//! Long work that is not wanted any more, or whose upstream asks something.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use servanda_contract::refusal::EffectKnowledge;
use servanda_gates::effect::EffectState;
use servanda_mcp::Era;
use tokio_util::sync::CancellationToken;

use super::super::{
    conversations::input,
    effects::{Bank, refusal},
};
use super::{about, legacy, long_read, long_write, slow, status, takes_tasks, task, until_status, with_task};
use crate::{
    Subject, Terms,
    testing::{Heard, Scripted, call, draft, guest, text},
};

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_never_called_cancelled_while_it_may_be_done() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let created = task(bank.call(with_task(call(&legacy(), "write", Terms::default()))).await);
    let id = &created["task"]["taskId"];
    while bank.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let told = about(&bank.house, &legacy(), Subject::TaskCancel, json!({"taskId": id})).await.unwrap();
    assert_eq!(told["status"], "working");
    assert!(told["statusMessage"].as_str().unwrap().contains("cancellation was asked for"), "{told}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(slow.heard_cancel.load(Ordering::SeqCst), "the upstream is told");
    assert_eq!(status(&bank.house, &legacy(), id).await["status"], "working");
    slow.go.add_permits(1);
    let ended = until_status(&bank.house, &legacy(), id, "completed").await;
    assert!(ended["statusMessage"].as_str().unwrap().contains("cancellation"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_cancelled_is() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_read()]);
    let id = task(bank.call(call(&takes_tasks(), "echo", Terms::default())).await)["taskId"].clone();
    while bank.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let told = about(&bank.house, &takes_tasks(), Subject::TaskCancel, json!({"taskId": id})).await.unwrap();
    assert_eq!(told, json!({}));
    until_status(&bank.house, &takes_tasks(), &id, "cancelled").await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_before_the_fence_leaves_nothing_behind() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let server = Scripted::new(Era::Modern, &json!({}), move |heard: Heard| {
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
    let calling = bank.call(call(&takes_tasks(), "write", Terms { cancel: cancel.clone(), ..Terms::default() }));
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
async fn what_the_upstream_asks_comes_first_where_the_guest_can_be_asked() {
    let server = Scripted::new(Era::Legacy, &json!({}), |heard: Heard| async move {
        let asked = crate::testing::ask(&heard.delivery, "elicitation/create", &json!({"message": "Who?"}));
        let first = asked.await.is_ok_and(|reply| reply.is_ok());
        tokio::time::sleep(Duration::from_mins(2)).await;
        let again = crate::testing::ask(&heard.delivery, "elicitation/create", &json!({"message": "Still?"}));
        let second = again.await.is_ok_and(|reply| reply.is_ok());
        Ok(text(Era::Legacy, &format!("{first} {second}")))
    });
    let bank = Bank::new(server, vec![long_write()]);
    let able = guest(Era::Modern, &json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let asked = input(bank.call(call(&able, "write", Terms::default())).await);
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let terms = crate::testing::again(&asked["requestState"], &json!({key: {"action": "accept"}}));
    let created = task(bank.call(call(&able, "write", terms)).await);
    let ended = until_status(&bank.house, &able, &created["taskId"], "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "true false", "afterwards nobody is there to be asked");
}
