//! What a process leaves if it dies at any point of a call: no reservation leaks, and no call that was made is forgotten.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use servanda_contract::{GateName, ToolContract, refusal::EffectKnowledge};
use servanda_effects::{
    budget::{BudgetDimension, BudgetStore as _, OPEN_MS_MAX},
    effect::EffectState,
};
use servanda_mcp::Era;

use super::{COST_MICROS, bank, costly, counted, keyless, money, reading, stands};
use crate::{
    CallRequest, Gateway as _,
    deferred::recovery::run_once,
    testing::{EngineHarness, snapshot_of, text},
    tests::effects::{Bank, HOUR_MS, keyed, refusal},
};

fn of_class(effect: Value) -> Vec<ToolContract> {
    let mut contracts = costly();
    let mut effect = effect;
    effect["mutation_class"] = json!("write_irreversible");
    effect["manifest"] = json!([{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }]);
    contracts[0].effect = Some(serde_json::from_value(effect).unwrap());
    contracts
}

/// A bank whose process ended while the server had the call, and the same bank after a restart; then the server answers.
async fn crashed(contracts: Vec<ToolContract>, request: CallRequest) -> (Bank, EngineHarness) {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let allowed = [money(COST_MICROS), counted(BudgetDimension::Write, 640)];
    let bank = bank(contracts.clone(), &allowed, move |_| {
        let is_up = is_up.load(Ordering::SeqCst);
        async move { if is_up { Ok(text(Era::Modern, "done")) } else { std::future::pending().await } }
    });
    {
        let mut calling = std::pin::pin!(bank.call(request));
        while bank.calls() == 0 {
            tokio::select! {
                biased;
                _ = &mut calling => panic!("it hangs"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    up.store(true, Ordering::SeqCst);
    let mut snapshot = snapshot_of(&bank.server, contracts);
    snapshot.allowances = Arc::from(allowed);
    let restarted = bank.harness.restarted(snapshot, bank.clock.clone());
    (bank, restarted)
}

async fn look(harness: &EngineHarness) {
    run_once(harness.engine.long_running(), &mut BTreeSet::new()).await;
}

#[tokio::test]
async fn a_process_that_dies_after_sending_leaves_it_to_the_effect() {
    let keyed_tool = || of_class(json!({"class": "K", "key": {"argument": "idem"}, "key_window_sec": 86_400}));
    // A keyed effect is sent again and completes; the outcome of the other is unknown.
    for (contracts, state, after) in [
        (keyed_tool(), EffectState::Completed, (COST_MICROS, 0, 0)),
        (costly(), EffectState::OutcomeUnknown, (0, COST_MICROS, 0)),
    ] {
        let (bank, restarted) = Box::pin(crashed(contracts, keyed("k"))).await;
        assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (0, COST_MICROS, 0));
        look(&restarted).await;
        assert_eq!(
            stands(&bank.harness, BudgetDimension::Financial).await,
            (0, COST_MICROS, 0),
            "it may still be sent"
        );
        bank.clock.pass_ms(60_000);
        look(&restarted).await;
        assert_eq!(bank.states().await, [state]);
        assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, after, "{state:?}");
        // A unit that the caller took is gone with the process, until the window is over.
        assert_eq!(stands(&bank.harness, BudgetDimension::Write).await, (0, 0, 10));
    }
}

/// The caller repeats the call before recovery does: the first dispatch was already paid for.
#[tokio::test]
async fn what_is_sent_again_by_its_caller_is_paid_for_once() {
    let contracts = of_class(json!({"class": "K", "key": {"argument": "idem"}, "key_window_sec": 86_400}));
    let (bank, restarted) = Box::pin(crashed(contracts, keyed("k"))).await;
    bank.clock.pass_ms(60_000);
    restarted.engine.call(keyed("k")).await;
    assert_eq!((bank.calls(), bank.states().await), (2, vec![EffectState::Completed]));
    restarted.budgets.sweep(9).await.unwrap();
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (COST_MICROS, 0, 0));
}

#[tokio::test]
async fn a_read_that_a_process_died_in_is_used_up_in_time() {
    let (bank, restarted) = Box::pin(crashed(costly(), reading())).await;
    look(&restarted).await;
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (0, COST_MICROS, 0));
    bank.clock.pass_ms(OPEN_MS_MAX);
    look(&restarted).await;
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (COST_MICROS, 0, 0), "it may have been sent");
}

/// The same for a read with a key: although recovery calls it not executed, it may have cost money.
#[tokio::test]
async fn a_keyed_read_that_a_process_died_in_is_used_up_too() {
    let request = CallRequest { keys: keyed("k").keys, ..reading() };
    let (bank, restarted) = Box::pin(crashed(costly(), request)).await;
    bank.clock.pass_ms(HOUR_MS);
    look(&restarted).await;
    assert_eq!(bank.states().await, [EffectState::FailedRetryable]);
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (COST_MICROS, 0, 0));
}

/// The process dies with a claim and a reservation, before the fence.
#[tokio::test]
async fn what_was_kept_back_and_never_fenced_is_given_back() {
    let bank = bank(costly(), &[money(COST_MICROS)], |_| async { Ok(text(Era::Modern, "done")) });
    bank.harness.budgets.hang_after_reserve.store(true, Ordering::Relaxed);
    {
        let mut calling = std::pin::pin!(bank.call(keyless("hello")));
        while bank.harness.budgets.entries() == 0 {
            tokio::select! {
                biased;
                _ = &mut calling => panic!("it hangs"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    assert_eq!(bank.states().await, [EffectState::Claimed]);
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (0, COST_MICROS, 0));
    let restarted = bank.harness.restarted(snapshot_of(&bank.server, costly()), bank.clock.clone());
    bank.clock.pass_ms(60_000);
    look(&restarted).await;
    assert_eq!((bank.calls(), bank.states().await), (0, vec![EffectState::FailedRetryable]));
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (0, 0, 0));
}

/// It is unknown whether the fence was made. Recovery may find it and send the call, so only the effect can decide about the reservation.
/// Here the fence is taken back, and then the reservation is released.
#[tokio::test(start_paused = true)]
async fn what_is_kept_back_for_a_doubtful_fence_is_left_to_the_effect() {
    let contracts = of_class(json!({"class": "K", "key": {"argument": "idem"}, "key_window_sec": 86_400}));
    let bank = bank(contracts, &[money(COST_MICROS)], |_| async { Ok(text(Era::Modern, "done")) });
    *bank.harness.budgets.makes_late.lock().unwrap() = Some(bank.harness.effects.clone());
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!((refused.gate, refused.effect), (GateName::Fence, EffectKnowledge::UnknownBefore), "{refused:?}");
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (0, COST_MICROS, 0));
    bank.harness.effects.late.store(false, Ordering::Relaxed);
    while bank.states().await != [EffectState::FailedRetryable] {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    bank.harness.budgets.sweep(9).await.unwrap();
    assert_eq!((bank.calls(), stands(&bank.harness, BudgetDimension::Financial).await), (0, (0, 0, 0)));
}

/// Units that are no longer needed are released, both while the process lives and when it ends.
#[tokio::test]
async fn units_are_given_back_when_their_time_is_over() {
    let bank = bank(costly(), &[counted(BudgetDimension::Write, 640)], |_| async { Ok(text(Era::Modern, "done")) });
    bank.call(keyless("hello")).await;
    assert_eq!(stands(&bank.harness, BudgetDimension::Write).await, (0, 0, 10));
    bank.clock.pass_ms(20 * 60_000);
    look(&bank.harness).await;
    assert_eq!(stands(&bank.harness, BudgetDimension::Write).await, (1, 0, 0));
}
