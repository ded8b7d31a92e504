//! What a call draws, for every way in which it can end: the amount is reserved before the call is sent, spent if the call was made,
//! released if it provably was not, and stays reserved while the outcome is unknown.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use servanda_contract::{CallRecord, GateName, TaxonomyClass, record::Decision};
use servanda_effects::{
    budget::{BudgetDimension, BudgetStore as _, OPEN_MS_MAX, SweepReport},
    effect::{EffectChange, EffectEvent, EffectState, EffectStore as _, EffectTarget, ManualSettlement},
};
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};
use tokio_util::sync::CancellationToken;

use super::{COST_MICROS, Stands, bank, costly, counted, critical, keyless, money, reading, stands};
use crate::{
    CallRequest, RequestTerms,
    testing::{again, call, rejected, requester, said, text},
    tests::{
        conversations::{input, result},
        effects::{Bank, died, keyed, refusal},
    },
};

const NOTHING: Stands = (0, 0, 0);
const SPENT: Stands = (COST_MICROS, 0, 0);
const KEPT: Stands = (0, COST_MICROS, 0);

/// How an upstream can answer.
type Way = fn() -> Result<Answer, PerformFailure>;

fn ways() -> [(&'static str, Way, Stands, Stands, u64); 8] {
    let done: Way = || Ok(text(Era::Modern, "done"));
    let tool_error: Way = || Ok(said(Era::Modern, &json!({"isError": true, "content": []})));
    let broken: Way = || Ok(said(Era::Modern, &json!({"content": "no list"})));
    let unavailable: Way = || Err(PerformFailure::Unavailable { why: "refused".to_owned() });
    let timed_out: Way = || Err(PerformFailure::TimedOut { note: None });
    let malformed: Way = || Err(PerformFailure::Malformed { why: "no JSON".to_owned() });
    let rejects: Way = || Err(rejected(-32602, "no such argument", None));
    // the state of a write and of a read, in money; how many calls were used up
    [
        ("done", done, SPENT, SPENT, 1),
        ("the tool says it failed", tool_error, SPENT, SPENT, 1),
        ("the answer is unusable", broken, SPENT, SPENT, 1),
        ("the server was not there", unavailable, NOTHING, NOTHING, 0),
        ("the connection was lost", || Err(died()), KEPT, SPENT, 1),
        ("no answer in time", timed_out, KEPT, SPENT, 1),
        ("no answer at all", malformed, KEPT, SPENT, 1),
        ("the server rejects it", rejects, KEPT, SPENT, 1),
    ]
}

#[tokio::test]
async fn what_a_call_draws_is_settled_by_how_it_ended() {
    for (name, way, of_write, of_read, units) in ways() {
        let allowed =
            [money(10 * COST_MICROS), counted(BudgetDimension::Write, 6_400), counted(BudgetDimension::Read, 6_400)];
        let keyless_bank = bank(costly(), &allowed, move |_| async move { way() });
        keyless_bank.call(keyless("hello")).await;
        assert_eq!(stands(&keyless_bank.harness, BudgetDimension::Financial).await, of_write, "write: {name}");
        let keyed_bank = bank(costly(), &allowed, move |_| async move { way() });
        keyed_bank.call(keyed("k")).await;
        assert_eq!(stands(&keyed_bank.harness, BudgetDimension::Financial).await, of_write, "keyed write: {name}");
        let reads = bank(costly(), &allowed, move |_| async move { way() });
        reads.call(reading()).await;
        assert_eq!(stands(&reads.harness, BudgetDimension::Financial).await, of_read, "read: {name}");
        let keyed_reads = bank(costly(), &allowed, move |_| async move { way() });
        keyed_reads.call(CallRequest { keys: keyed("k").keys, ..reading() }).await;
        assert_eq!(stands(&keyed_reads.harness, BudgetDimension::Financial).await, of_read, "keyed read: {name}");
        for (bank, dimension) in [(&keyless_bank, BudgetDimension::Write), (&reads, BudgetDimension::Read)] {
            assert_eq!(stands(&bank.harness, dimension).await, (0, 0, 100), "leased in one: {name}");
            bank.harness.engine.return_budget_units().await;
            assert_eq!(stands(&bank.harness, dimension).await, (units, 0, 0), "{dimension:?}: {name}");
        }
    }
}

#[tokio::test]
async fn the_gate_is_in_the_trail_and_comes_before_the_fence() {
    let table = [
        (vec![], vec![GateName::Confirmation, GateName::Budget, GateName::Fence]),
        (vec![money(10 * COST_MICROS)], vec![GateName::Confirmation, GateName::Budget, GateName::Fence]),
    ];
    for (allowed, order) in table {
        let bank = bank(costly(), &allowed, |_| async { Ok(text(Era::Modern, "done")) });
        bank.call(keyed("k")).await;
        let CallRecord { verdicts, price, .. } = bank.harness.last_record();
        let price = price.map(|price| price.to_string());
        assert_eq!(price.as_deref(), Some("4.00 USD: external API 3.50, network 0.20, human review 0.30"));
        let gates: Vec<GateName> = verdicts.iter().map(|verdict| verdict.gate).collect();
        assert!(gates.windows(3).any(|window| window == order), "{gates:?}");
        assert!(verdicts.iter().all(|verdict| verdict.decision == Decision::Passed));
    }
}

/// The reservation of an unknown outcome stays until a person settles the effect; then it is spent or released.
#[tokio::test]
async fn an_unknown_outcome_stays_reserved_until_a_person_settles_it() {
    for (completed, settled) in [(true, SPENT), (false, NOTHING)] {
        let bank = bank(costly(), &[money(COST_MICROS)], |_| async { Err(died()) });
        bank.call(keyed("k")).await;
        assert_eq!(bank.states().await, [EffectState::OutcomeUnknown]);
        bank.clock.pass_ms(2 * OPEN_MS_MAX);
        assert_eq!(bank.harness.budgets.sweep(9).await.unwrap(), SweepReport::default());
        assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, KEPT);
        let refused = refusal(bank.call(keyed("other")).await);
        assert_eq!((refused.error_code, refused.gate), (TaxonomyClass::BudgetExhausted, GateName::Budget));
        settle_by_hand(&bank, completed).await;
        bank.harness.budgets.sweep(9).await.unwrap();
        assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, settled);
    }
}

async fn settle_by_hand(bank: &Bank, completed: bool) {
    let effects = bank.effects().await;
    let unknown = effects.iter().find(|effect| effect.state == EffectState::OutcomeUnknown).unwrap();
    let by_hand =
        ManualSettlement { epoch: None, completed, by: "ada".to_owned(), evidence: "the statement".to_owned() };
    let change = EffectChange {
        target: EffectTarget::Id(unknown.id.clone()),
        event: EffectEvent::SettleByHand(by_hand),
        record: None,
        quarantine: None,
        notices: Vec::new(),
        consumes: None,
    };
    bank.harness.effects.apply(change).await.unwrap();
}

#[tokio::test]
async fn a_replay_costs_nothing_even_when_nothing_is_left() {
    let allowed = [money(COST_MICROS), counted(BudgetDimension::Write, 1)];
    let bank = bank(costly(), &allowed, |_| async { Ok(text(Era::Modern, "done")) });
    for _ in 0..3 {
        assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    }
    assert_eq!(bank.calls(), 1);
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, SPENT);
    let refused = refusal(bank.call(keyed("another")).await);
    assert_eq!(refused.error_code, TaxonomyClass::BudgetExhausted);
    assert_eq!(bank.calls(), 1);
}

/// The same for a read with a key: the amount is reserved before it is known that the read was answered before.
#[tokio::test]
async fn a_read_that_was_answered_before_is_given_back() {
    let bank = bank(costly(), &[money(2 * COST_MICROS)], |_| async { Ok(text(Era::Modern, "read")) });
    let named = || CallRequest { keys: keyed("k").keys, ..reading() };
    for _ in 0..3 {
        assert_eq!(result(bank.call(named()).await)["content"][0]["text"], "read");
        assert_eq!((bank.calls(), stands(&bank.harness, BudgetDimension::Financial).await), (1, SPENT));
    }
}

#[tokio::test]
async fn a_cached_read_costs_nothing() {
    let mut contracts = costly();
    contracts[1].execution.as_mut().unwrap().cache_ttl_sec = Some(60);
    let bank = bank(contracts, &[money(COST_MICROS), counted(BudgetDimension::Read, 1)], |_| async {
        Ok(text(Era::Modern, "read"))
    });
    for _ in 0..3 {
        assert_eq!(result(bank.call(reading()).await)["content"][0]["text"], "read");
    }
    assert_eq!((bank.calls(), stands(&bank.harness, BudgetDimension::Financial).await), (1, SPENT));
    let last = bank.harness.last_record().verdicts;
    assert!(last.iter().any(|verdict| (verdict.gate, verdict.decision) == (GateName::Budget, Decision::Skipped)));
}

#[tokio::test]
async fn a_retry_inside_a_call_draws_once() {
    let mut contracts = costly();
    contracts[1].runtime.max_retries = 2;
    let made = std::sync::atomic::AtomicUsize::new(0);
    let bank = bank(contracts, &[money(10 * COST_MICROS)], move |_| {
        let first = made.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if first { Err(died()) } else { Ok(text(Era::Modern, "read")) } }
    });
    assert_eq!(result(bank.call(reading()).await)["content"][0]["text"], "read");
    assert_eq!((bank.calls(), stands(&bank.harness, BudgetDimension::Financial).await), (2, SPENT));
}

#[tokio::test]
async fn a_caller_that_gives_up_before_anything_is_sent_pays_nothing() {
    let mut contracts = costly();
    contracts[0].preconditions = serde_json::from_value(json!([{
        "id": "open", "tool": "up.echo", "arguments": {"text": "{text}"},
        "expect": {"rule": "true", "message": "closed"},
    }]))
    .unwrap();
    let cancel = CancellationToken::new();
    let given_up = cancel.clone();
    let bank = bank(contracts, &[money(COST_MICROS), counted(BudgetDimension::Write, 64)], move |_| {
        given_up.cancel();
        std::future::pending()
    });
    let terms = RequestTerms { cancel, ..RequestTerms::default() };
    let refused = refusal(bank.call(CallRequest { terms, ..keyed("k") }).await);
    assert_eq!(refused.effect, servanda_contract::refusal::EffectKnowledge::None, "{refused:?}");
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, NOTHING);
    bank.harness.engine.return_budget_units().await;
    assert_eq!(stands(&bank.harness, BudgetDimension::Write).await, NOTHING);
}

/// Questions that the gateway asks on its own account draw nothing; here a contract has a precondition.
#[tokio::test]
async fn the_gateways_own_questions_draw_nothing() {
    let mut contracts = costly();
    contracts[0].preconditions = serde_json::from_value(json!([{
        "id": "open", "tool": "up.echo", "arguments": {"text": "{text}"},
        "expect": {"rule": "result.open", "message": "closed"},
    }]))
    .unwrap();
    let allowed = [money(COST_MICROS), counted(BudgetDimension::Read, 0)];
    let bank = bank(contracts, &allowed, |_| async {
        Ok(said(Era::Modern, &json!({"content": [], "structuredContent": {"open": true}})))
    });
    assert_eq!(result(bank.call(keyed("k")).await)["isError"], Value::Null);
    assert_eq!((bank.calls(), stands(&bank.harness, BudgetDimension::Financial).await), (2, SPENT));
}

/// A call that is asked something on the way is one operation: its reservation lasts until the end, and it draws once.
#[tokio::test]
async fn what_goes_on_after_a_question_is_drawn_once() {
    let asks = json!({"name": {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}}});
    let bank = bank(costly(), &[money(COST_MICROS)], move |heard| {
        let answered = heard.delivery.continuation.input_responses.is_some();
        let asks = asks.clone();
        async move {
            Ok(if answered {
                text(Era::Modern, "done")
            } else {
                said(
                    Era::Modern,
                    &json!({"resultType": "input_required", "inputRequests": asks, "requestState": "one"}),
                )
            })
        }
    });
    let asked_requester = requester(Era::Modern, &json!({"elicitation": {}}));
    let asked = input(
        bank.call(CallRequest { keys: keyed("k").keys, ..call(&asked_requester, "write", RequestTerms::default()) })
            .await,
    );
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, KEPT);
    let terms = again(&asked["requestState"], &json!({"name": {"action": "accept", "content": {}}}));
    let request = CallRequest { keys: keyed("k").keys, ..call(&asked_requester, "write", terms) };
    assert_eq!(result(bank.call(request).await)["content"][0]["text"], "done");
    bank.harness.budgets.sweep(9).await.unwrap();
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, SPENT);
}

#[tokio::test]
async fn a_store_that_is_away_refuses_what_needs_it_and_nothing_else() {
    let table = [
        (costly(), vec![money(COST_MICROS)], keyed("k"), true),
        (costly(), vec![money(COST_MICROS)], reading(), true),
        (costly(), vec![counted(BudgetDimension::Write, 64)], keyed("k"), true),
        (critical(), vec![counted(BudgetDimension::Critical, 9)], keyed("k"), true),
        (costly(), vec![counted(BudgetDimension::Critical, 9)], keyed("k"), false),
        (costly(), vec![], keyed("k"), false),
    ];
    for (contracts, allowed, request, needs_it) in table {
        let bank = bank(contracts, &allowed, |_| async { Ok(text(Era::Modern, "done")) });
        bank.harness.budgets.down.store(true, Ordering::Relaxed);
        let answer = bank.call(request).await;
        assert_eq!(bank.calls(), usize::from(!needs_it), "{allowed:?}");
        if !needs_it {
            assert_eq!(bank.harness.budgets.entries(), 0, "{allowed:?}");
            continue;
        }
        let refused = refusal(answer);
        assert_eq!((refused.error_code, refused.gate), (TaxonomyClass::DependencyUnavailable, GateName::Budget));
        bank.harness.budgets.down.store(false, Ordering::Relaxed);
        assert_eq!(stands(&bank.harness, allowed[0].dimension).await.1, 0);
        assert!(bank.states().await.iter().all(|state| *state == EffectState::FailedRetryable));
    }
}

/// The store made the reservation but could not say so: nothing is sent, and nothing stays reserved.
#[tokio::test]
async fn a_reservation_whose_confirmation_was_lost_is_released() {
    for request in [keyed("k"), keyless("hello"), reading()] {
        let bank = bank(costly(), &[money(COST_MICROS)], |_| async { Ok(text(Era::Modern, "done")) });
        bank.harness.budgets.deaf.store(true, Ordering::Relaxed);
        let refused = refusal(bank.call(request).await);
        assert_eq!((refused.error_code, refused.gate), (TaxonomyClass::DependencyUnavailable, GateName::Budget));
        assert_eq!((bank.calls(), stands(&bank.harness, BudgetDimension::Financial).await), (0, NOTHING));
    }
}

#[tokio::test]
async fn seconds_are_kept_back_in_full_and_settled_as_they_were() {
    let mut contracts = costly();
    contracts[0].runtime.cost_profile =
        serde_json::from_value(json!({"currency": "USD", "cost_per_call": 0.01, "cost_unit": "second"})).unwrap();
    let timeout_s = contracts[0].timeout_ms().div_ceil(1_000);
    let (kept, clock) =
        (std::sync::Arc::new(std::sync::Mutex::new(None)), std::sync::Arc::new(std::sync::OnceLock::new()));
    let (inside, time) = (kept.clone(), clock.clone());
    let bank = bank(contracts, &[money(1_000_000_000)], move |_| {
        let (inside, time) = (inside.clone(), time.clone());
        async move {
            let (clock, budgets): &(
                std::sync::Arc<crate::testing::EngineTestClock>,
                std::sync::Arc<crate::testing::CountedBudgets>,
            ) = time.get().unwrap();
            let query = servanda_effects::budget::BalanceQuery { tenant: None, limit: 1 };
            *inside.lock().unwrap() = Some(budgets.balances(query).await.unwrap()[0].reserved);
            clock.pass_ms(1_500);
            Ok(text(Era::Modern, "done"))
        }
    });
    clock.set((bank.clock.clone(), bank.harness.budgets.clone())).unwrap();
    bank.call(keyed("k")).await;
    assert_eq!(*kept.lock().unwrap(), Some(timeout_s * 10_000));
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (20_000, 0, 0), "a second and a half is two");
}
