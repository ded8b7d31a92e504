//! What follows on an entry in the books. A pure function; every store runs it inside the transaction that reads the hold and the
//! accounts concerned and writes what comes of it.
//!
//! The law: what is spent, kept back and leased of an account is never more than its limit, but for what was used beyond what was
//! kept back, which is counted apart. A hold is open, settled or refunded, and the same entry made again changes nothing.

use std::collections::BTreeMap;

use servanda_contract::Digest;

use super::{
    Account, Booked, ClosedBy, Dimension, Entry, Exhausted, GiveBack, HeldDraw, Hold, HoldId, HoldKind, Lease,
    Reservation, Stage, Standing,
};
use crate::effect::EffectId;

/// What is on the books before an entry.
#[derive(Debug, Clone, Copy)]
pub struct Before<'a> {
    /// Under the entry's id.
    pub hold: Option<&'a Hold>,
    /// How the accounts stand that the entry is about, by their digests. One that is not there was never drawn on.
    pub standings: &'a BTreeMap<Digest, Standing>,
}

/// What an entry comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The hold afterwards, if it changes.
    pub hold: Option<Hold>,
    /// The accounts that changed, as they stand afterwards.
    pub standings: Vec<Standing>,
    /// What to tell.
    pub reply: Booked,
}

/// What follows on an entry.
pub fn step(before: Before<'_>, entry: &Entry, now_ms: u64) -> Step {
    match (entry, before.hold) {
        (Entry::Reserve(reservation), None) => reserve(before, reservation, now_ms),
        (Entry::Lease(lease), None) => grant(before, lease, now_ms),
        (Entry::Reserve(_) | Entry::Lease(_), Some(hold)) => Step::reply(again(hold, entry, now_ms)),
        (Entry::Settle { .. } | Entry::Refund { .. } | Entry::GiveBack(_), None) => Step::reply(Booked::NotFound),
        (Entry::Settle { cost_micros, by, .. }, Some(hold)) if hold.kind == HoldKind::Reservation => {
            if !hold.takes(Stage::Settled, *by) {
                return Step::reply(hold.reply(now_ms));
            }
            // What was given back was kept back by nobody when it was used.
            let kept = |draw: &HeldDraw| if hold.stage == Stage::Refunded { 0 } else { draw.amount };
            close(before, hold, Stage::Settled, *by, now_ms, |draw| {
                let is_money = draw.account.dimension == Dimension::Financial;
                let spent = cost_micros.filter(|_| is_money).unwrap_or(draw.amount);
                (spent, spent.saturating_sub(kept(draw)))
            })
        }
        (Entry::Refund { by, .. }, Some(hold)) if hold.kind == HoldKind::Reservation => {
            if !hold.takes(Stage::Refunded, *by) {
                return Step::reply(hold.reply(now_ms));
            }
            close(before, hold, Stage::Refunded, *by, now_ms, |_| (0, 0))
        }
        (Entry::GiveBack(GiveBack { unused, .. }), Some(hold)) if hold.kind == HoldKind::Lease => {
            if hold.stage != Stage::Open {
                return Step::reply(hold.reply(now_ms));
            }
            close(before, hold, Stage::Settled, ClosedBy::Caller, now_ms, |draw| {
                (draw.amount.saturating_sub(*unused), 0)
            })
        }
        (Entry::Settle { .. } | Entry::Refund { .. } | Entry::GiveBack(_), Some(_)) => Step::reply(Booked::Mismatch),
    }
}

impl Step {
    fn reply(reply: Booked) -> Self {
        Self { hold: None, standings: Vec::new(), reply }
    }
}

impl Hold {
    /// Whether it may be closed so. What a sweep decided, the caller knows better, and that a call was made is never forgotten.
    fn takes(&self, stage: Stage, by: ClosedBy) -> bool {
        match (self.stage, self.closed_by, by) {
            (Stage::Open, ..) | (_, Some(ClosedBy::Sweep), ClosedBy::Caller) => true,
            (Stage::Refunded, _, ClosedBy::Caller) => stage == Stage::Settled,
            _ => false,
        }
    }

    fn reply(&self, now_ms: u64) -> Booked {
        let lease = self.draws.first().filter(|_| self.kind == HoldKind::Lease);
        match (self.stage, lease) {
            (Stage::Open, None) => Booked::Reserved,
            (Stage::Open, Some(draw)) => {
                let end_ms = draw.account.period.end_ms(draw.window_start_ms);
                Booked::Leased { granted: draw.amount, lasts_ms: end_ms.map(|end_ms| end_ms.saturating_sub(now_ms)) }
            }
            (Stage::Settled, _) => Booked::Settled { over: self.over() },
            (Stage::Refunded, _) => Booked::Refunded,
        }
    }
}

fn reserve(before: Before<'_>, reservation: &Reservation, now_ms: u64) -> Step {
    let Reservation { id, effect, draws } = reservation;
    let mut standings: BTreeMap<Digest, Standing> = BTreeMap::new();
    let (mut kept, mut exhausted) = (Vec::new(), None);
    for draw in draws {
        let digest = draw.account.digest();
        let known = standings.get(&digest).or_else(|| before.standings.get(&digest));
        let mut standing = present(known, &draw.account, draw.limit, now_ms);
        if draw.amount > standing.left() {
            exhausted = Some(later(exhausted, standing.exhausted()));
            continue;
        }
        kept.push(HeldDraw::of(&standing, draw.amount));
        standing.reserved = standing.reserved.saturating_add(draw.amount);
        standings.insert(digest, standing);
    }
    if let Some(exhausted) = exhausted {
        return Step::reply(Booked::Exhausted(exhausted));
    }
    let hold = opened(id, HoldKind::Reservation, effect.clone(), kept, now_ms);
    Step { reply: hold.reply(now_ms), hold: Some(hold), standings: standings.into_values().collect() }
}

fn grant(before: Before<'_>, lease: &Lease, now_ms: u64) -> Step {
    let known = before.standings.get(&lease.account.digest());
    let mut standing = present(known, &lease.account, lease.limit, now_ms);
    let granted = lease.wanted.min(standing.left());
    if granted == 0 {
        return Step::reply(Booked::Exhausted(standing.exhausted()));
    }
    let hold = opened(&lease.id, HoldKind::Lease, None, vec![HeldDraw::of(&standing, granted)], now_ms);
    standing.leased = standing.leased.saturating_add(granted);
    Step { reply: hold.reply(now_ms), hold: Some(hold), standings: vec![standing] }
}

/// The same entry made again is told what it was told; an id that was used for something else is not.
fn again(hold: &Hold, entry: &Entry, now_ms: u64) -> Booked {
    let is_same = match entry {
        Entry::Reserve(Reservation { effect, draws, .. }) => {
            let kept = hold.draws.iter().map(|draw| (&draw.account, draw.amount));
            hold.kind == HoldKind::Reservation
                && hold.effect == *effect
                && kept.eq(draws.iter().map(|draw| (&draw.account, draw.amount)))
        }
        Entry::Lease(lease) => {
            hold.kind == HoldKind::Lease && hold.draws.iter().all(|draw| draw.account == lease.account)
        }
        Entry::Settle { .. } | Entry::Refund { .. } | Entry::GiveBack(_) => false,
    };
    if is_same { hold.reply(now_ms) } else { Booked::Mismatch }
}

fn close(
    before: Before<'_>,
    hold: &Hold,
    stage: Stage,
    by: ClosedBy,
    now_ms: u64,
    used: impl Fn(&HeldDraw) -> (u64, u64),
) -> Step {
    let use_up = |draw: &HeldDraw| {
        let (spent, over) = used(draw);
        HeldDraw { spent, over, ..draw.clone() }
    };
    let draws = hold.draws.iter().map(use_up).collect();
    let closed = Hold { draws, stage, closed_by: Some(by), closed_ms: Some(now_ms), ..hold.clone() };
    let mut standings: BTreeMap<Digest, Standing> = BTreeMap::new();
    for (draw, used) in hold.draws.iter().zip(&closed.draws) {
        let digest = draw.account.digest();
        let Some(standing) = before.standings.get(&digest) else { continue };
        let standing = standings.entry(digest).or_insert_with(|| standing.clone());
        standing.move_share((hold, draw), (&closed, used), now_ms);
    }
    let standings = standings.into_values().collect();
    Step { reply: closed.reply(now_ms), hold: Some(closed), standings }
}

fn present(known: Option<&Standing>, account: &Account, limit: u64, now_ms: u64) -> Standing {
    let standing =
        known.map_or_else(|| Standing::opened(account.clone(), limit, now_ms), |standing| standing.at(now_ms));
    Standing { limit, changed_ms: now_ms, ..standing }
}

fn opened(id: &HoldId, kind: HoldKind, effect: Option<EffectId>, draws: Vec<HeldDraw>, now_ms: u64) -> Hold {
    let (id, stage) = (id.clone(), Stage::Open);
    Hold { id, kind, effect, draws, stage, closed_by: None, opened_ms: now_ms, closed_ms: None }
}

/// Of two that are exhausted, the one that has to be waited for longer.
fn later(one: Option<Exhausted>, other: Exhausted) -> Exhausted {
    let when = |exhausted: &Exhausted| exhausted.renews_at_ms.unwrap_or(u64::MAX);
    one.filter(|one| when(one) >= when(&other)).unwrap_or(other)
}

impl HeldDraw {
    fn of(standing: &Standing, amount: u64) -> Self {
        let Standing { account, window_start_ms, .. } = standing;
        Self { account: account.clone(), window_start_ms: *window_start_ms, amount, spent: 0, over: 0 }
    }
}
