//! Dispatch marks that could not be stored, or of which it is unknown whether they were stored.

use std::sync::atomic::Ordering;

use serde_json::json;
use servanda_contract::{TaxonomyClass, ToolContract, refusal::EffectKnowledge, taxonomy::NextAction};
use servanda_effects::effect::EffectState;
use servanda_mcp::Era;

use super::{
    conversations::result,
    effects::{Bank, keyed, keyless, refusal},
};
use crate::testing::text;

#[tokio::test]
async fn a_store_that_is_away_before_refuses_and_nothing_is_sent() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "done")) });
    bank.harness.effects.down.store(true, Ordering::Relaxed);
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!((refused.error_code, refused.effect), (TaxonomyClass::DependencyUnavailable, EffectKnowledge::None));
    assert_eq!((bank.calls(), bank.effects().await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unused_mark_is_taken_back() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "done")) });
    bank.harness.effects.late.store(true, Ordering::Relaxed);
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!((refused.effect, bank.calls()), (EffectKnowledge::UnknownBefore, 0));
    bank.harness.effects.late.store(false, Ordering::Relaxed);
    while bank.states().await != [EffectState::FailedRetryable] {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    result(bank.call(keyed("k")).await);
    assert_eq!((bank.calls(), bank.states().await), (1, vec![EffectState::Completed]), "and the key is good");
}

/// Recovery sends a keyed effect again. If its mark may be stored, the call must not be reported as not executed.
#[tokio::test(start_paused = true)]
async fn what_recovery_may_still_send_is_not_called_not_executed() {
    let keyed_tool = |contract: &mut ToolContract| {
        let effect = json!({
            "class": "K", "key": { "meta": "key" }, "key_window_sec": 3600, "mutation_class": "write_irreversible",
            "manifest": [{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }]
        });
        contract.effect = Some(serde_json::from_value(effect).unwrap());
    };
    let bank = Bank::writing(keyed_tool, |_| async { Ok(text(Era::Modern, "done")) });
    bank.harness.effects.late.store(true, Ordering::Relaxed);
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!((refused.effect, bank.calls()), (EffectKnowledge::UnknownBefore, 0));
    assert_eq!(refused.next_action, NextAction::RetryWithSameKey);
    let keyless = refusal(bank.call(keyless()).await);
    assert_eq!((keyless.effect, bank.calls()), (EffectKnowledge::Unknown, 0));
    // If the store says that it stored nothing, the call was not executed.
    bank.harness.effects.late.store(false, Ordering::Relaxed);
    bank.harness.effects.down.store(true, Ordering::Relaxed);
    assert_eq!(refusal(bank.call(keyed("other")).await).effect, EffectKnowledge::None);
}
