//! The machine as a table and as laws: nothing over the limit, nothing leaked, nothing twice.

mod accounts;
mod chunks;
mod laws;

use std::collections::BTreeMap;

use servanda_contract::Digest;

use super::{
    Account, AccountBalance, AccountEntry, BudgetDimension, BudgetHold, BudgetHoldId, BudgetHoldKind, BudgetHoldStage,
    BudgetScope, BudgetSnapshot, ChunkLease, ClosedBy, Draw, EntryReply, ExhaustedAccount, LeaseReturn, OPEN_MS_MAX,
    Period, Reservation, SweepDecision, step, sweep_decision,
};
use crate::effect::{EffectId, EffectState as State};

/// In the middle of an hour of 15 November 2026.
const NOW_MS: u64 = 1_794_735_332_007;
const HOUR_MS: u64 = 3_600_000;

/// Accounts in memory, changed by the state machine alone.
#[derive(Debug, Default, Clone, PartialEq)]
struct Books {
    holds: BTreeMap<BudgetHoldId, BudgetHold>,
    balances: BTreeMap<Digest, AccountBalance>,
}

impl Books {
    fn book(&mut self, entry: &AccountEntry, now_ms: u64) -> EntryReply {
        let before = BudgetSnapshot { hold: self.holds.get(entry.id()), balances: &self.balances };
        let after = step(before, entry, now_ms);
        self.balances.extend(after.balances.into_iter().map(|balance| (balance.account.digest(), balance)));
        self.holds.extend(after.hold.map(|hold| (hold.id.clone(), hold)));
        after.reply
    }

    /// Spent, reserved, leased, and used beyond the reservation.
    fn stands(&self, account: &Account) -> (u64, u64, u64, u64) {
        let balance = &self.balances[&account.digest()];
        (balance.spent, balance.reserved, balance.leased, balance.over)
    }
}

fn account(dimension: BudgetDimension, period: Period) -> Account {
    let currency = (dimension == BudgetDimension::Financial).then(|| "EUR".to_owned());
    Account { scope: BudgetScope::Tenant("acme".to_owned()), dimension, currency, period, tool: None, principal: None }
}

fn money() -> Account {
    account(BudgetDimension::Financial, Period::Hour)
}

fn id(text: &str) -> BudgetHoldId {
    BudgetHoldId::from(text.to_owned())
}

fn draw(account: Account, limit: u64, amount: u64) -> Draw {
    Draw { account, limit, amount }
}

fn reserve(name: &str, draws: Vec<Draw>) -> AccountEntry {
    AccountEntry::Reserve(Reservation { id: id(name), effect: None, draws })
}

fn settle(name: &str, cost_micros: Option<u64>) -> AccountEntry {
    AccountEntry::Settle { id: id(name), cost_micros, by: ClosedBy::Caller }
}

fn refund(name: &str) -> AccountEntry {
    AccountEntry::Refund { id: id(name), by: ClosedBy::Caller }
}

fn lease(name: &str, account: Account, limit: u64, wanted: u64) -> AccountEntry {
    AccountEntry::Lease(ChunkLease { id: id(name), account, limit, wanted })
}

fn give_back(name: &str, unused: u64) -> AccountEntry {
    AccountEntry::ReturnLease(LeaseReturn { id: id(name), unused })
}

#[test]
fn a_reservation_is_kept_back_then_used_or_given_back() {
    let mut books = Books::default();
    let renews_at_ms = Some(NOW_MS - NOW_MS % HOUR_MS + HOUR_MS);
    let exhausted = |left| EntryReply::Exhausted(ExhaustedAccount { account: money(), left, renews_at_ms });
    let lasts_ms = Some(HOUR_MS - NOW_MS % HOUR_MS);
    let table = [
        (reserve("a", vec![draw(money(), 100, 60)]), EntryReply::Reserved, (0, 60, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 41)]), exhausted(40), (0, 60, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 40)]), EntryReply::Reserved, (0, 100, 0, 0)),
        (settle("a", Some(50)), EntryReply::Settled { over: 0 }, (50, 40, 0, 0)),
        (settle("a", Some(50)), EntryReply::Settled { over: 0 }, (50, 40, 0, 0)),
        (settle("a", Some(99)), EntryReply::Settled { over: 0 }, (50, 40, 0, 0)),
        (refund("a"), EntryReply::Settled { over: 0 }, (50, 40, 0, 0)),
        (refund("b"), EntryReply::Refunded, (50, 0, 0, 0)),
        (refund("b"), EntryReply::Refunded, (50, 0, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 40)]), EntryReply::Refunded, (50, 0, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 39)]), EntryReply::Mismatch, (50, 0, 0, 0)),
        (settle("none", None), EntryReply::NotFound, (50, 0, 0, 0)),
        (reserve("c", vec![draw(money(), 100, 10)]), EntryReply::Reserved, (50, 10, 0, 0)),
        (settle("c", Some(70)), EntryReply::Settled { over: 60 }, (120, 0, 0, 60)),
        (reserve("d", vec![draw(money(), 100, 1)]), exhausted(0), (120, 0, 0, 60)),
        (lease("l", money(), 100, 5), exhausted(0), (120, 0, 0, 60)),
        (lease("l", money(), 130, 50), EntryReply::Leased { granted: 10, lasts_ms }, (120, 0, 10, 60)),
        (lease("l", money(), 130, 50), EntryReply::Leased { granted: 10, lasts_ms }, (120, 0, 10, 60)),
        (refund("l"), EntryReply::Mismatch, (120, 0, 10, 60)),
        (give_back("c", 1), EntryReply::Mismatch, (120, 0, 10, 60)),
        (give_back("l", 4), EntryReply::Settled { over: 0 }, (126, 0, 0, 60)),
        (give_back("l", 9), EntryReply::Settled { over: 0 }, (126, 0, 0, 60)),
    ];
    for (number, (entry, reply, stands)) in table.into_iter().enumerate() {
        assert_eq!(books.book(&entry, NOW_MS), reply, "{number}: {entry:?}");
        assert_eq!(books.stands(&money()), stands, "{number}: {entry:?}");
    }
}

#[test]
fn all_draws_or_none_and_the_account_that_renews_last_is_reported() {
    let [day, month, critical] = [
        account(BudgetDimension::Financial, Period::Day),
        account(BudgetDimension::Financial, Period::Month),
        account(BudgetDimension::Critical, Period::Total),
    ];
    let mut books = Books::default();
    let all = |limit| vec![draw(day.clone(), 10, 20), draw(critical.clone(), limit, 1), draw(month.clone(), 9, 20)];
    let EntryReply::Exhausted(exhausted) = books.book(&reserve("a", all(5)), NOW_MS) else { panic!() };
    assert_eq!((exhausted.account, exhausted.left), (month.clone(), 9), "the month is over later than the day");
    let EntryReply::Exhausted(exhausted) = books.book(&reserve("a", all(0)), NOW_MS) else { panic!() };
    assert_eq!((exhausted.account, exhausted.renews_at_ms), (critical.clone(), None), "zero, and never more");
    assert_eq!(books, Books::default(), "nothing was taken");
    let some = vec![draw(day.clone(), 30, 20), draw(critical.clone(), 1, 1)];
    assert_eq!(books.book(&reserve("a", some), NOW_MS), EntryReply::Reserved);
    assert_eq!(books.book(&settle("a", Some(7)), NOW_MS), EntryReply::Settled { over: 0 });
    assert_eq!(books.stands(&day), (7, 0, 0, 0));
    assert_eq!(books.stands(&critical), (1, 0, 0, 0), "a counted dimension costs one unit, whatever the money was");
}

#[test]
fn a_new_window_has_everything_and_old_draws_stay_in_theirs() {
    let mut books = Books::default();
    let next_ms = NOW_MS - NOW_MS % HOUR_MS + HOUR_MS;
    books.book(&reserve("old", vec![draw(money(), 100, 100)]), next_ms - 1);
    books.book(&lease("lease", account(BudgetDimension::Read, Period::Hour), 10, 10), next_ms - 1);
    assert!(matches!(books.book(&reserve("x", vec![draw(money(), 100, 1)]), next_ms - 1), EntryReply::Exhausted(_)));
    assert_eq!(books.book(&reserve("new", vec![draw(money(), 100, 99)]), next_ms), EntryReply::Reserved);
    assert_eq!(books.stands(&money()), (0, 99, 0, 0));
    assert_eq!(books.book(&settle("old", Some(150)), next_ms), EntryReply::Settled { over: 50 });
    assert_eq!(books.stands(&money()), (0, 99, 0, 0));
    let back = books.book(&reserve("back", vec![draw(money(), 100, 2)]), next_ms - 1);
    assert!(matches!(back, EntryReply::Exhausted(_)), "a clock that goes back brings no old window back");
    assert_eq!(
        books.book(&lease("next", account(BudgetDimension::Read, Period::Hour), 10, 10), next_ms),
        EntryReply::Leased { granted: 10, lasts_ms: Some(HOUR_MS) }
    );
    assert_eq!(books.book(&give_back("lease", 10), next_ms), EntryReply::Settled { over: 0 });
    assert_eq!(books.stands(&account(BudgetDimension::Read, Period::Hour)), (0, 0, 10, 0));
}

#[test]
fn the_callers_report_overrides_a_sweep() {
    let sweep_settles = |name: &str| AccountEntry::Settle { id: id(name), cost_micros: None, by: ClosedBy::Sweep };
    let sweep_refunds = |name: &str| AccountEntry::Refund { id: id(name), by: ClosedBy::Sweep };
    let table = [
        (sweep_settles("a"), settle("a", Some(25)), EntryReply::Settled { over: 0 }, (25, 0, 0, 0)),
        (sweep_settles("a"), refund("a"), EntryReply::Refunded, (0, 0, 0, 0)),
        // The call was made after all, and nothing was reserved for it any more.
        (sweep_refunds("a"), settle("a", Some(25)), EntryReply::Settled { over: 25 }, (25, 0, 0, 25)),
        (refund("a"), settle("a", None), EntryReply::Settled { over: 30 }, (30, 0, 0, 30)),
        (settle("a", Some(20)), sweep_refunds("a"), EntryReply::Settled { over: 0 }, (20, 0, 0, 0)),
        (refund("a"), sweep_settles("a"), EntryReply::Refunded, (0, 0, 0, 0)),
        (sweep_refunds("a"), sweep_settles("a"), EntryReply::Refunded, (0, 0, 0, 0)),
    ];
    for (first, then, reply, stands) in table {
        let mut books = Books::default();
        books.book(&reserve("a", vec![draw(money(), 100, 30)]), NOW_MS);
        books.book(&first, NOW_MS);
        for _ in 0..2 {
            assert_eq!(books.book(&then, NOW_MS), reply, "{first:?} {then:?}");
            assert_eq!(books.stands(&money()), stands, "{first:?} {then:?}");
        }
    }
}

#[test]
fn an_abandoned_reservation_is_closed_according_to_its_effect() {
    let hold = |effect: Option<&str>| BudgetHold {
        id: id("a"),
        kind: BudgetHoldKind::Reservation,
        effect: effect.map(|effect| EffectId::from(effect.to_owned())),
        draws: Vec::new(),
        stage: BudgetHoldStage::Open,
        closed_by: None,
        opened_ms: NOW_MS,
        closed_ms: None,
    };
    let (soon, late) = (NOW_MS + OPEN_MS_MAX - 1, NOW_MS + OPEN_MS_MAX);
    let table = [
        (Some(State::Claimed), SweepDecision::Wait, SweepDecision::Wait),
        (Some(State::Dispatching), SweepDecision::Wait, SweepDecision::Wait),
        (Some(State::Completed), SweepDecision::Settle, SweepDecision::Settle),
        (Some(State::FailedFinal), SweepDecision::Settle, SweepDecision::Settle),
        (Some(State::FailedRetryable), SweepDecision::Refund, SweepDecision::Refund),
        (Some(State::OutcomeUnknown), SweepDecision::Wait, SweepDecision::Wait),
        (Some(State::Compensated), SweepDecision::Settle, SweepDecision::Settle),
        (Some(State::Expired), SweepDecision::Settle, SweepDecision::Settle),
        (None, SweepDecision::Wait, SweepDecision::Refund),
    ];
    for (state, early, later) in table {
        assert_eq!(sweep_decision(&hold(Some("eff_1")), state, false, soon), early, "{state:?}");
        assert_eq!(sweep_decision(&hold(Some("eff_1")), state, false, late), later, "{state:?}");
        assert_eq!(sweep_decision(&hold(Some("eff_1")), state, true, soon), SweepDecision::Refund, "{state:?}");
        let settled = BudgetHold { stage: BudgetHoldStage::Settled, ..hold(Some("eff_1")) };
        assert_eq!(sweep_decision(&settled, state, true, late), SweepDecision::Wait, "{state:?}");
    }
    assert_eq!(sweep_decision(&hold(None), None, false, soon), SweepDecision::Wait);
    assert_eq!(sweep_decision(&hold(None), None, false, late), SweepDecision::Settle, "it may have been sent");
    let lease = BudgetHold { kind: BudgetHoldKind::Lease, ..hold(None) };
    assert_eq!(sweep_decision(&lease, None, false, late), SweepDecision::Wait);
}
