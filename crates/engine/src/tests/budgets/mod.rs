//! Gate 11, end to end: what a call draws for every way in which it can end, and what it never draws.

mod ends;
mod left;
mod limits;

use std::sync::Arc;

use serde_json::json;
use servanda_contract::{OperationKeys, ToolContract, tool::SideEffectClass};
use servanda_effects::budget::{BalanceQuery, BudgetDimension, BudgetStore as _, Period};
use servanda_gates::budget::{Allowance, AllowanceFilter, AllowanceScope};
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};

use super::effects::{Bank, write};
use crate::{
    CallAnswer, CallRequest, RequestTerms, Requester,
    testing::{EngineHarness, EngineTestClock, ScriptedRequest, ScriptedServer, call, draft, snapshot_of},
};

/// The cost of a call of `write` or `echo` here.
pub(super) const COST_MICROS: u64 = 4_000_000;

/// The spent, reserved and leased amounts of a dimension.
pub(super) type Stands = (u64, u64, u64);

pub(super) fn money(amount_micros: u64) -> Allowance {
    let currency = Some("USD".to_owned());
    Allowance { dimension: BudgetDimension::Financial, currency, ..counted(BudgetDimension::Financial, amount_micros) }
}

pub(super) fn counted(dimension: BudgetDimension, amount: u64) -> Allowance {
    Allowance {
        per: AllowanceScope::Caller,
        only: AllowanceFilter::default(),
        dimension,
        currency: None,
        amount,
        period: Period::Day,
    }
}

/// `write` and `echo`, whose calls cost money.
pub(super) fn costly() -> Vec<ToolContract> {
    let cost = json!({"currency": "USD", "cost_per_call": 3.5, "cost_unit": "call",
        "components": {"network": 0.2, "human_review": 0.3}});
    [draft("up", "write", true), draft("up", "echo", false)]
        .map(|mut contract| {
            contract.runtime.cost_profile = serde_json::from_value(cost.clone()).unwrap();
            contract
        })
        .to_vec()
}

fn critical() -> Vec<ToolContract> {
    let mut contract = draft("up", "write", true);
    contract.transactional.side_effect_class = SideEffectClass::CriticalMutation;
    vec![contract]
}

/// A bank with these allowances.
pub(super) fn bank<F>(
    contracts: Vec<ToolContract>,
    allowances: &[Allowance],
    script: impl Fn(ScriptedRequest) -> F + Send + Sync + 'static,
) -> Bank
where
    F: Future<Output = Result<Answer, PerformFailure>> + Send + 'static,
{
    let server = ScriptedServer::new(Era::Modern, &json!({}), script);
    let clock = EngineTestClock::new();
    let mut snapshot = snapshot_of(&server, contracts);
    snapshot.allowances = Arc::from(allowances);
    let harness = EngineHarness::in_snapshot(snapshot, Arc::default(), clock.clone());
    Bank { harness, server, clock }
}

pub(super) async fn stands(harness: &EngineHarness, dimension: BudgetDimension) -> Stands {
    let standings = harness.budgets.balances(BalanceQuery { tenant: None, limit: 100 }).await.unwrap();
    let mut of = standings.iter().filter(|standing| standing.account.dimension == dimension);
    let found = of.next().map_or((0, 0, 0), |one| (one.spent, one.reserved, one.leased));
    assert!(of.next().is_none(), "there is one account of each in these tests");
    found
}

fn keyless(text: &str) -> CallRequest {
    write(&json!({ "text": text }), OperationKeys::default())
}

fn reading() -> CallRequest {
    call(&Requester::local(), "echo", RequestTerms::default())
}

fn is_refused(answer: &CallAnswer) -> bool {
    matches!(answer, CallAnswer::Result(result) if result.is_error)
}
