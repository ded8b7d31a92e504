//! The result of an entry. A pure function; every store runs it inside the transaction that reads the hold and
//! the accounts concerned and writes the result.
//!
//! The law: what is spent, reserved and leased of an account never exceeds its limit, except for use beyond the
//! reservation, which is counted separately. A hold is open, settled or refunded, and repeating an entry
//! changes nothing.

use std::collections::BTreeMap;

use servanda_contract::Digest;

use super::{
    Account, AccountBalance, AccountEntry, BudgetDimension, BudgetHold, BudgetHoldId, BudgetHoldKind, BudgetHoldStage,
    ChunkLease, ClosedBy, EntryReply, ExhaustedAccount, HeldDraw, LeaseReturn, Reservation,
};
use crate::effect::EffectId;

/// What is stored before an entry.
#[derive(Debug, Clone, Copy)]
pub struct BudgetSnapshot<'a> {
    /// The hold with the entry's id.
    pub hold: Option<&'a BudgetHold>,
    /// The balances of the accounts that the entry changes, by digest. An account without a balance was never
    /// drawn on.
    pub balances: &'a BTreeMap<Digest, AccountBalance>,
}

/// The result of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetTransition {
    /// The hold afterwards, if it changes.
    pub hold: Option<BudgetHold>,
    /// The new balances of the accounts that changed.
    pub balances: Vec<AccountBalance>,
    /// The reply to the caller.
    pub reply: EntryReply,
}

/// Computes the result of an entry.
pub fn step(before: BudgetSnapshot<'_>, entry: &AccountEntry, now_ms: u64) -> BudgetTransition {
    match (entry, before.hold) {
        (AccountEntry::Reserve(reservation), None) => reserve(before, reservation, now_ms),
        (AccountEntry::Lease(lease), None) => grant(before, lease, now_ms),
        (AccountEntry::Reserve(_) | AccountEntry::Lease(_), Some(hold)) => {
            BudgetTransition::reply(repeated_reply(hold, entry, now_ms))
        }
        (AccountEntry::Settle { .. } | AccountEntry::Refund { .. } | AccountEntry::ReturnLease(_), None) => {
            BudgetTransition::reply(EntryReply::NotFound)
        }
        (AccountEntry::Settle { cost_micros, by, .. }, Some(hold)) if hold.kind == BudgetHoldKind::Reservation => {
            if !hold.takes(BudgetHoldStage::Settled, *by) {
                return BudgetTransition::reply(hold.reply(now_ms));
            }
            // After a refund nothing is reserved, so everything that was used counts as beyond the reservation.
            let kept = |draw: &HeldDraw| if hold.stage == BudgetHoldStage::Refunded { 0 } else { draw.amount };
            close(before, hold, BudgetHoldStage::Settled, *by, now_ms, |draw| {
                let is_money = draw.account.dimension == BudgetDimension::Financial;
                let spent = cost_micros.filter(|_| is_money).unwrap_or(draw.amount);
                (spent, spent.saturating_sub(kept(draw)))
            })
        }
        (AccountEntry::Refund { by, .. }, Some(hold)) if hold.kind == BudgetHoldKind::Reservation => {
            if !hold.takes(BudgetHoldStage::Refunded, *by) {
                return BudgetTransition::reply(hold.reply(now_ms));
            }
            close(before, hold, BudgetHoldStage::Refunded, *by, now_ms, |_| (0, 0))
        }
        (AccountEntry::ReturnLease(LeaseReturn { unused, .. }), Some(hold)) if hold.kind == BudgetHoldKind::Lease => {
            if hold.stage != BudgetHoldStage::Open {
                return BudgetTransition::reply(hold.reply(now_ms));
            }
            close(before, hold, BudgetHoldStage::Settled, ClosedBy::Caller, now_ms, |draw| {
                (draw.amount.saturating_sub(*unused), 0)
            })
        }
        (AccountEntry::Settle { .. } | AccountEntry::Refund { .. } | AccountEntry::ReturnLease(_), Some(_)) => {
            BudgetTransition::reply(EntryReply::Mismatch)
        }
    }
}

impl BudgetTransition {
    fn reply(reply: EntryReply) -> Self {
        Self { hold: None, balances: Vec::new(), reply }
    }
}

impl BudgetHold {
    /// Whether it may be closed this way. The caller's report overrides a sweep's decision, and a settlement is
    /// never undone.
    fn takes(&self, stage: BudgetHoldStage, by: ClosedBy) -> bool {
        match (self.stage, self.closed_by, by) {
            (BudgetHoldStage::Open, ..) | (_, Some(ClosedBy::Sweep), ClosedBy::Caller) => true,
            (BudgetHoldStage::Refunded, _, ClosedBy::Caller) => stage == BudgetHoldStage::Settled,
            _ => false,
        }
    }

    fn reply(&self, now_ms: u64) -> EntryReply {
        let lease = self.draws.first().filter(|_| self.kind == BudgetHoldKind::Lease);
        match (self.stage, lease) {
            (BudgetHoldStage::Open, None) => EntryReply::Reserved,
            (BudgetHoldStage::Open, Some(draw)) => {
                let end_ms = draw.account.period.end_ms(draw.window_start_ms);
                EntryReply::Leased {
                    granted: draw.amount,
                    lasts_ms: end_ms.map(|end_ms| end_ms.saturating_sub(now_ms)),
                }
            }
            (BudgetHoldStage::Settled, _) => EntryReply::Settled { over: self.over() },
            (BudgetHoldStage::Refunded, _) => EntryReply::Refunded,
        }
    }
}

fn reserve(before: BudgetSnapshot<'_>, reservation: &Reservation, now_ms: u64) -> BudgetTransition {
    let Reservation { id, effect, draws } = reservation;
    let mut balances: BTreeMap<Digest, AccountBalance> = BTreeMap::new();
    let (mut kept, mut exhausted) = (Vec::new(), None);
    for draw in draws {
        let digest = draw.account.digest();
        let known = balances.get(&digest).or_else(|| before.balances.get(&digest));
        let mut balance = current_balance(known, &draw.account, draw.limit, now_ms);
        if draw.amount > balance.left() {
            exhausted = Some(later(exhausted, balance.exhausted()));
            continue;
        }
        kept.push(HeldDraw::new(&balance, draw.amount));
        balance.reserved = balance.reserved.saturating_add(draw.amount);
        balances.insert(digest, balance);
    }
    if let Some(exhausted) = exhausted {
        return BudgetTransition::reply(EntryReply::Exhausted(exhausted));
    }
    let hold = opened(id, BudgetHoldKind::Reservation, effect.clone(), kept, now_ms);
    BudgetTransition { reply: hold.reply(now_ms), hold: Some(hold), balances: balances.into_values().collect() }
}

fn grant(before: BudgetSnapshot<'_>, lease: &ChunkLease, now_ms: u64) -> BudgetTransition {
    let known = before.balances.get(&lease.account.digest());
    let mut balance = current_balance(known, &lease.account, lease.limit, now_ms);
    let granted = lease.wanted.min(balance.left());
    if granted == 0 {
        return BudgetTransition::reply(EntryReply::Exhausted(balance.exhausted()));
    }
    let hold = opened(&lease.id, BudgetHoldKind::Lease, None, vec![HeldDraw::new(&balance, granted)], now_ms);
    balance.leased = balance.leased.saturating_add(granted);
    BudgetTransition { reply: hold.reply(now_ms), hold: Some(hold), balances: vec![balance] }
}

/// A repeated entry gets the same reply as before; an id that was used for something else gets a mismatch.
fn repeated_reply(hold: &BudgetHold, entry: &AccountEntry, now_ms: u64) -> EntryReply {
    let is_same = match entry {
        AccountEntry::Reserve(Reservation { effect, draws, .. }) => {
            let kept = hold.draws.iter().map(|draw| (&draw.account, draw.amount));
            hold.kind == BudgetHoldKind::Reservation
                && hold.effect == *effect
                && kept.eq(draws.iter().map(|draw| (&draw.account, draw.amount)))
        }
        AccountEntry::Lease(lease) => {
            hold.kind == BudgetHoldKind::Lease && hold.draws.iter().all(|draw| draw.account == lease.account)
        }
        AccountEntry::Settle { .. } | AccountEntry::Refund { .. } | AccountEntry::ReturnLease(_) => false,
    };
    if is_same { hold.reply(now_ms) } else { EntryReply::Mismatch }
}

fn close(
    before: BudgetSnapshot<'_>,
    hold: &BudgetHold,
    stage: BudgetHoldStage,
    by: ClosedBy,
    now_ms: u64,
    used: impl Fn(&HeldDraw) -> (u64, u64),
) -> BudgetTransition {
    let use_up = |draw: &HeldDraw| {
        let (spent, over) = used(draw);
        HeldDraw { spent, over, ..draw.clone() }
    };
    let draws = hold.draws.iter().map(use_up).collect();
    let closed = BudgetHold { draws, stage, closed_by: Some(by), closed_ms: Some(now_ms), ..hold.clone() };
    let mut balances: BTreeMap<Digest, AccountBalance> = BTreeMap::new();
    for (draw, used) in hold.draws.iter().zip(&closed.draws) {
        let digest = draw.account.digest();
        let Some(balance) = before.balances.get(&digest) else { continue };
        let balance = balances.entry(digest).or_insert_with(|| balance.clone());
        balance.move_share((hold, draw), (&closed, used), now_ms);
    }
    let balances = balances.into_values().collect();
    BudgetTransition { reply: closed.reply(now_ms), hold: Some(closed), balances }
}

fn current_balance(known: Option<&AccountBalance>, account: &Account, limit: u64, now_ms: u64) -> AccountBalance {
    let balance =
        known.map_or_else(|| AccountBalance::new(account.clone(), limit, now_ms), |balance| balance.at(now_ms));
    AccountBalance { limit, changed_ms: now_ms, ..balance }
}

fn opened(
    id: &BudgetHoldId,
    kind: BudgetHoldKind,
    effect: Option<EffectId>,
    draws: Vec<HeldDraw>,
    now_ms: u64,
) -> BudgetHold {
    let (id, stage) = (id.clone(), BudgetHoldStage::Open);
    BudgetHold { id, kind, effect, draws, stage, closed_by: None, opened_ms: now_ms, closed_ms: None }
}

/// Of two exhausted accounts, the one that renews later.
fn later(one: Option<ExhaustedAccount>, other: ExhaustedAccount) -> ExhaustedAccount {
    let when = |exhausted: &ExhaustedAccount| exhausted.renews_at_ms.unwrap_or(u64::MAX);
    one.filter(|one| when(one) >= when(&other)).unwrap_or(other)
}

impl HeldDraw {
    fn new(balance: &AccountBalance, amount: u64) -> Self {
        let AccountBalance { account, window_start_ms, .. } = balance;
        Self { account: account.clone(), window_start_ms: *window_start_ms, amount, spent: 0, over: 0 }
    }
}
