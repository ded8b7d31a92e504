//! Budgets that last as long as the process: for one-off commands and for tests. They keep the same laws as any store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_contract::{Digest, time::Clock};

use super::{
    Before, Booked, Budgets, ClosedBy, Entry, Hold, HoldId, HoldKind, Stage, Standing, StandingQuery, Step, Swept,
    Verdict, step, verdict,
};
use crate::{
    JournalError, PortFuture,
    effect::{Effect, Effects, Target},
};

/// Budgets in memory.
#[derive(Debug)]
pub struct FleetingBudgets {
    clock: Arc<dyn Clock>,
    effects: Arc<dyn Effects>,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    holds: BTreeMap<HoldId, Hold>,
    standings: BTreeMap<Digest, Standing>,
}

impl FleetingBudgets {
    /// Nothing is drawn yet. Reservations are for these effects.
    pub fn new(clock: Arc<dyn Clock>, effects: Arc<dyn Effects>) -> Self {
        Self { clock, effects, books: Mutex::default() }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().unix_ms()
    }

    /// Open reservations, the oldest first.
    fn open(&self) -> Vec<Hold> {
        let is_open = |hold: &&Hold| hold.stage == Stage::Open && hold.kind == HoldKind::Reservation;
        let mut open: Vec<Hold> = self.books().holds.values().filter(is_open).cloned().collect();
        open.sort_by(|one, other| (one.opened_ms, &one.id).cmp(&(other.opened_ms, &other.id)));
        open
    }

    async fn effect_of(&self, hold: &Hold) -> Result<Option<Effect>, JournalError> {
        let Some(effect_id) = &hold.effect else { return Ok(None) };
        self.effects.find(Target::Id(effect_id.clone())).await
    }
}

impl Books {
    fn book(&mut self, entry: &Entry, now_ms: u64) -> Booked {
        let before = Before { hold: self.holds.get(entry.id()), standings: &self.standings };
        let Step { hold, standings, reply } = step(before, entry, now_ms);
        self.standings.extend(standings.into_iter().map(|standing| (standing.account.digest(), standing)));
        self.holds.extend(hold.map(|hold| (hold.id.clone(), hold)));
        reply
    }

    /// Whether the effect is another call's by now that has reserved for it.
    fn is_superseded(&self, hold: &Hold, effect: &Effect) -> bool {
        let present = HoldId::from(&effect.call_id);
        let other = self.holds.get(&present).filter(|other| other.id != hold.id && other.effect == hold.effect);
        other.is_some_and(|other| other.stage != Stage::Refunded)
    }

    fn forget(&mut self, now_ms: u64) {
        let is_kept = |expires_ms: Option<u64>| expires_ms.is_none_or(|expires_ms| now_ms < expires_ms);
        self.holds.retain(|_, hold| is_kept(hold.expires_ms()));
        self.standings.retain(|_, standing| is_kept(standing.expires_ms()));
    }
}

impl Budgets for FleetingBudgets {
    fn book(&self, entry: Entry) -> PortFuture<'_, Result<Booked, JournalError>> {
        let booked = self.books().book(&entry, self.now_ms());
        Box::pin(std::future::ready(Ok(booked)))
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<Swept, JournalError>> {
        Box::pin(async move {
            let (mut swept, by) = (Swept::default(), ClosedBy::Sweep);
            for hold in self.open() {
                if swept.settled + swept.refunded >= u64::from(limit) {
                    break;
                }
                let effect = self.effect_of(&hold).await?;
                let (now_ms, mut books) = (self.now_ms(), self.books());
                let id = hold.id.clone();
                let is_superseded = effect.as_ref().is_some_and(|effect| books.is_superseded(&hold, effect));
                match verdict(&hold, effect.map(|effect| effect.state), is_superseded, now_ms) {
                    Verdict::Settle => {
                        books.book(&Entry::Settle { id, cost_micros: None, by }, now_ms);
                        swept.settled += 1;
                    }
                    Verdict::Refund => {
                        books.book(&Entry::Refund { id, by }, now_ms);
                        swept.refunded += 1;
                    }
                    Verdict::Wait => {}
                }
            }
            self.books().forget(self.now_ms());
            Ok(swept)
        })
    }

    fn open_reservations(&self, older_than_ms: u64, limit: u32) -> PortFuture<'_, Result<Vec<Hold>, JournalError>> {
        let until_ms = self.now_ms().saturating_sub(older_than_ms);
        let mut open = self.open();
        open.retain(|hold| hold.opened_ms <= until_ms);
        open.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Box::pin(std::future::ready(Ok(open)))
    }

    fn standings(&self, query: StandingQuery) -> PortFuture<'_, Result<Vec<Standing>, JournalError>> {
        let now_ms = self.now_ms();
        let wanted = |standing: &&Standing| {
            query.tenant.as_deref().is_none_or(|tenant| tenant == standing.account.scope.tenant())
        };
        let mut standings: Vec<Standing> = self.books().standings.values().filter(wanted).cloned().collect();
        standings.sort_by_key(|standing| std::cmp::Reverse(standing.changed_ms));
        standings.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
        Box::pin(std::future::ready(Ok(standings.iter().map(|standing| standing.at(now_ms)).collect())))
    }
}
