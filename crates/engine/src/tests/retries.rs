//! Which calls are sent again, with what bytes and keys, and which are not.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use servanda_contract::{OperationKeys, TaxonomyClass, ToolContract, refusal::EffectKnowledge};
use servanda_effects::{Note, NoteKind, Notebook, effect::EffectState};
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};

use super::{
    conversations::result,
    effects::{Bank, died, keyed, refusal, write},
};
use crate::{
    Gateway as _, RequestTerms, Requester,
    testing::{ScriptedServer, call, draft, parse, requester_of, text},
};

fn unavailable() -> PerformFailure {
    PerformFailure::Unavailable { why: "refused".to_owned() }
}

/// Fails in these ways, in order, and then succeeds.
fn failing(contract: ToolContract, failures: Vec<fn() -> PerformFailure>) -> Bank {
    let made = Arc::new(AtomicUsize::new(0));
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |_| {
        let failure = failures.get(made.fetch_add(1, Ordering::SeqCst)).copied();
        async move {
            let answer: Result<Answer, PerformFailure> = match failure {
                Some(failure) => Err(failure()),
                None => Ok(text(Era::Modern, "done")),
            };
            answer
        }
    });
    Bank::new(server, vec![contract])
}

/// `write` with another effect class, which may be tried three times.
fn of_class(effect: Value) -> ToolContract {
    let mut contract = draft("up", "write", true);
    let mut effect = effect;
    effect["mutation_class"] = json!("write_irreversible");
    effect["manifest"] = json!([{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }]);
    contract.effect = Some(serde_json::from_value(effect).unwrap());
    contract.runtime.max_retries = 2;
    contract
}

fn keyed_tool(key: &Value) -> ToolContract {
    of_class(json!({"class": "K", "key": key, "key_window_sec": 3600}))
}

fn asked_tool() -> ToolContract {
    of_class(
        json!({"class": "Q", "key": {"meta": "key"}, "status": {"tool": "up.status", "key_argument": "key", "absence_is_authoritative": false}}),
    )
}

fn heard(bank: &Bank) -> Vec<Value> {
    bank.server.heard().iter().filter_map(|line| line.strip_prefix("tools/call ")).map(parse).collect()
}

#[tokio::test(start_paused = true)]
async fn a_keyed_tool_gets_the_same_bytes_and_the_same_key_again() {
    for key in [json!({"header": "Idempotency-Key"}), json!({"meta": "acme/key"}), json!({"argument": "idem"})] {
        let bank = failing(keyed_tool(&key), vec![died, died]);
        let named = OperationKeys { operation_id: Some("op-1".to_owned()), ..OperationKeys::default() };
        let answer = result(bank.call(write(&json!({"text": "hello"}), named)).await);
        let told = &answer["_meta"]["servanda/observation"]["execution_metadata"]["attempt_number"];
        assert_eq!(told, 3, "{key}");
        let heard = heard(&bank);
        assert_eq!(heard.len(), 3, "{key}");
        assert!(heard.iter().all(|one| *one == heard[0]), "{heard:#?}");
        let upstream_key = bank.effects().await[0].order.upstream_key.clone();
        let carried = match key.as_object().unwrap().keys().next().unwrap().as_str() {
            "header" => heard[0]["keyHeader"][1].clone(),
            "meta" => heard[0]["meta"]["acme/key"].clone(),
            _ => heard[0]["arguments"]["idem"].clone(),
        };
        assert_eq!(carried, json!(upstream_key), "{key}");
        assert_eq!(heard[0]["meta"]["servanda/operation-id"], "op-1", "{key}");
        assert_eq!(bank.states().await, [EffectState::Completed]);
        assert_eq!(bank.harness.last_record().attempts, Some(3));
    }
}

#[tokio::test(start_paused = true)]
async fn what_left_once_is_uncertain_whatever_becomes_of_the_repeat() {
    let bank = failing(keyed_tool(&json!({"meta": "key"})), vec![died, unavailable, unavailable]);
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!((refused.effect, refused.retryable), (EffectKnowledge::Unknown, false));
    assert_eq!((bank.calls(), bank.states().await), (3, vec![EffectState::OutcomeUnknown]));
    result(bank.call(keyed("k")).await);
    assert_eq!(bank.states().await, [EffectState::Completed], "the upstream dedupes, so the client may ask again");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_dedupe_is_tried_again_only_if_nothing_left() {
    let bank = failing(asked_tool(), vec![unavailable, unavailable]);
    result(bank.call(keyed("k")).await);
    assert_eq!((bank.calls(), bank.harness.engine.calls().retry_counters.counts()), (3, (2, 0, 0)));

    let bank = failing(asked_tool(), vec![died]);
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!(refused.effect, EffectKnowledge::Unknown);
    assert_eq!(
        (bank.calls(), bank.harness.engine.calls().retry_counters.counts()),
        (1, (0, 1, 0)),
        "wanted, and not made"
    );
}

/// The credential is revoked while the call is under way. A call that was provably not executed is not sent again, and a call that was
/// sent stays as uncertain as it was.
#[tokio::test(start_paused = true)]
async fn t11_what_was_revoked_since_it_was_sent_is_not_sent_again() {
    let table: [(fn() -> PerformFailure, _); 2] =
        [(unavailable, EffectKnowledge::None), (died, EffectKnowledge::Unknown)];
    for (failure, effect) in table {
        let revoking: Arc<OnceLock<(Arc<dyn Notebook>, String)>> = Arc::default();
        let inside = Arc::clone(&revoking);
        let server = ScriptedServer::new(Era::Modern, &json!({}), move |_| {
            let inside = Arc::clone(&inside);
            async move {
                if let Some((notebook, key)) = inside.get() {
                    let note =
                        Note { kind: NoteKind::Revoked, key: key.clone(), value: "{}".to_owned(), expires_at: None };
                    notebook.write(note).await.unwrap();
                }
                Err(failure())
            }
        });
        let bank = Bank::new(server, vec![keyed_tool(&json!({"meta": "key"}))]);
        let core = bank.harness.engine.core();
        let requester = requester_of("acme", "ada", core.clock.now());
        let mut request = keyed("k");
        request.requester = requester.clone();
        revoking.set((Arc::clone(&core.notebook), requester.authority.credential().to_string())).unwrap();
        let refused = refusal(bank.call(request).await);
        assert_eq!((bank.calls(), refused.effect), (1, effect), "{refused:?}");
        assert!(refused.message.contains("revoked"), "{}", refused.message);
        // Without a revocation it is sent again.
        let other = requester_of("acme", "ada", core.clock.now());
        let mut request = keyed("other");
        request.requester = other;
        refusal(bank.call(request).await);
        assert_eq!(bank.calls(), 1 + 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_wants_to_be() {
    let mut reads = draft("up", "echo", false);
    reads.runtime.max_retries = 1;
    reads.runtime.timeout_ms = 5_000;
    let busy = || PerformFailure::HttpStatus { status: 503, excerpt: String::new(), retry_after_ms: Some(2_000) };
    let bank = failing(reads.clone(), vec![busy]);
    let before = tokio::time::Instant::now();
    result(bank.harness.engine.call(call(&Requester::local(), "echo", RequestTerms::default())).await);
    assert_eq!((bank.calls(), before.elapsed().as_millis()), (2, 2_000));
    let never = || PerformFailure::HttpStatus { status: 503, excerpt: String::new(), retry_after_ms: Some(60_000) };
    let bank = failing(reads, vec![never]);
    let refused = refusal(bank.harness.engine.call(call(&Requester::local(), "echo", RequestTerms::default())).await);
    assert_eq!((bank.calls(), refused.retry_after_ms), (1, Some(60_000)), "not within the caller's time");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_nothing_but_fail_is_left_alone_for_a_while() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Err(unavailable()) });
    let bank = Bank::new(server, vec![draft("up", "echo", false)]);
    let read = || bank.harness.engine.call(call(&Requester::local(), "echo", RequestTerms::default()));
    for _ in 0..10 {
        assert_eq!(refusal(read().await).retry_after_ms, None);
    }
    let refused = refusal(read().await);
    assert_eq!(refused.error_code, TaxonomyClass::DependencyUnavailable);
    assert!(refused.retryable && refused.retry_after_ms.is_some_and(|ms| ms <= 1_000), "{refused:?}");
    assert_eq!(bank.calls(), 10, "it heard nothing of it");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    read().await;
    assert_eq!(bank.calls(), 11, "one finds out");
}
