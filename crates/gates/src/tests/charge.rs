//! Gate 11 as types: nothing is fenced that it has not cleared, nothing that draws exactly is fenced before it is kept back.

use std::sync::Arc;

use serde_json::{Value, json};
use servanda_authority::{AuthenticatedCaller, rights};
use servanda_contract::GateName;

use super::{
    admitted,
    authority::{NOW, holder, judged},
    fence::{effects, intent, now},
};
use crate::{
    FenceProgress, NotFencedReason, Permit, begin,
    budget::{
        Allowance, AllowanceFilter, AllowanceScope, BudgetSources, Cleared, DrawError, FundingError, NotCleared,
        NotClearedReason, PricedCall, RateCheckedCall, ToolRateLimiter, UnitLeaseProgress,
    },
    fence, fence_funded, fund,
};
use servanda_effects::{
    budget::{BalanceQuery, BudgetDimension, BudgetScope, BudgetStore as _, Chunks, InMemoryBudgets, Period},
    effect::{ClientKey, EffectState, EffectStore as _, EffectTarget, InMemoryEffects},
};

const LEASE_MS: u64 = 1_000;

fn permit(authenticated: &AuthenticatedCaller, changes: &[(&str, Value)]) -> Permit {
    judged(&admitted(changes), authenticated, "", NOW).unwrap()
}

fn costly() -> [(&'static str, Value); 1] {
    [("/runtime/cost_profile/cost_per_call", json!(2.5))]
}

fn allowance(dimension: BudgetDimension, amount: u64) -> Allowance {
    let currency = (dimension == BudgetDimension::Financial).then(|| "EUR".to_owned());
    Allowance {
        per: AllowanceScope::Caller,
        only: AllowanceFilter::default(),
        dimension,
        currency,
        amount,
        period: Period::Day,
    }
}

fn charge(
    permit: Permit,
    authenticated: &AuthenticatedCaller,
    allowances: &[Allowance],
) -> Result<PricedCall, Box<NotCleared>> {
    PricedCall::new(permit, &BudgetSources { allowances, authenticated, run: None })
}

fn paced(permit: Permit, authenticated: &AuthenticatedCaller, allowances: &[Allowance]) -> RateCheckedCall {
    charge(permit, authenticated, allowances).unwrap().check_rate(&mut ToolRateLimiter::new(8), 0).unwrap()
}

fn cleared(authenticated: &AuthenticatedCaller, changes: &[(&str, Value)], allowances: &[Allowance]) -> Cleared {
    paced(permit(authenticated, changes), authenticated, allowances).clear().unwrap()
}

/// Books and effects that know each other.
fn stores() -> (Arc<InMemoryEffects>, InMemoryBudgets) {
    let effects = Arc::new(effects());
    (effects.clone(), InMemoryBudgets::new(Arc::new(super::fence::Still::default()), effects))
}

fn reserved(budgets: &InMemoryBudgets) -> Vec<u64> {
    let standings = now(budgets.balances(BalanceQuery { tenant: None, limit: 9 })).unwrap();
    standings.iter().map(|standing| standing.reserved).collect()
}

#[test]
fn what_no_allowance_is_about_is_cleared_and_fenced_at_once() {
    let ada = holder(|_| {});
    let cleared =
        cleared(&ada, &costly(), &[allowance(BudgetDimension::Critical, 1), allowance(BudgetDimension::Read, 1)]);
    assert!(!cleared.is_due());
    let intent = intent(cleared.permit(), ClientKey::Given("k".to_owned()));
    assert!(now(fence(cleared, intent, &effects())).is_ok());
}

#[test]
fn what_is_due_is_claimed_kept_back_for_its_effect_and_then_fenced() {
    let ada = holder(|_| {});
    let (effects, budgets) = stores();
    let one = cleared(&ada, &costly(), &[allowance(BudgetDimension::Financial, 4_000_000)]);
    // There is no way around it.
    let refused = {
        let intent = intent(one.permit(), ClientKey::Given("k".to_owned()));
        now(fence(one, intent, effects.as_ref())).unwrap_err()
    };
    let NotFencedReason::NotOnRecord(refusal) = refused.why else { panic!("it was begun") };
    assert!(refusal.message.contains("kept back first") && refusal.gate == GateName::Fence, "{refusal:?}");
    let begun = |cleared: Cleared, key: &str| {
        let intent = intent(cleared.permit(), ClientKey::Given(key.to_owned()));
        match now(begin(cleared, intent, LEASE_MS, effects.as_ref())).unwrap() {
            FenceProgress::Claimed(claimed) => *claimed,
            FenceProgress::Fenced(fenced) => panic!("it was let out: {fenced:?}"),
        }
    };
    let claimed = begun(refused.cleared, "k");
    let (id, record) =
        (claimed.claim().unwrap().id.clone(), intent(claimed.permit(), ClientKey::Given("k".to_owned())).record);
    assert!(reserved(&budgets).is_empty());
    let funded = now(fund(claimed.judge(&[]).unwrap(), &budgets)).unwrap();
    assert_eq!(reserved(&budgets), [2_500_000]);
    let held = now(budgets.open_reservations(0, 9)).unwrap();
    assert_eq!(held[0].effect.as_ref(), Some(&id), "whoever finds it knows what it is for");
    let fenced = now(fence_funded(funded, record, effects.as_ref())).unwrap();
    assert_eq!(fenced.claim().unwrap().id, id);
    assert_eq!(now(effects.find(EffectTarget::Id(id))).unwrap().unwrap().state, EffectState::Dispatching);
}

#[test]
fn what_is_not_enough_lets_nothing_out() {
    let ada = holder(|_| {});
    let (effects, budgets) = stores();
    let cleared = cleared(&ada, &costly(), &[allowance(BudgetDimension::Financial, 2_000_000)]);
    let intent = intent(cleared.permit(), ClientKey::Given("k".to_owned()));
    let FenceProgress::Claimed(claimed) = now(begin(cleared, intent, LEASE_MS, effects.as_ref())).unwrap() else {
        panic!("it was let out")
    };
    let FundingError::Exhausted(exhausted) = now(fund(claimed.judge(&[]).unwrap(), &budgets)).unwrap_err() else {
        panic!("it was paid for")
    };
    assert_eq!((exhausted.left, exhausted.account.dimension), (2_000_000, BudgetDimension::Financial));
    assert!(reserved(&budgets).is_empty());
}

/// What makes the contract one of a tool that only reads.
fn only_reads() -> [(&'static str, Value); 6] {
    [
        ("/transactional/side_effect_class", json!("READ_ONLY")),
        ("/effect", json!({"class": "R", "mutation_class": "read_only"})),
        ("/transactional/semantics", json!("read_only")),
        ("/transactional/compensation_tool", Value::Null),
        ("/behaviour", Value::Null),
        ("/preconditions", json!([])),
    ]
}

#[test]
fn what_changes_nothing_is_kept_back_alone_and_then_fenced_in_one() {
    let ada = holder(|_| {});
    let (effects, budgets) = stores();
    let mut changes = vec![("/runtime/cost_profile/cost_per_call", json!(2.5))];
    changes.extend(only_reads());
    let cleared = cleared(&ada, &changes, &[allowance(BudgetDimension::Financial, 4_000_000)]);
    assert!(cleared.is_due());
    let cleared = now(cleared.reserve_alone(&budgets)).unwrap();
    assert!(!cleared.is_due());
    assert_eq!(reserved(&budgets), [2_500_000]);
    assert_eq!(now(budgets.open_reservations(0, 9)).unwrap()[0].effect, None);
    let intent = intent(cleared.permit(), ClientKey::Call(cleared.permit().call_id().clone()));
    assert!(now(fence(cleared, intent, effects.as_ref())).is_ok());
}

#[test]
fn the_gateways_own_questions_are_free_and_change_nothing() {
    let ask = |changes: &[(&str, Value)]| {
        let ticks = super::Ticks(std::sync::atomic::AtomicU64::new(0));
        let resolved = crate::ResolvedCall::new(
            Box::new(super::proposal(super::booking(&json!({})).to_string())),
            admitted(changes),
        );
        crate::pass_question(resolved, super::LIMITS, &mut crate::Trail::new(&ticks))
    };
    let refusal = ask(&[]).unwrap_err();
    assert!(refusal.message.contains("changes something, so it is not asked"), "{}", refusal.message);
    assert!(!ask(&only_reads()).unwrap().is_due());
}

#[test]
fn it_is_the_tools_rate_and_units_are_taken_or_asked_for() {
    let ada = holder(|_| {});
    let rate = [("/runtime/rate_limits/max_requests", json!(1))];
    let (mut rates, mut chunks) = (ToolRateLimiter::new(8), Chunks::default());
    let allowances = [allowance(BudgetDimension::Write, 2)];
    let mut pace = |now_ms| charge(permit(&ada, &rate), &ada, &allowances).unwrap().check_rate(&mut rates, now_ms);
    let first = pace(0).unwrap();
    let NotClearedReason::TooOften(denied, _) = pace(1_000).unwrap_err().why else { panic!("for another reason") };
    assert_eq!(denied.retry_after_ms, 59_000);
    assert!(pace(60_000).is_ok());
    let paced = first.clear().unwrap_err();
    let UnitLeaseProgress::First(paced, entries) = paced.lease(&mut chunks, 0) else {
        panic!("there was nothing to take")
    };
    let (_, budgets) = stores();
    for entry in entries {
        let booked = now(budgets.apply_entry(entry.clone())).unwrap();
        chunks.record_reply(&entry, Some(&booked), 0);
    }
    let UnitLeaseProgress::Cleared(cleared, ticket) = paced.lease(&mut chunks, 0) else { panic!("there is one") };
    assert!(!cleared.is_due());
    assert_ne!(ticket, servanda_effects::budget::UnitTicket::default());
}

/// Critical is zero unless the operator allowed it; a credential only takes away.
#[test]
fn what_nobody_allowed_to_be_critical_is_refused_whatever_the_credential_says() {
    let critical = [("/transactional/side_effect_class", json!("CRITICAL_MUTATION"))];
    let ada = holder(|rights| rights.budget = [(rights::RightsDimension::Critical, 3)].into());
    let refused = charge(permit(&ada, &critical), &ada, &[]).unwrap_err();
    let NotClearedReason::Undrawable(DrawError::Exhausted(exhausted)) = refused.why else {
        panic!("it was let through")
    };
    assert_eq!((exhausted.left, exhausted.renews_at_ms), (0, None));
    let cleared = cleared(&ada, &critical, &[allowance(BudgetDimension::Critical, 5)]);
    assert!(cleared.is_due());
    let (effects, budgets) = stores();
    let intent = intent(cleared.permit(), ClientKey::Given("k".to_owned()));
    let FenceProgress::Claimed(claimed) = now(begin(cleared, intent, LEASE_MS, effects.as_ref())).unwrap() else {
        panic!("it was let out")
    };
    now(fund(claimed.judge(&[]).unwrap(), &budgets)).unwrap();
    let standings = now(budgets.balances(BalanceQuery { tenant: None, limit: 9 })).unwrap();
    let mut limits: Vec<(u64, bool)> = standings
        .iter()
        .map(|standing| (standing.limit, matches!(standing.account.scope, BudgetScope::Credential { .. })))
        .collect();
    limits.sort_unstable();
    assert_eq!(limits, [(3, true), (5, false)], "both are drawn on");
}

/// A tool that could drop tables is critical; a call that inserts a row through it is not.
#[test]
fn a_call_is_counted_by_the_program_that_it_brings() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["query"],
        "properties": { "query": { "type": "string", "x-effect": { "kind": "sqlite", "decides_class": true } } },
    });
    let contract = super::admitted(&[
        ("/transactional/side_effect_class", json!("CRITICAL_MUTATION")),
        ("/affordance/input_schema", schema),
        ("/affordance/examples", json!([])),
        ("/rules", json!([])),
    ]);
    let ada = holder(|_| ());
    let judged = |query: &str| {
        let permit = super::call(&contract, json!({ "query": query }).to_string()).0.unwrap();
        charge(permit, &ada, &[])
    };
    assert!(judged("insert into t values (1)").is_ok());
    assert!(judged("select 1").is_ok());
    for query in ["drop table t", "delete from t", "not sql"] {
        let refused = judged(query).unwrap_err();
        assert!(matches!(refused.why, NotClearedReason::Undrawable(DrawError::Exhausted(_))), "{query}");
    }
}
