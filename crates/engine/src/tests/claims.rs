//! What callers are told about a key: never less than earlier dispatches of the key may have done, and nothing as done that the ledger
//! does not hold as done. Issue 15, A1 and A2.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::json;
use servanda_contract::{
    OperationKeys, TaxonomyClass, ToolContract, record::Outcome, refusal::EffectKnowledge, taxonomy::NextAction,
};
use servanda_effects::effect::EffectState;
use servanda_mcp::Era;
use servanda_upstream::PerformFailure;

use super::{
    conversations::result,
    effects::{Bank, died, keyed, keyless, refusal, write},
};
use crate::{CallRequest, testing::text};

fn keyed_tool(contract: &mut ToolContract) {
    let effect = json!({
        "class": "K", "key": { "meta": "key" }, "key_window_sec": 3600, "mutation_class": "write_irreversible",
        "manifest": [{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }]
    });
    contract.effect = Some(serde_json::from_value(effect).unwrap());
}

/// A tool that dies during the first call, cannot be reached for the second, and then answers.
fn lost_then_down(change: impl FnOnce(&mut ToolContract)) -> Bank {
    let calls = Arc::new(AtomicUsize::new(0));
    Bank::writing(change, move |_| {
        let number = calls.fetch_add(1, Ordering::SeqCst);
        async move {
            match number {
                0 => Err(died()),
                1 => Err(PerformFailure::Unavailable { why: "connection refused".to_owned() }),
                _ => Ok(text(Era::Modern, "done")),
            }
        }
    })
}

fn bad_arguments(key: &str) -> CallRequest {
    let keys = OperationKeys { idempotency_key: Some(key.to_owned()), ..OperationKeys::default() };
    write(&json!({ "nothing": "of the kind" }), keys)
}

/// A2 (a): the first dispatch may have run. That the second one did not proves nothing about the key.
#[tokio::test]
async fn an_upstream_that_is_down_takes_nothing_back() {
    let bank = lost_then_down(keyed_tool);
    assert_eq!(refusal(bank.call(keyed("k")).await).effect, EffectKnowledge::Unknown);
    let down = refusal(bank.call(keyed("k")).await);
    assert_eq!((down.effect, down.next_action), (EffectKnowledge::Unknown, NextAction::RetryWithSameKey), "{down:#?}");
    assert_eq!(bank.harness.last_record().outcome, Outcome::Unknown);
    assert_eq!(bank.states().await, [EffectState::OutcomeUnknown], "the ledger, the record and the answer agree");
    assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    // A key whose only dispatch was never sent did nothing.
    let fresh = Bank::writing(keyed_tool, |_| async {
        Err(PerformFailure::Unavailable { why: "connection refused".to_owned() })
    });
    assert_eq!(refusal(fresh.call(keyed("k")).await).effect, EffectKnowledge::None);
    assert_eq!(fresh.harness.last_record().outcome, Outcome::NotExecuted);
}

/// A2 (b): a store that can be read but not written still answers what is done.
#[tokio::test]
async fn a_store_that_only_reads_answers_what_is_done() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "done")) });
    result(bank.call(keyed("done")).await);
    bank.harness.effects.down.store(true, Ordering::Relaxed);
    assert_eq!(result(bank.call(keyed("done")).await)["content"][0]["text"], "done");
    let new = refusal(bank.call(keyed("new")).await);
    assert_eq!((new.error_code, new.effect), (TaxonomyClass::DependencyUnavailable, EffectKnowledge::None));
    assert_eq!(bank.calls(), 1);
}

/// A2 (b): a key that cannot be looked up may have been used, so its caller must not do the same in another way.
#[tokio::test]
async fn a_store_that_is_away_knows_nothing_of_earlier_calls() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "done")) });
    result(bank.call(keyed("k")).await);
    bank.harness.effects.away.store(true, Ordering::Relaxed);
    for request in [keyed("k"), bad_arguments("k")] {
        let refused = refusal(bank.call(request).await);
        assert_eq!(refused.effect, EffectKnowledge::UnknownBefore, "{refused:#?}");
        assert!(refused.hint.contains("with the same key"), "{}", refused.hint);
        assert!(!refused.hint.contains("use another tool"), "{}", refused.hint);
        assert_ne!(bank.harness.last_record().outcome, Outcome::NotExecuted);
    }
    assert_eq!(refusal(bank.call(keyless()).await).effect, EffectKnowledge::None, "an operation of its own is new");
    bank.harness.effects.away.store(false, Ordering::Relaxed);
    assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    assert_eq!(bank.calls(), 1);
}

/// A gate that refuses has not looked the key up yet; the refusal looks it up then.
#[tokio::test]
async fn a_gate_that_refuses_claims_nothing_about_an_earlier_call() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "done")) });
    assert_eq!(refusal(bank.call(bad_arguments("k")).await).effect, EffectKnowledge::None, "the key is new");
    result(bank.call(keyed("k")).await);
    let refused = refusal(bank.call(bad_arguments("k")).await);
    assert_eq!(refused.error_code, TaxonomyClass::StructuralViolation);
    assert_eq!(refused.effect, EffectKnowledge::UnknownBefore);
    assert!(refused.repairable, "and it still says what to repair");
    let reading = lost_then_down(|_| {});
    refusal(reading.call(keyed("k")).await);
    assert_eq!(refusal(reading.call(bad_arguments("k")).await).effect, EffectKnowledge::UnknownBefore);
}
