//! Reservations that dead processes leave behind are closed according to their effects: nothing leaks, and
//! nothing is spent twice.

use std::pin::Pin;

use servanda_contract::CallId;
use servanda_effects::{
    budget::{EntryReply, OPEN_MS_MAX, SweepReport},
    effect::{
        BeginRequest, Claim, DispatchEnd, EffectChange, EffectEvent, EffectId, EffectState, EffectTarget,
        ManualSettlement, OwnerId,
    },
};
use tokio::task::JoinSet;

use super::{
    budgets::{money_stands, pay, settle},
    kept::{Both, Kept},
    samples::{HOUR_MS, about, answer, begin, begin_keyless, begun, claim_first, mine, settled},
};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a sweep decides by the effect", |kept| Box::pin(swept(kept))),
    ("an effect costs once, whichever call tried it", |kept| Box::pin(superseded(kept))),
    ("gateways that die leak nothing and spend nothing twice", |kept| Box::pin(kills(kept))),
];

/// What only a store that outlives its processes has to do.
pub(super) const DURABLE_CASES: &[(&str, Case)] =
    &[("an effect is kept while something is reserved for it", |kept| Box::pin(kept_for(kept)))];

/// An effect in a given state, by the steps that lead there; none if it was never begun.
async fn effect_in(ledger: &Both, number: usize, how: Option<(bool, Option<DispatchEnd>)>) -> EffectId {
    let name = format!("k{number}");
    let Some((claims, end)) = how else { return EffectId::new() };
    let begin = if claims { claim_first(begin(&name)) } else { begin(&name) };
    let effect_id = begin.id.clone();
    let claim = mine(ledger.apply(begun(begin)).await.unwrap().reply);
    if let Some(end) = end {
        ledger.apply(settled(&claim, end)).await.unwrap();
    }
    effect_id
}

async fn swept(kept: Kept) {
    let ledger = &kept.both();
    let not_executed = || DispatchEnd::NotExecuted("refused".to_owned());
    let unknown = || DispatchEnd::Unknown("reset".to_owned());
    let table = [
        // the steps of the effect, and what stays reserved after a sweep now and later
        (Some((true, None)), 10, 10),
        (Some((false, None)), 10, 10),
        (Some((false, Some(DispatchEnd::Completed(answer("x"))))), 0, 0),
        (Some((false, Some(DispatchEnd::Failed(answer("x"))))), 0, 0),
        (Some((false, Some(not_executed()))), 0, 0),
        (Some((false, Some(unknown()))), 10, 10),
        (None, 10, 0),
    ];
    let mut effects = Vec::new();
    for (number, (how, ..)) in table.iter().enumerate() {
        let effect_id = effect_in(ledger, number, how.clone()).await;
        let entry = pay(&format!("call_{number}"), Some(&effect_id), 1_000, 10);
        assert_eq!(ledger.book(entry).await.unwrap(), EntryReply::Reserved);
        effects.push(effect_id);
    }
    ledger.book(pay("call_without", None, 1_000, 10)).await.unwrap();
    let at_once = table.iter().map(|row| row.1).sum::<u64>() + 10;
    let later = table.iter().map(|row| row.2).sum::<u64>();
    assert_eq!(ledger.sweep(100).await.unwrap(), SweepReport { settled: 2, refunded: 1 });
    assert_eq!(money_stands(ledger).await, (20, at_once, 0, 0));
    assert_eq!(ledger.sweep(100).await.unwrap(), SweepReport::default(), "a second sweep finds nothing to do");
    kept.advance(OPEN_MS_MAX - 1_000);
    assert_eq!(ledger.sweep(100).await.unwrap(), SweepReport::default());
    assert!(ledger.open_reservations(OPEN_MS_MAX, 9).await.unwrap().is_empty());
    kept.advance(2_000);
    assert_eq!(ledger.open_reservations(OPEN_MS_MAX, 100).await.unwrap().len() as u64, at_once / 10);
    // A sweep does what it can within its limit.
    assert_eq!(ledger.sweep(1).await.unwrap().refunded, 1);
    let rest = ledger.sweep(100).await.unwrap();
    assert_eq!(rest, SweepReport { settled: 1, refunded: 0 }, "a call without an effect may have been made");
    assert_eq!(money_stands(ledger).await, (30, later, 0, 0));
    // A person settles an unknown outcome, and then the sweep closes the reservation.
    let by_hand =
        ManualSettlement { epoch: None, completed: true, by: "ada".to_owned(), evidence: "bank statement".to_owned() };
    let mut change = about(&mine_of(ledger, &effects[5]).await, EffectEvent::SettleByHand(by_hand));
    change.target = EffectTarget::Id(effects[5].clone());
    ledger.apply(change).await.unwrap();
    assert_eq!(ledger.sweep(100).await.unwrap(), SweepReport { settled: 1, refunded: 0 });
    assert_eq!(money_stands(ledger).await, (40, 20, 0, 0));
    // An entry that comes late is still accepted.
    assert_eq!(ledger.book(settle("call_2", Some(7))).await.unwrap(), EntryReply::Settled { over: 0 });
    assert_eq!(ledger.book(settle("call_6", None)).await.unwrap(), EntryReply::Settled { over: 10 });
    assert_eq!(money_stands(ledger).await, (47, 20, 0, 10));
}

async fn mine_of(ledger: &Both, effect_id: &EffectId) -> Claim {
    let effect = ledger.find(EffectTarget::Id(effect_id.clone())).await.unwrap().unwrap();
    Claim { id: effect.id, epoch: effect.epoch }
}

/// A call reserves and dies before it learns that nothing was sent; another call tries the same effect again.
async fn superseded(kept: Kept) {
    let ledger = &kept.both();
    let effect_id = effect_in(ledger, 1, Some((false, Some(DispatchEnd::NotExecuted("refused".to_owned()))))).await;
    ledger.book(pay("call_k1", Some(&effect_id), 100, 10)).await.unwrap();
    kept.advance(1_000);
    let call_id = CallId::from("call_2".to_owned());
    let again = mine(ledger.apply(begun(BeginRequest { call_id, ..begin("k1") })).await.unwrap().reply);
    assert_eq!(again.id, effect_id);
    ledger.book(pay("call_2", Some(&effect_id), 100, 10)).await.unwrap();
    // A call that has lost the effect in the meantime still reserves, last of all: it is not the one that was
    // sent.
    kept.advance(1_000);
    ledger.book(pay("call_3", Some(&effect_id), 100, 10)).await.unwrap();
    assert_eq!(
        ledger.sweep(100).await.unwrap(),
        SweepReport { settled: 0, refunded: 2 },
        "the calls without the effect get their money back"
    );
    assert_eq!(money_stands(ledger).await, (0, 10, 0, 0));
    ledger.apply(settled(&again, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!(ledger.sweep(100).await.unwrap(), SweepReport { settled: 1, refunded: 0 });
    assert_eq!(money_stands(ledger).await, (10, 0, 0, 0));
}

/// Once an effect is forgotten, it cannot be said whether it was done. So it is kept while a reservation
/// depends on it.
async fn kept_for(kept: Kept) {
    let ledger = &kept.both();
    let begin = begin_keyless("call_1");
    let effect_id = begin.id.clone();
    let claim = mine(ledger.apply(begun(begin)).await.unwrap().reply);
    ledger.book(pay("call_1", Some(&effect_id), 100, 10)).await.unwrap();
    ledger.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await.unwrap();
    kept.advance(2 * HOUR_MS);
    assert_eq!(ledger.expire(100).await.unwrap(), 0);
    assert_eq!(ledger.sweep(100).await.unwrap(), SweepReport { settled: 1, refunded: 0 });
    assert_eq!(ledger.expire(100).await.unwrap(), 1);
    assert_eq!(money_stands(ledger).await, (10, 0, 0, 0));
}

/// Calls stop anywhere on their way, at gateways that die silently; then a sweep closes what is left.
async fn kills(kept: Kept) {
    let mut tasks = JoinSet::new();
    for gateway in 0..3_usize {
        let replica = kept.replica().await;
        tasks.spawn(async move {
            let mut done = 0;
            for number in 0..30_usize {
                done += pays_until(&replica.both(), &format!("{gateway}_{number}"), number % 7).await;
            }
            // The gateway is dropped here without being closed.
            done
        });
    }
    let done: u64 = tasks.join_all().await.into_iter().sum();
    let ledger = &kept.both();
    let (spent, held, leased, over) = money_stands(ledger).await;
    assert!(spent + held <= 500, "{spent} and {held}");
    assert_eq!((leased, over), (0, 0));
    // Effects that were sent and abandoned have no owner; recovery marks them unknown, and a person settles
    // them as done.
    kept.advance(24 * HOUR_MS);
    let mut by_hand = 0;
    for orphan in ledger.orphans(1_000).await.unwrap() {
        let target = EffectTarget::Id(orphan.id.clone());
        let recovery = EffectEvent::Recover(OwnerId::new());
        let recovered = ledger.apply(change(&target, recovery)).await.unwrap();
        if recovered.effect.unwrap().state == EffectState::OutcomeUnknown {
            let known =
                ManualSettlement { epoch: None, completed: true, by: "ada".to_owned(), evidence: "bank".to_owned() };
            ledger.apply(change(&target, EffectEvent::SettleByHand(known))).await.unwrap();
            by_hand += 1;
        }
    }
    while ledger.sweep(7).await.unwrap() != SweepReport::default() {}
    assert_eq!(
        money_stands(ledger).await,
        ((done + by_hand) * 10, 0, 0, 0),
        "exactly the effects that were done are paid for"
    );
    assert!(by_hand > 0 && done > 0);
    assert!(ledger.open_reservations(0, 9).await.unwrap().is_empty());
}

fn change(target: &EffectTarget, event: EffectEvent) -> EffectChange {
    EffectChange::new(target.clone(), event)
}

/// One call that costs ten millionths of a limit of five hundred. It stops after `steps` steps; returns 1 if it
/// was done and settled.
async fn pays_until(ledger: &Both, name: &str, steps: usize) -> u64 {
    let begin = claim_first(begin_keyless(name));
    let effect_id = begin.id.clone();
    let claim = mine(ledger.apply(begun(begin)).await.unwrap().reply);
    if steps == 0 {
        return 0;
    }
    if ledger.book(pay(name, Some(&effect_id), 500, 10)).await.unwrap() != EntryReply::Reserved {
        ledger.apply(about(&claim, EffectEvent::Release(claim.clone(), "no budget".to_owned()))).await.unwrap();
        return 0;
    }
    if steps == 1 {
        return 0;
    }
    mine(ledger.apply(about(&claim, EffectEvent::Fence(claim.clone()))).await.unwrap().reply);
    if steps == 2 {
        return 0;
    }
    let never_ran = steps == 3;
    let end =
        if never_ran { DispatchEnd::NotExecuted("refused".to_owned()) } else { DispatchEnd::Completed(answer("x")) };
    ledger.apply(settled(&claim, end)).await.unwrap();
    if steps >= 5 {
        ledger.book(settle(name, None)).await.unwrap();
    }
    u64::from(!never_ran)
}
