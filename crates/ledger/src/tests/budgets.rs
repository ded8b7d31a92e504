//! Budgets in every store: exact for all gateways that share it, and repeating an entry changes nothing.

use std::{pin::Pin, sync::Arc};

use servanda_effects::{
    budget::{
        Account, AccountEntry, BalanceQuery, BudgetDimension, BudgetHoldId, BudgetScope, ChunkLease, Chunks, ClosedBy,
        Draw, EntryReply, ExhaustedAccount, LeaseReturn, OPEN_MS_MAX, Period, Reservation, SweepReport, TakeOutcome,
    },
    effect::EffectId,
};
use tokio::task::JoinSet;

use super::kept::{Both, Kept};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a reservation is used or given back, once", |kept| Box::pin(once(kept))),
    ("all accounts or none, and names of any kind", |kept| Box::pin(all_or_none(kept))),
    ("of many reservations at three gateways, exactly as many as fit succeed", |kept| Box::pin(last_units(kept))),
    ("the same entry at once is one entry", |kept| Box::pin(same_entry(kept))),
    ("windows roll by the store's time", |kept| Box::pin(windows(kept))),
    ("units are leased and given back once", |kept| Box::pin(leased(kept))),
    ("chunks at three gateways, one of which dies", |kept| Box::pin(chunks(kept))),
    ("finished holds are forgotten", |kept| Box::pin(forgotten(kept))),
];

fn tenant_account(dimension: BudgetDimension, period: Period) -> Account {
    let currency = (dimension == BudgetDimension::Financial).then(|| "EUR".to_owned());
    Account { scope: BudgetScope::Tenant("acme".to_owned()), dimension, currency, period, tool: None, principal: None }
}

fn money() -> Account {
    tenant_account(BudgetDimension::Financial, Period::Total)
}

fn id(text: &str) -> BudgetHoldId {
    BudgetHoldId::from(text.to_owned())
}

fn draw(account: &Account, limit: u64, amount: u64) -> Draw {
    Draw { account: account.clone(), limit, amount }
}

pub(super) fn reserve(name: &str, effect: Option<&EffectId>, draws: Vec<Draw>) -> AccountEntry {
    AccountEntry::Reserve(Reservation { id: id(name), effect: effect.cloned(), draws })
}

pub(super) fn settle(name: &str, cost_micros: Option<u64>) -> AccountEntry {
    AccountEntry::Settle { id: id(name), cost_micros, by: ClosedBy::Caller }
}

fn refund(name: &str) -> AccountEntry {
    AccountEntry::Refund { id: id(name), by: ClosedBy::Caller }
}

/// Reserves `amount` of a limit of money, for an effect.
pub(super) fn pay(name: &str, effect: Option<&EffectId>, limit: u64, amount: u64) -> AccountEntry {
    reserve(name, effect, vec![draw(&money(), limit, amount)])
}

/// Spent, reserved, leased, and used beyond the reservation.
pub(super) async fn stands(ledger: &Both, account: &Account) -> (u64, u64, u64, u64) {
    let query = BalanceQuery { tenant: Some(account.scope.tenant().to_owned()), limit: 100 };
    let standings = ledger.standings(query).await.unwrap();
    let standing = standings.iter().find(|standing| standing.account == *account);
    standing.map_or((0, 0, 0, 0), |standing| (standing.spent, standing.reserved, standing.leased, standing.over))
}

pub(super) async fn money_stands(ledger: &Both) -> (u64, u64, u64, u64) {
    stands(ledger, &money()).await
}

async fn once(kept: Kept) {
    let ledger = &kept.both();
    let exhausted = |left| EntryReply::Exhausted(ExhaustedAccount { account: money(), left, renews_at_ms: None });
    let table = [
        (pay("a", None, 100, 60), EntryReply::Reserved, (0, 60, 0, 0)),
        (pay("b", None, 100, 41), exhausted(40), (0, 60, 0, 0)),
        (pay("a", None, 100, 60), EntryReply::Reserved, (0, 60, 0, 0)),
        (pay("a", None, 100, 61), EntryReply::Mismatch, (0, 60, 0, 0)),
        (pay("b", None, 100, 40), EntryReply::Reserved, (0, 100, 0, 0)),
        (settle("a", Some(50)), EntryReply::Settled { over: 0 }, (50, 40, 0, 0)),
        (settle("a", Some(50)), EntryReply::Settled { over: 0 }, (50, 40, 0, 0)),
        (refund("b"), EntryReply::Refunded, (50, 0, 0, 0)),
        (refund("b"), EntryReply::Refunded, (50, 0, 0, 0)),
        (settle("none", None), EntryReply::NotFound, (50, 0, 0, 0)),
        (pay("c", None, 100, 10), EntryReply::Reserved, (50, 10, 0, 0)),
        (settle("c", Some(70)), EntryReply::Settled { over: 60 }, (120, 0, 0, 60)),
    ];
    for (entry, reply, expected) in table {
        assert_eq!(ledger.book(entry.clone()).await.unwrap(), reply, "{entry:?}");
        assert_eq!(money_stands(ledger).await, expected, "{entry:?}");
    }
    let other = kept.replica().await;
    assert_eq!(money_stands(&other.both()).await, (120, 0, 0, 60), "another gateway sees the same");
    assert_eq!(other.both().book(settle("c", Some(70))).await.unwrap(), EntryReply::Settled { over: 60 });
    let listed = ledger.standings(BalanceQuery { tenant: Some("nobody".to_owned()), limit: 9 }).await.unwrap();
    assert!(listed.is_empty());
    assert_eq!(ledger.standings(BalanceQuery { tenant: None, limit: 9 }).await.unwrap().len(), 1);
    let never_drawn_on = Account { period: Period::Month, ..money() };
    let found = ledger.standings_of(vec![never_drawn_on.clone(), money()]).await.unwrap();
    assert_eq!(found.iter().map(|standing| (&standing.account, standing.spent)).collect::<Vec<_>>(), [(&money(), 120)]);
    assert_eq!((found[0].left_of(100), found[0].left_of(150)), (0, 30));
    assert_eq!(ledger.standings_of(vec![never_drawn_on]).await.unwrap(), []);
    assert_eq!(ledger.standings_of(Vec::new()).await.unwrap(), []);
}

async fn all_or_none(kept: Kept) {
    at_half_past(&kept).await;
    let ledger = &kept.both();
    let scope = |name: &str| BudgetScope::Caller { tenant: "a\0cme".to_owned(), principal: name.to_owned() };
    let account = |name: &str| Account { scope: scope(name), ..tenant_account(BudgetDimension::Critical, Period::Day) };
    let (one, other) = (account("a\0da\u{1F600}"), account("'; drop table holds --"));
    let both = |name: &str| reserve(name, None, vec![draw(&one, 5, 1), draw(&other, 1, 1)]);
    assert_eq!(ledger.book(both("first")).await.unwrap(), EntryReply::Reserved);
    let EntryReply::Exhausted(exhausted) = ledger.book(both("second")).await.unwrap() else { panic!() };
    assert_eq!((exhausted.account, exhausted.left), (other.clone(), 0));
    assert!(exhausted.renews_at_ms.is_some());
    assert_eq!((stands(ledger, &one).await, stands(ledger, &other).await), ((0, 1, 0, 0), (0, 1, 0, 0)));
    let zero = reserve("zero", None, vec![draw(&tenant_account(BudgetDimension::Critical, Period::Total), 0, 1)]);
    assert!(matches!(ledger.book(zero).await.unwrap(), EntryReply::Exhausted(_)));
    let greatest = pay("greatest", None, u64::MAX, u64::MAX);
    assert_eq!(ledger.book(greatest).await.unwrap(), EntryReply::Reserved);
    assert_eq!(money_stands(ledger).await, (0, u64::MAX, 0, 0), "the full range of amounts is stored");
}

/// Each draws on two accounts, half of them in the opposite order: there is no deadlock, and exactly as many
/// succeed as fit.
async fn last_units(kept: Kept) {
    let (second, third) = (kept.replica().await, kept.replica().await);
    let ledgers = [kept.both(), second.both(), third.both()];
    let critical = tenant_account(BudgetDimension::Critical, Period::Total);
    let mut tasks = JoinSet::new();
    for number in 0..90_usize {
        let (ledger, critical) = (ledgers[number % 3].clone(), critical.clone());
        tasks.spawn(async move {
            let mut draws = vec![draw(&money(), 1_000, 10), draw(&critical, 25, 1)];
            if number % 2 == 0 {
                draws.reverse();
            }
            let name = format!("call_{number}");
            match ledger.book(reserve(&name, None, draws)).await.unwrap() {
                EntryReply::Reserved if number % 3 == 0 => ledger.book(settle(&name, None)).await.map(|_| 1).unwrap(),
                EntryReply::Reserved => 1,
                EntryReply::Exhausted(_) => 0,
                other => panic!("{other:?}"),
            }
        });
    }
    let reserved: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(reserved, 25);
    let (spent, held, ..) = stands(&ledgers[1], &critical).await;
    assert_eq!(spent + held, 25);
    let (spent, held, ..) = money_stands(&ledgers[2]).await;
    assert_eq!(spent + held, 250);
}

/// A caller that does not know whether an entry was made makes it again, perhaps at another gateway, perhaps at
/// the same time.
async fn same_entry(kept: Kept) {
    let other = kept.replica().await;
    let mut tasks = JoinSet::new();
    for number in 0..40_usize {
        let ledger = if number % 2 == 0 { kept.both() } else { other.both() };
        tasks.spawn(async move {
            let name = format!("call_{}", number % 4);
            assert_eq!(ledger.book(pay(&name, None, 40, 10)).await.unwrap(), EntryReply::Reserved);
        });
    }
    tasks.join_all().await;
    assert_eq!(money_stands(&kept.both()).await, (0, 40, 0, 0));
    let (one, two) = (kept.both(), other.both());
    for name in ["call_0", "call_1", "call_2", "call_3"] {
        let entry = || if name < "call_2" { settle(name, Some(9)) } else { refund(name) };
        let (first, second) = tokio::join!(one.book(entry()), two.book(entry()));
        assert_eq!(first.unwrap(), second.unwrap());
    }
    assert_eq!(money_stands(&one).await, (18, 0, 0, 0));
    // Settled at one gateway and refunded at the other at the same time: whichever comes first, the cost is spent, and once.
    for number in 0..20 {
        let name = format!("both_{number}");
        one.book(pay(&name, None, 1_000, 10)).await.unwrap();
        let (settled, refunded) = tokio::join!(one.book(settle(&name, None)), two.book(refund(&name)));
        let again = two.book(pay(&name, None, 1_000, 10)).await.unwrap();
        // A settlement counts even after a refund, and is never forgotten.
        assert!(matches!(settled.unwrap(), EntryReply::Settled { .. }));
        assert!(matches!(refunded.unwrap(), EntryReply::Settled { .. } | EntryReply::Refunded));
        assert!(matches!(again, EntryReply::Settled { .. }), "{again:?}");
    }
    let (spent, held, ..) = money_stands(&two).await;
    assert_eq!((spent, held), (18 + 200, 0));
}

/// Moves the clock to half past the hour, so that no window ends during a test.
async fn at_half_past(kept: &Kept) {
    let ledger = &kept.both();
    let any = tenant_account(BudgetDimension::Write, Period::Total);
    ledger.book(reserve("clock", None, vec![draw(&any, 9, 1)])).await.unwrap();
    let standings = ledger.standings(BalanceQuery { tenant: None, limit: 1 }).await.unwrap();
    kept.advance(HOUR_MS + HOUR_MS / 2 - standings[0].changed_ms % HOUR_MS);
}

async fn windows(kept: Kept) {
    at_half_past(&kept).await;
    let ledger = &kept.both();
    let hourly = tenant_account(BudgetDimension::Financial, Period::Hour);
    let take = |name: &str, amount| reserve(name, None, vec![draw(&hourly, 100, amount)]);
    let EntryReply::Exhausted(full) = ledger.book(take("probe", 101)).await.unwrap() else { panic!() };
    assert_eq!((full.left, full.account), (100, hourly.clone()));
    assert_eq!(ledger.book(take("old", 100)).await.unwrap(), EntryReply::Reserved);
    kept.advance(HOUR_MS);
    assert_eq!(stands(ledger, &hourly).await, (0, 0, 0, 0), "as it stands now");
    assert_eq!(ledger.book(take("new", 60)).await.unwrap(), EntryReply::Reserved);
    assert_eq!(ledger.book(settle("old", None)).await.unwrap(), EntryReply::Settled { over: 0 });
    assert_eq!(stands(ledger, &hourly).await, (0, 60, 0, 0), "the draw before does not count in this hour");
    let EntryReply::Exhausted(exhausted) = ledger.book(take("more", 41)).await.unwrap() else { panic!() };
    assert_eq!(exhausted.left, 40);
    let later_ms = exhausted.renews_at_ms.unwrap() - full.renews_at_ms.unwrap();
    assert_eq!(later_ms, HOUR_MS);
}

fn lease(name: &str, account: &Account, limit: u64, wanted: u64) -> AccountEntry {
    AccountEntry::Lease(ChunkLease { id: id(name), account: account.clone(), limit, wanted })
}

async fn leased(kept: Kept) {
    let ledger = &kept.both();
    let other = kept.replica().await;
    let reads = tenant_account(BudgetDimension::Read, Period::Total);
    let granted = |granted| EntryReply::Leased { granted, lasts_ms: None };
    assert_eq!(ledger.book(lease("l1", &reads, 10, 6)).await.unwrap(), granted(6));
    assert_eq!(other.both().book(lease("l1", &reads, 10, 6)).await.unwrap(), granted(6));
    assert_eq!(other.both().book(lease("l2", &reads, 10, 6)).await.unwrap(), granted(4));
    assert!(matches!(ledger.book(lease("l3", &reads, 10, 1)).await.unwrap(), EntryReply::Exhausted(_)));
    for _ in 0..2 {
        let back = AccountEntry::ReturnLease(LeaseReturn { id: id("l1"), unused: 5 });
        assert_eq!(ledger.book(back).await.unwrap(), EntryReply::Settled { over: 0 });
    }
    assert_eq!(stands(ledger, &reads).await, (1, 0, 4, 0));
    assert_eq!(ledger.book(lease("l3", &reads, 10, 9)).await.unwrap(), granted(5));
    kept.advance(OPEN_MS_MAX + 1_000);
    assert_eq!(
        ledger.sweep(100).await.unwrap(),
        SweepReport::default(),
        "a lease is not closed, because its use is unknown"
    );
}

/// Three processes draw at once until nothing is left; one of them stops silently on its way.
async fn chunks(kept: Kept) {
    const LIMIT: u64 = 640;
    let (second, third) = (kept.replica().await, kept.replica().await);
    let mut tasks = JoinSet::new();
    for (number, ledger) in [kept.both(), second.both(), third.both()].into_iter().enumerate() {
        tasks.spawn(async move { draw_until_nothing_is_left(&ledger, LIMIT, number == 2).await });
    }
    let made: u64 = tasks.join_all().await.into_iter().sum();
    assert!(made <= LIMIT, "{made}");
    assert!(made + 10 >= LIMIT, "{made}: at most one chunk was lost with the process that died");
    let (spent, held, taken, over) = stands(&kept.both(), &tenant_account(BudgetDimension::Read, Period::Total)).await;
    assert_eq!((held, over), (0, 0));
    assert_eq!(spent + taken, LIMIT);
}

async fn draw_until_nothing_is_left(ledger: &Both, limit: u64, dies: bool) -> u64 {
    let draws = [draw(&tenant_account(BudgetDimension::Read, Period::Total), limit, 1)];
    let (mut chunks, mut made) = (Chunks::default(), 0);
    loop {
        match chunks.take(&draws, 1_000) {
            TakeOutcome::Taken(_) => made += 1,
            TakeOutcome::Exhausted(_) => break,
            TakeOutcome::First(entries) => {
                for entry in entries {
                    let booked = ledger.book(entry.clone()).await.unwrap();
                    chunks.record_reply(&entry, Some(&booked), 1_000);
                }
            }
            other => panic!("{other:?}"),
        }
        if dies && made == 33 {
            return made;
        }
    }
    for entry in chunks.close() {
        ledger.book(entry).await.unwrap();
    }
    made
}

async fn forgotten(kept: Kept) {
    let ledger = &kept.both();
    let (tenant, principal) = ("acme".to_owned(), "ada".to_owned());
    let run = BudgetScope::Run { tenant, principal, run: "r-1".to_owned() };
    let of_run = Account { scope: run, ..tenant_account(BudgetDimension::Critical, Period::Total) };
    let hourly = tenant_account(BudgetDimension::Financial, Period::Hour);
    let all = vec![draw(&of_run, 9, 1), draw(&hourly, 9, 1), draw(&money(), 9, 1)];
    ledger.book(reserve("call_1", None, all)).await.unwrap();
    ledger.book(settle("call_1", None)).await.unwrap();
    let hours = lease("l1", &tenant_account(BudgetDimension::Read, Period::Hour), 9, 1);
    ledger.book(hours.clone()).await.unwrap();
    let count = async || ledger.standings(BalanceQuery { tenant: None, limit: 9 }).await.unwrap().len();
    for (advance_ms, standing_count, reply) in [
        (0, 4, EntryReply::Settled { over: 0 }),
        (HOUR_MS, 4, EntryReply::Settled { over: 0 }),
        (25 * HOUR_MS, 2, EntryReply::NotFound),
        (30 * DAY_MS, 1, EntryReply::NotFound),
        (400 * DAY_MS, 1, EntryReply::NotFound),
    ] {
        kept.advance(advance_ms);
        ledger.sweep(100).await.unwrap();
        assert_eq!(count().await, standing_count, "{advance_ms}");
        assert_eq!(ledger.book(settle("call_1", None)).await.unwrap(), reply, "{advance_ms}");
    }
    assert_eq!(money_stands(ledger).await, (1, 0, 0, 0), "an account that never renews is never forgotten");
    let back = AccountEntry::ReturnLease(LeaseReturn { id: id("l1"), unused: 1 });
    assert_eq!(ledger.book(back).await.unwrap(), EntryReply::NotFound);
}

/// A caller whose connection is lost makes the same entry again. Afterwards the accounts are exact.
pub(super) async fn connections_come_back(kept: Kept, kill: impl AsyncFn()) {
    let ledger: Arc<Both> = kept.both();
    let mut tasks = JoinSet::new();
    for number in 0..120_usize {
        let ledger = ledger.clone();
        tasks.spawn(async move {
            let name = format!("call_{number}");
            let reserved = again_until_known(&ledger, pay(&name, None, 600, 10)).await == EntryReply::Reserved;
            if reserved {
                again_until_known(&ledger, settle(&name, Some(9))).await;
            }
            u64::from(reserved)
        });
        if number % 30 == 15 {
            kill().await;
        }
    }
    let reserved: u64 = tasks.join_all().await.into_iter().sum();
    let (spent, held, leased, over) = money_stands(&ledger).await;
    assert_eq!((spent, held, leased, over), (reserved * 9, 0, 0, 0));
    assert!((60..=66).contains(&reserved), "{reserved}: as many as fit, and unused reservations were free again");
}

async fn again_until_known(ledger: &Both, entry: AccountEntry) -> EntryReply {
    for _ in 0..50 {
        if let Ok(booked) = ledger.book(entry.clone()).await {
            return booked;
        }
    }
    panic!("the store never answered: {entry:?}");
}
