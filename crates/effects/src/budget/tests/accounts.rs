//! Accounts and windows.

use std::collections::BTreeSet;

use servanda_contract::tool::SideEffectClass as Class;

use crate::budget::{Account, BudgetDimension, BudgetScope, Period};

#[test]
fn every_class_is_counted_as_one_thing() {
    let table = [
        (Class::ReadOnly, BudgetDimension::Read),
        (Class::EphemeralWrite, BudgetDimension::Write),
        (Class::LowRiskInternal, BudgetDimension::Write),
        (Class::MediumRiskWrite, BudgetDimension::Write),
        (Class::HighRiskExternal, BudgetDimension::External),
        (Class::CriticalMutation, BudgetDimension::Critical),
    ];
    for (class, dimension) in table {
        assert_eq!(BudgetDimension::for_class(class), dimension);
    }
}

#[test]
fn no_two_accounts_have_the_same_digest() {
    let text = |text: &str| text.to_owned();
    let mut scopes = Vec::new();
    for [one, other] in [["a", "bc"], ["ab", "c"], ["", "abc"], ["abc", ""]] {
        scopes.push(BudgetScope::Run { tenant: text(one), principal: text(other), run: text(one) });
        scopes.push(BudgetScope::Run { tenant: text(one), principal: text(one), run: text(other) });
        scopes.push(BudgetScope::Credential { tenant: text(one), credential: text(other) });
        scopes.push(BudgetScope::Caller { tenant: text(one), principal: text(other) });
        scopes.push(BudgetScope::Tool { tenant: text(one), tool: text(other) });
        scopes.push(BudgetScope::Tenant(format!("{one}/{other}")));
    }
    let (mut digests, mut count) = (BTreeSet::new(), 0);
    for scope in scopes {
        for dimension in BudgetDimension::ALL {
            for currency in [None, Some(text("")), Some(text("EUR"))] {
                for period in [Period::Hour, Period::Day, Period::Month, Period::Total] {
                    let account = Account {
                        scope: scope.clone(),
                        dimension,
                        currency: currency.clone(),
                        period,
                        tool: None,
                        principal: None,
                    };
                    digests.insert(account.digest());
                    count += 1;
                }
            }
        }
    }
    assert_eq!(digests.len(), count);
}

#[test]
fn windows_are_those_of_the_calendar() {
    let table = [
        // 29 February 2024, 23:59:59.999
        (Period::Hour, 1_709_251_199_999, 1_709_247_600_000, Some(1_709_251_200_000)),
        (Period::Day, 1_709_251_199_999, 1_709_164_800_000, Some(1_709_251_200_000)),
        (Period::Month, 1_709_251_199_999, 1_706_745_600_000, Some(1_709_251_200_000)),
        (Period::Month, 1_709_251_200_000, 1_709_251_200_000, Some(1_711_929_600_000)),
        (Period::Total, 1_709_251_199_999, 0, None),
    ];
    for (period, now_ms, start_ms, end_ms) in table {
        assert_eq!((period.start_ms(now_ms), period.end_ms(period.start_ms(now_ms))), (start_ms, end_ms), "{period:?}");
    }
    // Every month of a century begins where the one before ends.
    let mut start_ms = 946_684_800_000;
    for month in 0..1_200 {
        let end_ms = Period::Month.end_ms(start_ms).unwrap();
        assert!((28..=31).contains(&((end_ms - start_ms) / 86_400_000)), "{month}");
        assert_eq!(Period::Month.start_ms(end_ms - 1), start_ms, "{month}");
        assert_eq!(Period::Month.start_ms(end_ms), end_ms, "{month}");
        start_ms = end_ms;
    }
}
