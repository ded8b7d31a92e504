//! What a call costs, and what it draws on.

use servanda_contract::{
    cost::{Cost, CostError, Price, micros_of},
    tool::{CostComponents, CostProfile, CostUnit, SideEffectClass},
};
use servanda_effects::budget::{BudgetDimension, Period};

use SideEffectClass as Class;

use crate::budget::{
    Allowance, AllowanceFilter, AllowanceScope, DrawError,
    allowance::{BudgetedCall, draws},
};

#[test]
fn costs_become_millionths_once_and_never_less() {
    let table = [
        (0.0, Ok(0)),
        (-0.0, Ok(0)),
        (0.07, Ok(70_000)),
        (0.1, Ok(100_000)),
        (1.1, Ok(1_100_000)),
        (0.000_001, Ok(1)),
        (0.000_000_1, Ok(1)),
        (0.000_001_000_1, Ok(2)),
        (1e-300, Ok(1)),
        (12.345_678_9, Ok(12_345_679)),
        (18_446_744_073_709.0, Ok(18_446_744_073_709_000_000)),
        (18_446_744_073_710.0, Err(CostError::TooMuch)),
        (1e300, Err(CostError::TooMuch)),
        (f64::INFINITY, Err(CostError::NotACost)),
        (f64::NAN, Err(CostError::NotACost)),
        (-1.0, Err(CostError::NotACost)),
    ];
    for (amount, expected) in table {
        assert_eq!(micros_of(amount), expected, "{amount}");
    }
    let cost = Cost {
        compute_micros: 1,
        external_api_micros: 2,
        storage_io_micros: 3,
        network_micros: 4,
        token_micros: 5,
        human_review_micros: 6,
    };
    assert_eq!(cost.total_micros(), Ok(21));
    assert_eq!(Cost { token_micros: u64::MAX, ..cost }.total_micros(), Err(CostError::TooMuch));
}

fn price(cost_per_call: f64, cost_unit: CostUnit) -> Price {
    price_with(cost_per_call, cost_unit, CostComponents::default()).unwrap()
}

fn price_with(cost_per_call: f64, cost_unit: CostUnit, components: CostComponents) -> Result<Price, CostError> {
    Price::from_profile(&CostProfile { currency: "EUR".to_owned(), cost_per_call, cost_unit, components }, 2_500)
}

#[test]
fn a_contract_fills_one_component() {
    let none = Cost::default();
    let table = [
        (CostUnit::Call, Cost { external_api_micros: 500_000, ..none }),
        (CostUnit::Transaction, Cost { external_api_micros: 500_000, ..none }),
        (CostUnit::Custom, Cost { external_api_micros: 500_000, ..none }),
        (CostUnit::Token, Cost { token_micros: 500_000, ..none }),
        (CostUnit::Second, Cost { compute_micros: 1_500_000, ..none }),
    ];
    for (unit, cost) in table {
        assert_eq!(price(0.5, unit).cost, cost, "{unit:?}");
    }
}

#[test]
fn additional_costs_are_counted_by_component() {
    let all = CostComponents {
        compute: 1.0,
        external_api: 2.0,
        storage_io: 3.0,
        network: 4.0,
        token: 5.0,
        human_review: 6.0,
    };
    let priced = price_with(0.5, CostUnit::Second, all).unwrap();
    // Two and a half seconds count as three, in addition to the cost of every call.
    assert_eq!(priced.cost.compute_micros, 2_500_000);
    assert_eq!(priced.cost.total_micros(), Ok(22_500_000));
    assert_eq!(
        priced.to_string(),
        "22.50 EUR: compute 2.50, external API 2.00, storage 3.00, network 4.00, tokens 5.00, human review 6.00"
    );
    for (components, error) in [
        (CostComponents { network: -0.1, ..all }, CostError::NotACost),
        (CostComponents { external_api: 18_446_744_073_709.0, ..all }, CostError::TooMuch),
    ] {
        assert_eq!(price_with(1.0, CostUnit::Call, components), Err(error));
    }
}

fn allowance(per: AllowanceScope, dimension: BudgetDimension, amount: u64, period: Period) -> Allowance {
    let currency = (dimension == BudgetDimension::Financial).then(|| "EUR".to_owned());
    Allowance { per, only: AllowanceFilter::default(), dimension, currency, amount, period }
}

fn call(class: SideEffectClass, price: &Price) -> BudgetedCall<'_> {
    BudgetedCall {
        tenant: "acme",
        principal: "ada",
        tool: "bank.pay",
        run: Some("r-1"),
        credentials: &[],
        class,
        price,
    }
}

#[test]
fn a_call_draws_on_the_allowances_that_apply_to_it() {
    let (free, paid) = (price(0.0, CostUnit::Call), price(0.25, CostUnit::Call));
    let allowances = [
        allowance(AllowanceScope::Run, BudgetDimension::Read, 30, Period::Total),
        allowance(AllowanceScope::Tenant, BudgetDimension::Write, 100, Period::Day),
        allowance(AllowanceScope::Caller, BudgetDimension::Financial, 5_000_000, Period::Month),
        allowance(AllowanceScope::Caller, BudgetDimension::Financial, 1_000_000, Period::Day),
        allowance(AllowanceScope::Tool, BudgetDimension::Critical, 2, Period::Day),
        // The same account again: the lower limit counts.
        allowance(AllowanceScope::Tool, BudgetDimension::Critical, 1, Period::Day),
    ];
    let drawn = |call: BudgetedCall<'_>| {
        let drawn = draws(&call, &allowances).unwrap();
        let mut texts: Vec<String> =
            drawn.iter().map(|draw| format!("{} of {}: {}", draw.amount, draw.limit, draw.account)).collect();
        texts.sort();
        texts
    };
    assert_eq!(drawn(call(Class::ReadOnly, &free)), ["1 of 30: run `r-1`, read, in total"]);
    assert_eq!(drawn(BudgetedCall { run: None, ..call(Class::ReadOnly, &free) }), [""; 0]);
    assert_eq!(drawn(call(Class::LowRiskInternal, &free)), ["1 of 100: tenant `acme`, write, per day"]);
    assert_eq!(drawn(call(Class::HighRiskExternal, &free)), [""; 0], "not limited, and not a write");
    assert_eq!(
        drawn(call(Class::CriticalMutation, &paid)),
        [
            "1 of 1: tool `bank.pay`, critical, per day",
            "250000 of 1000000: caller `ada`, financial in EUR, per day",
            "250000 of 5000000: caller `ada`, financial in EUR, per month",
        ]
    );
    assert!(draws(&call(Class::ReadOnly, &free), &[]).unwrap().is_empty());
}

#[test]
fn critical_is_zero_unless_an_allowance_says_otherwise() {
    let free = price(0.0, CostUnit::Call);
    let critical = call(SideEffectClass::CriticalMutation, &free);
    let elsewhere = Allowance {
        only: AllowanceFilter { tenant: Some("other".to_owned()), ..AllowanceFilter::default() },
        ..allowance(AllowanceScope::Tenant, BudgetDimension::Critical, 9, Period::Day)
    };
    let of_writes = allowance(AllowanceScope::Tenant, BudgetDimension::Write, 9, Period::Day);
    let of_runs = allowance(AllowanceScope::Run, BudgetDimension::Critical, 9, Period::Total);
    for (call, allowances) in [
        (critical, vec![]),
        (critical, vec![elsewhere, of_writes]),
        (BudgetedCall { run: None, ..critical }, vec![of_runs.clone()]),
    ] {
        let Err(DrawError::Exhausted(exhausted)) = draws(&call, &allowances) else { panic!("{allowances:?}") };
        assert_eq!((exhausted.left, exhausted.renews_at_ms), (0, None));
    }
    assert_eq!(draws(&critical, &[of_runs]).unwrap().len(), 1);
}

/// Allowances for different tools or principals are different accounts, and one for all is another.
#[test]
fn a_budget_of_one_tool_is_not_drawn_on_by_others() {
    let free = price(0.0, CostUnit::Call);
    let only = |tool: Option<&str>, principal: Option<&str>| AllowanceFilter {
        tool: tool.map(str::to_owned),
        principal: principal.map(str::to_owned),
        ..AllowanceFilter::default()
    };
    let budget = |per, only, amount| Allowance { only, ..allowance(per, BudgetDimension::Read, amount, Period::Day) };
    let of = |tool: &'static str, allowances: &[Allowance]| {
        let call = BudgetedCall { tool, ..call(SideEffectClass::ReadOnly, &free) };
        draws(&call, allowances).unwrap()
    };
    for per in [AllowanceScope::Caller, AllowanceScope::Tenant, AllowanceScope::Run] {
        let all = [
            budget(per, only(Some("bank.look"), None), 3),
            budget(per, only(Some("bank.list"), None), 1),
            budget(per, only(None, None), 100),
            budget(per, only(None, Some("ada")), 50),
        ];
        let (looks, lists) = (of("bank.look", &all), of("bank.list", &all));
        let shared = looks.iter().filter(|draw| lists.iter().any(|other| other.account == draw.account)).count();
        // The account of a caller is the same whether its allowance names the principal or not; then the lower
        // limit counts.
        let expected = if per == AllowanceScope::Tenant { 2 } else { 1 };
        assert_eq!((looks.len(), lists.len(), shared), (1 + expected, 1 + expected, expected), "{per:?}");
        let digests: std::collections::BTreeSet<_> =
            looks.iter().chain(&lists).map(|draw| (draw.account.digest(), draw.limit)).collect();
        assert_eq!(digests.len(), 2 + expected, "{per:?}");
    }
    let one = of("bank.look", &[budget(AllowanceScope::Caller, only(Some("bank.look"), None), 3)]);
    assert_eq!(one[0].account.to_string(), "caller `ada`, read by `bank.look`, per day");
}

#[test]
fn nothing_is_converted() {
    let paid = price(0.25, CostUnit::Call);
    let budget = |currency: Option<&str>| Allowance {
        currency: currency.map(str::to_owned),
        ..allowance(AllowanceScope::Tenant, BudgetDimension::Financial, 9, Period::Day)
    };
    for currency in [Some("USD"), Some("eur"), None] {
        let refused = draws(&call(SideEffectClass::ReadOnly, &paid), &[budget(currency)]);
        assert!(matches!(refused, Err(DrawError::Currency { .. })), "{refused:?}");
        let free = price(0.0, CostUnit::Call);
        assert!(draws(&call(SideEffectClass::ReadOnly, &free), &[budget(currency)]).unwrap().is_empty());
    }
    assert_eq!(draws(&call(SideEffectClass::ReadOnly, &paid), &[budget(Some("EUR"))]).unwrap().len(), 1);
    // Budgets in two currencies each apply to their own calls.
    let both = [budget(Some("USD")), budget(Some("EUR"))];
    let drawn = draws(&call(SideEffectClass::ReadOnly, &paid), &both).unwrap();
    assert_eq!(drawn.iter().map(|draw| draw.account.currency.as_deref()).collect::<Vec<_>>(), [Some("EUR")]);
}
