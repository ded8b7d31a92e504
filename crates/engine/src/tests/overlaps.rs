//! Calls that change the same resource are sent one after the other, unless their contract allows otherwise.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use servanda_contract::{
    GateName, TaxonomyClass, ToolContract, record::Outcome, refusal::EffectKnowledge, tool::Overlap,
};
use servanda_effects::effect::EffectState;
use servanda_mcp::Era;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    conversations::result,
    effects::{Bank, keyed, refusal},
};
use crate::{
    CallRequest, RequestTerms,
    testing::{draft, snapshot_of, text},
};

/// A server that works on each call until the test lets it go, and remembers how many calls it worked on at once.
struct Works {
    bank: Arc<Bank>,
    begun: Arc<Notify>,
    gate: Arc<Notify>,
    at_once_max: Arc<AtomicUsize>,
}

fn works(change: impl FnOnce(&mut ToolContract)) -> Works {
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (at_once, at_once_max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (telling, waiting, most) = (begun.clone(), gate.clone(), at_once_max.clone());
    let script = move |_| {
        let (telling, waiting, at_once, most) = (telling.clone(), waiting.clone(), at_once.clone(), most.clone());
        async move {
            most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            telling.notify_one();
            waiting.notified().await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok(text(Era::Modern, "done"))
        }
    };
    Works { bank: Arc::new(Bank::writing(change, script)), begun, gate, at_once_max }
}

impl Works {
    fn call(&self, request: CallRequest) -> tokio::task::JoinHandle<crate::CallAnswer> {
        let bank = self.bank.clone();
        tokio::spawn(async move { bank.call(request).await })
    }
}

#[tokio::test]
async fn one_waits_for_the_other() {
    let works = works(|_| {});
    let calls = ["a", "b", "c"].map(|key| works.call(keyed(key)));
    for _ in 0..3 {
        works.begun.notified().await;
        works.gate.notify_one();
    }
    for call in calls {
        assert_eq!(result(call.await.unwrap())["content"][0]["text"], "done");
    }
    assert_eq!((works.at_once_max.load(Ordering::SeqCst), works.bank.calls()), (1, 3));
}

/// Another gateway on the same store, in front of the same server.
fn beside(works: &Works) -> Arc<Bank> {
    let Bank { harness, server, clock } = &*works.bank;
    let snapshot = snapshot_of(server, vec![draft("up", "write", true)]);
    let harness = harness.restarted(snapshot, clock.clone());
    Arc::new(Bank { harness, server: server.clone(), clock: clock.clone() })
}

#[tokio::test(start_paused = true)]
async fn one_waits_for_the_other_at_another_gateway() {
    let works = works(|_| {});
    let other = beside(&works);
    let first = works.call(keyed("a"));
    works.begun.notified().await;
    let second = tokio::spawn(async move { other.call(keyed("b")).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((works.bank.calls(), works.bank.states().await), (1, vec![EffectState::Dispatching]));
    works.gate.notify_one();
    result(first.await.unwrap());
    works.begun.notified().await;
    works.gate.notify_one();
    assert_eq!(result(second.await.unwrap())["content"][0]["text"], "done");
    assert_eq!((works.at_once_max.load(Ordering::SeqCst), works.bank.calls()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_another_gateway_in_vain_is_refused_and_not_sent() {
    let works = works(|_| {});
    let other = beside(&works);
    let first = works.call(keyed("a"));
    works.begun.notified().await;
    let refused = refusal(other.call(keyed("b")).await);
    assert_eq!((refused.gate, refused.error_code), (GateName::Fence, TaxonomyClass::IdempotencyConflict));
    assert_eq!((refused.effect, refused.retryable), (EffectKnowledge::None, true));
    assert!(refused.retry_after_ms.is_some());
    let cancel = CancellationToken::new();
    let request =
        CallRequest { terms: RequestTerms { cancel: cancel.clone(), ..RequestTerms::default() }, ..keyed("c") };
    let left = other.clone();
    let left = tokio::spawn(async move { left.call(request).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    cancel.cancel();
    assert_eq!(refusal(left.await.unwrap()).effect, EffectKnowledge::None);
    assert_eq!((works.bank.calls(), works.bank.states().await), (1, vec![EffectState::Dispatching]));
    works.gate.notify_one();
    result(first.await.unwrap());
    works.gate.notify_one();
    result(other.call(keyed("b")).await);
}

#[tokio::test]
async fn calls_run_at_once_where_the_contract_allows_it() {
    let works = works(|contract| contract.effect.as_mut().unwrap().overlap = Overlap::Allow);
    let calls = ["a", "b"].map(|key| works.call(keyed(key)));
    while works.at_once_max.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    for call in calls {
        works.gate.notify_one();
        result(call.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_turn_does_not_come_is_refused_and_not_sent() {
    let works = works(|_| {});
    let first = works.call(keyed("a"));
    works.begun.notified().await;
    let refused = refusal(works.bank.call(keyed("b")).await);
    assert_eq!((refused.gate, refused.error_code), (GateName::Fence, TaxonomyClass::IdempotencyConflict));
    assert_eq!((refused.effect, refused.retryable), (EffectKnowledge::None, true));
    assert!(refused.retry_after_ms.is_some());
    assert_eq!((works.bank.calls(), works.bank.states().await), (1, vec![EffectState::Dispatching]));
    assert_eq!(works.bank.harness.last_record().outcome, Outcome::Refused);
    works.gate.notify_one();
    result(first.await.unwrap());
    works.gate.notify_one();
    result(works.bank.call(keyed("b")).await);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_or_repeats_a_call_need_not_wait() {
    let works = works(|_| {});
    works.gate.notify_one();
    result(works.bank.call(keyed("done")).await);
    works.begun.notified().await;
    let first = works.call(keyed("a"));
    works.begun.notified().await;
    let again = result(works.bank.call(keyed("done")).await);
    assert_eq!(again["_meta"]["servanda/observation"]["execution_metadata"]["idempotency_hit"], true);
    let same = refusal(works.bank.call(keyed("a")).await);
    assert!(same.handle.is_some(), "it is the same operation, which is under way: {}", same.message);
    let cancel = CancellationToken::new();
    let request =
        CallRequest { terms: RequestTerms { cancel: cancel.clone(), ..RequestTerms::default() }, ..keyed("b") };
    let left = works.call(request);
    tokio::time::sleep(Duration::from_millis(1)).await;
    cancel.cancel();
    assert_eq!(refusal(left.await.unwrap()).effect, EffectKnowledge::None);
    assert_eq!(works.bank.calls(), 2);
    works.gate.notify_one();
    result(first.await.unwrap());
}
