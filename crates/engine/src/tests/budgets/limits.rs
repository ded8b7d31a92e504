//! Limits: who may draw what and how often, the words of refusals, and how often the store is asked.

use std::sync::Arc;

use serde_json::json;
use servanda_authority::{
    Actor, AuthenticatedCaller, Secret,
    capability::{Delegation, RootKeys},
    rights::{Narrowing, RightsDimension as Counted},
};
use servanda_contract::{GateName, OperationKeys, TaxonomyClass, Timestamp, time::Clock as _};
use servanda_effects::budget::{BalanceQuery, BudgetDimension, BudgetStore as _, Period, chunk_size};
use servanda_gates::budget::{AllowanceFilter, AllowanceScope};
use servanda_mcp::Era;

use super::{COST_MICROS, bank, costly, counted, critical, is_refused, keyless, money, reading, stands};
use crate::{
    CallRequest, RequestTerms, Requester,
    testing::{EngineTestClock, call, draft, requester_of, text},
    tests::effects::{keyed, refusal, write},
};

#[tokio::test]
async fn what_is_critical_needs_an_allowance() {
    let none = bank(critical(), &[], |_| async { Ok(text(Era::Modern, "done")) });
    let refused = refusal(none.call(keyed("k")).await);
    assert_eq!((refused.error_code, refused.gate), (TaxonomyClass::BudgetExhausted, GateName::Budget));
    let hint = refused.operator_hint.unwrap_or_default();
    assert!(hint.contains("dimension: critical") && hint.contains("servanda.yaml"), "{hint}");
    assert_eq!(refused.budget.as_ref().map(|budget| (budget.dimension.as_str(), budget.left)), Some(("critical", 0)));
    assert_eq!((none.calls(), none.harness.budgets.entries(), none.harness.outcomes()), (0, 0, vec!["refused"]));
    let one = bank(critical(), &[counted(BudgetDimension::Critical, 1)], |_| async { Ok(text(Era::Modern, "done")) });
    one.call(keyed("k")).await;
    let refused = refusal(one.call(keyed("other")).await);
    assert_eq!((one.calls(), refused.error_code), (1, TaxonomyClass::BudgetExhausted));
}

#[tokio::test]
async fn a_refusal_says_what_is_left_and_when_it_renews() {
    let bank = bank(costly(), &[money(COST_MICROS + 500_000)], |_| async { Ok(text(Era::Modern, "done")) });
    bank.call(keyless("hello")).await;
    let refused = refusal(bank.call(keyless("again")).await);
    let budget = refused.budget.unwrap();
    assert_eq!(
        (budget.left, budget.currency.as_deref(), budget.dimension.as_str()),
        (500_000, Some("USD"), "financial")
    );
    assert_eq!(budget.account, "caller `local`, financial in USD, per day");
    let now_ms = bank.clock.now().unix_ms();
    let renews_ms = Period::Day.end_ms(Period::Day.start_ms(now_ms)).unwrap();
    assert_eq!(budget.renews_at, Some(Timestamp::from_unix_ms(renews_ms).to_string()));
    assert_eq!(refused.retry_after_ms, Some(renews_ms - now_ms));
    assert!(refused.message.contains("0.50 USD left"), "{}", refused.message);
    bank.clock.pass_ms(renews_ms - now_ms);
    assert!(!is_refused(&bank.call(keyless("again")).await), "a new day");
}

#[tokio::test]
async fn calls_that_come_too_often_are_told_when_to_come_again() {
    let mut contract = draft("up", "write", true);
    (contract.runtime.rate_limits.max_requests, contract.runtime.rate_limits.window_sec) = (2, 60);
    let bank = bank(vec![contract], &[], |_| async { Ok(text(Era::Modern, "done")) });
    for number in 0..2 {
        assert!(!is_refused(&bank.call(keyless(&number.to_string())).await));
    }
    let refused = refusal(bank.call(keyless("more")).await);
    assert_eq!((refused.error_code, refused.gate), (TaxonomyClass::RateLimited, GateName::Budget));
    assert_eq!((refused.retry_after_ms, refused.budget.unwrap().left), (Some(30_000), 0));
    assert!(refused.message.contains("2 calls in 60 s"), "{}", refused.message);
    assert_eq!(bank.calls(), 2);
    bank.clock.pass_ms(30_000);
    assert!(!is_refused(&bank.call(keyless("more")).await));
}

#[tokio::test]
async fn each_account_has_its_own() {
    let now = EngineTestClock::new().now();
    let of = |tenant: &str, principal: &str, run: Option<&str>| {
        let keys = OperationKeys { run_id: run.map(str::to_owned), ..OperationKeys::default() };
        CallRequest { keys, ..call(&requester_of(tenant, principal, now), "write", RequestTerms::default()) }
    };
    let table = [
        (
            AllowanceScope::Caller,
            vec![
                (of("a", "x", None), true),
                (of("a", "x", None), false),
                (of("a", "y", None), true),
                (of("b", "x", None), true),
            ],
        ),
        (
            AllowanceScope::Tenant,
            vec![(of("a", "x", None), true), (of("a", "y", None), false), (of("b", "x", None), true)],
        ),
        (
            AllowanceScope::Tool,
            vec![(of("a", "x", None), true), (of("a", "y", None), false), (of("b", "x", None), true)],
        ),
        (
            AllowanceScope::Run,
            vec![
                (of("a", "x", Some("1")), true),
                (of("a", "x", Some("1")), false),
                (of("a", "x", Some("2")), true),
                (of("a", "y", Some("1")), true),
                (of("a", "x", None), true),
                (of("a", "x", None), true),
            ],
        ),
    ];
    for (per, calls) in table {
        let mut allowance = money(COST_MICROS);
        (allowance.per, allowance.only) = (per, AllowanceFilter::default());
        let bank = bank(costly(), &[allowance], |_| async { Ok(text(Era::Modern, "done")) });
        for (number, (request, passes)) in calls.into_iter().enumerate() {
            assert_eq!(!is_refused(&bank.call(request).await), passes, "{per:?} {number}");
        }
    }
}

/// If a call names no run, its session is the run.
#[tokio::test]
async fn a_session_is_a_run() {
    let mut allowance = money(COST_MICROS);
    allowance.per = AllowanceScope::Run;
    let bank = bank(costly(), &[allowance], |_| async { Ok(text(Era::Modern, "done")) });
    let of = |session: &str| {
        let mut requester = Requester::local();
        Arc::make_mut(&mut requester.caller).session = Some(session.to_owned());
        call(&requester, "write", RequestTerms::default())
    };
    for (session, passes) in [("one", true), ("one", false), ("two", true)] {
        assert_eq!(!is_refused(&bank.call(of(session)).await), passes, "{session}");
    }
}

/// An agent's credential, derived from another one, with this many writes.
fn handed_on(from: &AuthenticatedCaller, writes: u64, now: Timestamp) -> AuthenticatedCaller {
    let keys = RootKeys::new("k", [("k".to_owned(), Secret::new([7; 32]))].into()).unwrap();
    let narrowing = Narrowing { budget: [(Counted::Write, writes)].into(), ..Narrowing::default() };
    let delegation = Delegation {
        actor: Actor::named("agent").unwrap(),
        actor_lineage: Vec::new(),
        actor_budgets: Vec::new(),
        narrowing,
        lifetime_ms: 600_000,
    };
    let made = keys.delegate(from, delegation, now).unwrap();
    keys.verify(made.text.as_text().unwrap(), now).unwrap()
}

#[tokio::test]
async fn what_children_of_a_credential_draw_is_drawn_under_it_too() {
    let bank = bank(vec![draft("up", "write", true)], &[], |_| async { Ok(text(Era::Modern, "done")) });
    let now = bank.clock.now();
    let parent = handed_on(&AuthenticatedCaller::local(), 3, now);
    let children = [2, 2].map(|writes| handed_on(&parent, writes, now));
    let of = |authority: &AuthenticatedCaller, text: &str| {
        let requester = Requester {
            caller: authority.caller().into(),
            authority: Arc::new(authority.clone()),
            ..Requester::local()
        };
        CallRequest { requester, ..write(&json!({ "text": text }), OperationKeys::default()) }
    };
    let table = [(0, true), (0, true), (0, false), (1, true), (1, false)];
    for (number, (child, passes)) in table.into_iter().enumerate() {
        let answer = bank.call(of(&children[child], &number.to_string())).await;
        assert_eq!(!is_refused(&answer), passes, "{number}");
    }
    // The other child has one write of its own left, but its parent has none.
    let refused = refusal(bank.call(of(&children[1], "more")).await);
    let account = refused.budget.unwrap().account;
    assert!(account.starts_with(&format!("credential `{}`", parent.credential())), "{account}");
    assert_eq!(bank.calls(), 3);
}

/// With leased budgets the store is asked once for a chunk, however many calls there are. Without budgets it is not asked at all.
#[tokio::test]
async fn leased_calls_cost_no_store() {
    const CALLS: usize = 100;
    let limit = 6_400;
    assert_eq!(chunk_size(limit), 100);
    let table = [
        (vec![], 0),
        (vec![counted(BudgetDimension::Write, 9), money(1)], 0),
        (vec![counted(BudgetDimension::Read, limit)], 1),
    ];
    for (allowed, entries) in table {
        let bank = bank(vec![draft("up", "echo", false)], &allowed, |_| async { Ok(text(Era::Modern, "read")) });
        for _ in 0..CALLS {
            assert!(!is_refused(&bank.call(reading()).await));
        }
        assert_eq!((bank.calls(), bank.harness.budgets.entries()), (CALLS, entries), "{allowed:?}");
    }
}

/// Many calls at once wait for one answer of the store, and all get the same answer.
#[tokio::test]
async fn many_at_once_ask_once() {
    let limit = 640;
    let bank = Arc::new(bank(vec![draft("up", "echo", false)], &[counted(BudgetDimension::Read, limit)], |_| async {
        Ok(text(Era::Modern, "read"))
    }));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let bank = bank.clone();
        calls.spawn(async move { is_refused(&bank.call(reading()).await) });
    }
    let refused = calls.join_all().await.into_iter().filter(|refused| *refused).count();
    assert_eq!((refused, bank.calls(), bank.harness.budgets.entries()), (0, 10, 1));
}

/// A shortage in one currency is not covered from another.
#[tokio::test]
async fn another_currency_is_refused_and_said() {
    let mut euros = money(100 * COST_MICROS);
    euros.currency = Some("EUR".to_owned());
    let bank = bank(costly(), &[euros], |_| async { Ok(text(Era::Modern, "done")) });
    let refused = refusal(bank.call(keyed("k")).await);
    assert!(refused.message.contains("USD") && refused.message.contains("EUR"), "{}", refused.message);
    assert_eq!((refused.gate, bank.calls()), (GateName::Budget, 0));
}

/// Allowances are replaced with the world, and the amounts that were drawn stay drawn.
#[tokio::test]
async fn allowances_change_with_the_world() {
    let bank = bank(costly(), &[money(COST_MICROS)], |_| async { Ok(text(Era::Modern, "done")) });
    bank.call(keyless("1")).await;
    assert!(is_refused(&bank.call(keyless("2")).await));
    let mut snapshot = crate::testing::snapshot_of(&bank.server, costly());
    snapshot.allowances = Arc::from([money(2 * COST_MICROS)]);
    bank.harness.engine.install(snapshot);
    assert!(!is_refused(&bank.call(keyless("2")).await));
    assert!(is_refused(&bank.call(keyless("3")).await));
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (2 * COST_MICROS, 0, 0));
    let standings = bank.harness.budgets.balances(BalanceQuery { tenant: None, limit: 9 }).await.unwrap();
    assert_eq!(standings[0].limit, 2 * COST_MICROS);
}
