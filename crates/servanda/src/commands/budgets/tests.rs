//! The text about budgets that people read.

use std::sync::Arc;

use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::{
    budget::{
        Account, AccountEntry, BudgetDimension, BudgetHoldId, BudgetScope, BudgetStore as _, ChunkLease, ClosedBy,
        Draw, InMemoryBudgets, Period, Reservation,
    },
    effect::{EffectId, InMemoryEffects},
};

use super::{page, read_report};
use crate::cli::BudgetsArgs;

const NOW: Timestamp = Timestamp::from_unix_ms(1_794_735_332_007);

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }
}

fn account(scope: BudgetScope, dimension: BudgetDimension, period: Period) -> Account {
    let currency = (dimension == BudgetDimension::Financial).then(|| "USD".to_owned());
    Account { scope, dimension, currency, period, tool: None, principal: None }
}

/// Accounts and reservations of every kind.
async fn books() -> InMemoryBudgets {
    let budgets = InMemoryBudgets::new(Arc::new(Still), Arc::new(InMemoryEffects::new(Arc::new(Still))));
    let caller = BudgetScope::Caller { tenant: "acme".to_owned(), principal: "ada".to_owned() };
    let money = account(caller.clone(), BudgetDimension::Financial, Period::Day);
    let pay = |id: &str, amount: u64| {
        let draws = vec![Draw { account: money.clone(), limit: 50_000_000, amount }];
        let effect = Some(EffectId::from(format!("eff_{id}")));
        AccountEntry::Reserve(Reservation { id: BudgetHoldId::from(id.to_owned()), effect, draws })
    };
    let reads = account(BudgetScope::Tenant("other".to_owned()), BudgetDimension::Read, Period::Hour);
    let run =
        BudgetScope::Run { tenant: "acme".to_owned(), principal: "ada".to_owned(), run: "r-1\u{1b}[2J".to_owned() };
    let critical = vec![Draw { account: account(run, BudgetDimension::Critical, Period::Total), limit: 1, amount: 1 }];
    for entry in [
        pay("call_1", 12_340_000),
        pay("call_2", 5),
        AccountEntry::Settle { id: BudgetHoldId::from("call_1".to_owned()), cost_micros: None, by: ClosedBy::Caller },
        AccountEntry::Lease(ChunkLease {
            id: BudgetHoldId::from("lea_1".to_owned()),
            account: reads,
            limit: 1_000,
            wanted: 15,
        }),
        AccountEntry::Reserve(Reservation {
            id: BudgetHoldId::from("call_3".to_owned()),
            effect: None,
            draws: critical,
        }),
    ] {
        budgets.apply_entry(entry).await.unwrap();
    }
    budgets
}

#[tokio::test]
async fn how_they_stand_is_shown() {
    let args = BudgetsArgs { tenant: None, limit: 100 };
    let mut shown = read_report(&books().await, &args).await.unwrap();
    shown.accounts.sort_by_key(|shown| shown.standing.account.to_string());
    shown.reservations.sort_by_key(|hold| hold.id.clone());
    insta::assert_snapshot!("budgets", page::page(&shown, Timestamp::from_unix_ms(NOW.unix_ms() + 61_000)));
    insta::assert_json_snapshot!("budgets_json", shown);
}

#[tokio::test]
async fn a_tenant_sees_its_own() {
    let args = BudgetsArgs { tenant: Some("other".to_owned()), limit: 100 };
    let shown = read_report(&books().await, &args).await.unwrap();
    assert_eq!((shown.accounts.len(), shown.reservations.len()), (1, 0));
    assert_eq!(shown.accounts[0].standing.leased, 15);
}
