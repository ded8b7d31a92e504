//! The machine as a table and as laws: nothing over the limit, nothing leaked, nothing twice.

mod accounts;
mod chunks;
mod laws;

use std::collections::BTreeMap;

use servanda_contract::Digest;

use super::{
    Account, Before, Booked, ClosedBy, Dimension, Draw, Entry, Exhausted, GiveBack, Hold, HoldId, HoldKind, Lease,
    OPEN_MS_MAX, Period, Reservation, Scope, Stage, Standing, Verdict, step, verdict,
};
use crate::effect::{EffectId, EffectState as State};

/// In the middle of an hour of 15 November 2026.
const NOW_MS: u64 = 1_794_735_332_007;
const HOUR_MS: u64 = 3_600_000;

/// Books in memory, kept by the machine alone.
#[derive(Debug, Default, Clone, PartialEq)]
struct Books {
    holds: BTreeMap<HoldId, Hold>,
    standings: BTreeMap<Digest, Standing>,
}

impl Books {
    fn book(&mut self, entry: &Entry, now_ms: u64) -> Booked {
        let before = Before { hold: self.holds.get(entry.id()), standings: &self.standings };
        let after = step(before, entry, now_ms);
        self.standings.extend(after.standings.into_iter().map(|standing| (standing.account.digest(), standing)));
        self.holds.extend(after.hold.map(|hold| (hold.id.clone(), hold)));
        after.reply
    }

    /// Spent, kept back, leased, and used beyond what was kept back.
    fn stands(&self, account: &Account) -> (u64, u64, u64, u64) {
        let standing = &self.standings[&account.digest()];
        (standing.spent, standing.reserved, standing.leased, standing.over)
    }
}

fn account(dimension: Dimension, period: Period) -> Account {
    let currency = (dimension == Dimension::Financial).then(|| "EUR".to_owned());
    Account { scope: Scope::Tenant("acme".to_owned()), dimension, currency, period, tool: None, principal: None }
}

fn money() -> Account {
    account(Dimension::Financial, Period::Hour)
}

fn id(text: &str) -> HoldId {
    HoldId::from(text.to_owned())
}

fn draw(account: Account, limit: u64, amount: u64) -> Draw {
    Draw { account, limit, amount }
}

fn reserve(name: &str, draws: Vec<Draw>) -> Entry {
    Entry::Reserve(Reservation { id: id(name), effect: None, draws })
}

fn settle(name: &str, cost_micros: Option<u64>) -> Entry {
    Entry::Settle { id: id(name), cost_micros, by: ClosedBy::Caller }
}

fn refund(name: &str) -> Entry {
    Entry::Refund { id: id(name), by: ClosedBy::Caller }
}

fn lease(name: &str, account: Account, limit: u64, wanted: u64) -> Entry {
    Entry::Lease(Lease { id: id(name), account, limit, wanted })
}

fn give_back(name: &str, unused: u64) -> Entry {
    Entry::GiveBack(GiveBack { id: id(name), unused })
}

#[test]
fn a_reservation_is_kept_back_then_used_or_given_back() {
    let mut books = Books::default();
    let renews_at_ms = Some(NOW_MS - NOW_MS % HOUR_MS + HOUR_MS);
    let exhausted = |left| Booked::Exhausted(Exhausted { account: money(), left, renews_at_ms });
    let lasts_ms = Some(HOUR_MS - NOW_MS % HOUR_MS);
    let table = [
        (reserve("a", vec![draw(money(), 100, 60)]), Booked::Reserved, (0, 60, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 41)]), exhausted(40), (0, 60, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 40)]), Booked::Reserved, (0, 100, 0, 0)),
        (settle("a", Some(50)), Booked::Settled { over: 0 }, (50, 40, 0, 0)),
        (settle("a", Some(50)), Booked::Settled { over: 0 }, (50, 40, 0, 0)),
        (settle("a", Some(99)), Booked::Settled { over: 0 }, (50, 40, 0, 0)),
        (refund("a"), Booked::Settled { over: 0 }, (50, 40, 0, 0)),
        (refund("b"), Booked::Refunded, (50, 0, 0, 0)),
        (refund("b"), Booked::Refunded, (50, 0, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 40)]), Booked::Refunded, (50, 0, 0, 0)),
        (reserve("b", vec![draw(money(), 100, 39)]), Booked::Mismatch, (50, 0, 0, 0)),
        (settle("none", None), Booked::NotFound, (50, 0, 0, 0)),
        (reserve("c", vec![draw(money(), 100, 10)]), Booked::Reserved, (50, 10, 0, 0)),
        (settle("c", Some(70)), Booked::Settled { over: 60 }, (120, 0, 0, 60)),
        (reserve("d", vec![draw(money(), 100, 1)]), exhausted(0), (120, 0, 0, 60)),
        (lease("l", money(), 100, 5), exhausted(0), (120, 0, 0, 60)),
        (lease("l", money(), 130, 50), Booked::Leased { granted: 10, lasts_ms }, (120, 0, 10, 60)),
        (lease("l", money(), 130, 50), Booked::Leased { granted: 10, lasts_ms }, (120, 0, 10, 60)),
        (refund("l"), Booked::Mismatch, (120, 0, 10, 60)),
        (give_back("c", 1), Booked::Mismatch, (120, 0, 10, 60)),
        (give_back("l", 4), Booked::Settled { over: 0 }, (126, 0, 0, 60)),
        (give_back("l", 9), Booked::Settled { over: 0 }, (126, 0, 0, 60)),
    ];
    for (number, (entry, reply, stands)) in table.into_iter().enumerate() {
        assert_eq!(books.book(&entry, NOW_MS), reply, "{number}: {entry:?}");
        assert_eq!(books.stands(&money()), stands, "{number}: {entry:?}");
    }
}

#[test]
fn all_draws_or_none_and_the_one_to_wait_for_is_told() {
    let [day, month, critical] = [
        account(Dimension::Financial, Period::Day),
        account(Dimension::Financial, Period::Month),
        account(Dimension::Critical, Period::Total),
    ];
    let mut books = Books::default();
    let all = |limit| vec![draw(day.clone(), 10, 20), draw(critical.clone(), limit, 1), draw(month.clone(), 9, 20)];
    let Booked::Exhausted(exhausted) = books.book(&reserve("a", all(5)), NOW_MS) else { panic!() };
    assert_eq!((exhausted.account, exhausted.left), (month.clone(), 9), "the month is over later than the day");
    let Booked::Exhausted(exhausted) = books.book(&reserve("a", all(0)), NOW_MS) else { panic!() };
    assert_eq!((exhausted.account, exhausted.renews_at_ms), (critical.clone(), None), "zero, and never more");
    assert_eq!(books, Books::default(), "nothing was taken");
    let some = vec![draw(day.clone(), 30, 20), draw(critical.clone(), 1, 1)];
    assert_eq!(books.book(&reserve("a", some), NOW_MS), Booked::Reserved);
    assert_eq!(books.book(&settle("a", Some(7)), NOW_MS), Booked::Settled { over: 0 });
    assert_eq!(books.stands(&day), (7, 0, 0, 0));
    assert_eq!(books.stands(&critical), (1, 0, 0, 0), "what is counted costs one, whatever the money was");
}

#[test]
fn a_new_window_has_everything_and_old_draws_stay_in_theirs() {
    let mut books = Books::default();
    let next_ms = NOW_MS - NOW_MS % HOUR_MS + HOUR_MS;
    books.book(&reserve("old", vec![draw(money(), 100, 100)]), next_ms - 1);
    books.book(&lease("lease", account(Dimension::Read, Period::Hour), 10, 10), next_ms - 1);
    assert!(matches!(books.book(&reserve("x", vec![draw(money(), 100, 1)]), next_ms - 1), Booked::Exhausted(_)));
    assert_eq!(books.book(&reserve("new", vec![draw(money(), 100, 99)]), next_ms), Booked::Reserved);
    assert_eq!(books.stands(&money()), (0, 99, 0, 0));
    assert_eq!(books.book(&settle("old", Some(150)), next_ms), Booked::Settled { over: 50 });
    assert_eq!(books.stands(&money()), (0, 99, 0, 0));
    let back = books.book(&reserve("back", vec![draw(money(), 100, 2)]), next_ms - 1);
    assert!(matches!(back, Booked::Exhausted(_)), "a clock that goes back brings no old window back");
    assert_eq!(
        books.book(&lease("next", account(Dimension::Read, Period::Hour), 10, 10), next_ms),
        Booked::Leased { granted: 10, lasts_ms: Some(HOUR_MS) }
    );
    assert_eq!(books.book(&give_back("lease", 10), next_ms), Booked::Settled { over: 0 });
    assert_eq!(books.stands(&account(Dimension::Read, Period::Hour)), (0, 0, 10, 0));
}

#[test]
fn what_the_caller_says_counts_for_more_than_what_a_sweep_decided() {
    let sweep_settles = |name: &str| Entry::Settle { id: id(name), cost_micros: None, by: ClosedBy::Sweep };
    let sweep_refunds = |name: &str| Entry::Refund { id: id(name), by: ClosedBy::Sweep };
    let table = [
        (sweep_settles("a"), settle("a", Some(25)), Booked::Settled { over: 0 }, (25, 0, 0, 0)),
        (sweep_settles("a"), refund("a"), Booked::Refunded, (0, 0, 0, 0)),
        // It happened after all, and nobody had kept it back any more.
        (sweep_refunds("a"), settle("a", Some(25)), Booked::Settled { over: 25 }, (25, 0, 0, 25)),
        (refund("a"), settle("a", None), Booked::Settled { over: 30 }, (30, 0, 0, 30)),
        (settle("a", Some(20)), sweep_refunds("a"), Booked::Settled { over: 0 }, (20, 0, 0, 0)),
        (refund("a"), sweep_settles("a"), Booked::Refunded, (0, 0, 0, 0)),
        (sweep_refunds("a"), sweep_settles("a"), Booked::Refunded, (0, 0, 0, 0)),
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
fn what_is_left_open_goes_by_its_effect() {
    let hold = |effect: Option<&str>| Hold {
        id: id("a"),
        kind: HoldKind::Reservation,
        effect: effect.map(|effect| EffectId::from(effect.to_owned())),
        draws: Vec::new(),
        stage: Stage::Open,
        closed_by: None,
        opened_ms: NOW_MS,
        closed_ms: None,
    };
    let (soon, late) = (NOW_MS + OPEN_MS_MAX - 1, NOW_MS + OPEN_MS_MAX);
    let table = [
        (Some(State::Claimed), Verdict::Wait, Verdict::Wait),
        (Some(State::Dispatching), Verdict::Wait, Verdict::Wait),
        (Some(State::Completed), Verdict::Settle, Verdict::Settle),
        (Some(State::FailedFinal), Verdict::Settle, Verdict::Settle),
        (Some(State::FailedRetryable), Verdict::Refund, Verdict::Refund),
        (Some(State::OutcomeUnknown), Verdict::Wait, Verdict::Wait),
        (Some(State::Compensated), Verdict::Settle, Verdict::Settle),
        (Some(State::Expired), Verdict::Settle, Verdict::Settle),
        (None, Verdict::Wait, Verdict::Refund),
    ];
    for (state, early, later) in table {
        assert_eq!(verdict(&hold(Some("eff_1")), state, false, soon), early, "{state:?}");
        assert_eq!(verdict(&hold(Some("eff_1")), state, false, late), later, "{state:?}");
        assert_eq!(verdict(&hold(Some("eff_1")), state, true, soon), Verdict::Refund, "{state:?}");
        let settled = Hold { stage: Stage::Settled, ..hold(Some("eff_1")) };
        assert_eq!(verdict(&settled, state, true, late), Verdict::Wait, "{state:?}");
    }
    assert_eq!(verdict(&hold(None), None, false, soon), Verdict::Wait);
    assert_eq!(verdict(&hold(None), None, false, late), Verdict::Settle, "it may have been sent");
    let lease = Hold { kind: HoldKind::Lease, ..hold(None) };
    assert_eq!(verdict(&lease, None, false, late), Verdict::Wait);
}
