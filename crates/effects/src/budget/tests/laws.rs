//! Laws of the state machine under any sequence of entries.

use proptest::prelude::*;

use super::{Books, HOUR_MS, NOW_MS, account, draw, give_back, id, lease, refund, reserve, settle};
use crate::budget::{
    Account, AccountEntry, BudgetDimension, BudgetHoldKind, BudgetHoldStage, ClosedBy, EntryReply, Period,
};

const LIMIT: u64 = 20;

fn accounts() -> [Account; 3] {
    [
        account(BudgetDimension::Financial, Period::Hour),
        account(BudgetDimension::Financial, Period::Total),
        account(BudgetDimension::Critical, Period::Day),
    ]
}

fn entries() -> impl Strategy<Value = Vec<(AccountEntry, u64)>> {
    let name = (0..6u8).prop_map(|number| format!("h{number}"));
    let draws = proptest::collection::vec((0..3usize, 0..15u64), 1..4).prop_map(|draws| {
        draws.into_iter().map(|(which, amount)| draw(accounts()[which].clone(), LIMIT, amount)).collect::<Vec<_>>()
    });
    let by = |sweep: bool| if sweep { ClosedBy::Sweep } else { ClosedBy::Caller };
    let entry = prop_oneof![
        4 => (name.clone(), draws).prop_map(|(name, draws)| reserve(&name, draws)),
        2 => (name.clone(), 0..25u64).prop_map(|(name, cost)| settle(&name, Some(cost))),
        1 => (name.clone(), any::<bool>()).prop_map(move |(name, sweep)| AccountEntry::Settle { id: id(&name), cost_micros: None, by: by(sweep) }),
        1 => name.clone().prop_map(|name| refund(&name)),
        1 => (name.clone(), any::<bool>()).prop_map(move |(name, sweep)| AccountEntry::Refund { id: id(&name), by: by(sweep) }),
        2 => (name.clone(), 0..3usize, 1..15u64)
            .prop_map(|(name, which, wanted)| lease(&name, accounts()[which].clone(), LIMIT, wanted)),
        2 => (name, 0..15u64).prop_map(|(name, unused)| give_back(&name, unused)),
    ];
    let later = prop_oneof![6 => Just(0u64), 1 => Just(HOUR_MS / 3), 1 => Just(5 * HOUR_MS)];
    proptest::collection::vec((entry, later), 1..80)
}

/// The balance of an account in its current window, computed from the holds.
fn by_holds(books: &Books, of: &Account) -> (u64, u64, u64, u64) {
    let window_start_ms = books.balances[&of.digest()].window_start_ms;
    let (mut spent, mut reserved, mut leased, mut over) = (0, 0, 0, 0);
    for hold in books.holds.values() {
        let held = hold.draws.iter().filter(|draw| draw.account == *of && draw.window_start_ms == window_start_ms);
        for draw in held {
            match (hold.stage, hold.kind) {
                (BudgetHoldStage::Open, BudgetHoldKind::Reservation) => reserved += draw.amount,
                (BudgetHoldStage::Open, BudgetHoldKind::Lease) => leased += draw.amount,
                (BudgetHoldStage::Settled, _) => (spent, over) = (spent + draw.spent, over + draw.over),
                (BudgetHoldStage::Refunded, _) => {}
            }
        }
    }
    (spent, reserved, leased, over)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_over_the_limit_nothing_leaks_and_nothing_is_done_twice(entries in entries()) {
        let (mut books, mut now_ms) = (Books::default(), NOW_MS);
        for (entry, later_ms) in entries {
            now_ms += later_ms;
            let before = books.clone();
            let reply = books.book(&entry, now_ms);
            if matches!(reply, EntryReply::Exhausted(_) | EntryReply::Mismatch | EntryReply::NotFound) {
                prop_assert_eq!(&books, &before, "{:?} came to {:?}", &entry, &reply);
            }
            let after = books.clone();
            prop_assert_eq!(books.book(&entry, now_ms), reply, "{:?} again", &entry);
            prop_assert_eq!(&books, &after, "{:?} again", &entry);
            for balance in books.balances.values() {
                let used = balance.spent + balance.reserved + balance.leased;
                prop_assert!(used <= LIMIT + balance.over, "{balance:?}");
                let stands = books.stands(&balance.account);
                prop_assert_eq!(by_holds(&books, &balance.account), stands, "{:?}", balance);
            }
            for (id, hold) in &books.holds {
                prop_assert_eq!(hold.stage == BudgetHoldStage::Open, hold.closed_ms.is_none(), "{}", id);
            }
        }
    }

    /// When everything is closed, nothing is reserved, and the spent amount is what the settlements said.
    #[test]
    fn after_everything_is_closed_nothing_is_kept_back(entries in entries()) {
        let (mut books, mut now_ms) = (Books::default(), NOW_MS);
        for (entry, later_ms) in entries {
            now_ms += later_ms;
            books.book(&entry, now_ms);
        }
        let open: Vec<_> = books.holds.values().filter(|hold| hold.stage == BudgetHoldStage::Open).cloned().collect();
        for hold in open {
            let name = hold.id.as_str();
            let entry = if hold.kind == BudgetHoldKind::Lease { give_back(name, 99) } else { refund(name) };
            books.book(&entry, now_ms);
        }
        for balance in books.balances.values() {
            prop_assert_eq!((balance.reserved, balance.leased), (0, 0));
        }
    }
}
