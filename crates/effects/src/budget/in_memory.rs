//! Budgets that last as long as the process, for one-off commands and for tests. They follow the same rules as
//! any store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_contract::{Digest, time::Clock};

use super::{
    Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetHoldId, BudgetHoldKind, BudgetHoldStage,
    BudgetSnapshot, BudgetStore, BudgetTransition, ClosedBy, EntryReply, SweepDecision, SweepReport, step,
    sweep_decision,
};
use crate::{
    JournalError, PortFuture,
    effect::{Effect, EffectStore, EffectTarget},
};

/// Budgets in memory.
#[derive(Debug)]
pub struct InMemoryBudgets {
    clock: Arc<dyn Clock>,
    effects: Arc<dyn EffectStore>,
    books: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holds: BTreeMap<BudgetHoldId, BudgetHold>,
    balances: BTreeMap<Digest, AccountBalance>,
}

impl InMemoryBudgets {
    /// Makes empty budgets. Reservations refer to these effects.
    pub fn new(clock: Arc<dyn Clock>, effects: Arc<dyn EffectStore>) -> Self {
        Self { clock, effects, books: Mutex::default() }
    }

    fn books(&self) -> MutexGuard<'_, State> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().unix_ms()
    }

    /// Open reservations, oldest first.
    fn open(&self) -> Vec<BudgetHold> {
        let is_open =
            |hold: &&BudgetHold| hold.stage == BudgetHoldStage::Open && hold.kind == BudgetHoldKind::Reservation;
        let mut open: Vec<BudgetHold> = self.books().holds.values().filter(is_open).cloned().collect();
        open.sort_by(|one, other| (one.opened_ms, &one.id).cmp(&(other.opened_ms, &other.id)));
        open
    }

    async fn effect_of(&self, hold: &BudgetHold) -> Result<Option<Effect>, JournalError> {
        let Some(effect_id) = &hold.effect else { return Ok(None) };
        self.effects.find(EffectTarget::Id(effect_id.clone())).await
    }
}

impl State {
    fn apply_entry(&mut self, entry: &AccountEntry, now_ms: u64) -> EntryReply {
        let before = BudgetSnapshot { hold: self.holds.get(entry.id()), balances: &self.balances };
        let BudgetTransition { hold, balances, reply } = step(before, entry, now_ms);
        self.balances.extend(balances.into_iter().map(|balance| (balance.account.digest(), balance)));
        self.holds.extend(hold.map(|hold| (hold.id.clone(), hold)));
        reply
    }

    /// Whether another call that has reserved for the effect owns it by now.
    fn is_superseded(&self, hold: &BudgetHold, effect: &Effect) -> bool {
        let present = BudgetHoldId::from(&effect.call_id);
        let other = self.holds.get(&present).filter(|other| other.id != hold.id && other.effect == hold.effect);
        other.is_some_and(|other| other.stage != BudgetHoldStage::Refunded)
    }

    fn forget(&mut self, now_ms: u64) {
        let is_kept = |expires_ms: Option<u64>| expires_ms.is_none_or(|expires_ms| now_ms < expires_ms);
        self.holds.retain(|_, hold| is_kept(hold.expires_ms()));
        self.balances.retain(|_, balance| is_kept(balance.expires_ms()));
    }
}

impl BudgetStore for InMemoryBudgets {
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>> {
        let booked = self.books().apply_entry(&entry, self.now_ms());
        Box::pin(std::future::ready(Ok(booked)))
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>> {
        Box::pin(async move {
            let (mut swept, by) = (SweepReport::default(), ClosedBy::Sweep);
            for hold in self.open() {
                if swept.settled + swept.refunded >= u64::from(limit) {
                    break;
                }
                let effect = self.effect_of(&hold).await?;
                let (now_ms, mut books) = (self.now_ms(), self.books());
                let id = hold.id.clone();
                let is_superseded = effect.as_ref().is_some_and(|effect| books.is_superseded(&hold, effect));
                match sweep_decision(&hold, effect.map(|effect| effect.state), is_superseded, now_ms) {
                    SweepDecision::Settle => {
                        books.apply_entry(&AccountEntry::Settle { id, cost_micros: None, by }, now_ms);
                        swept.settled += 1;
                    }
                    SweepDecision::Refund => {
                        books.apply_entry(&AccountEntry::Refund { id, by }, now_ms);
                        swept.refunded += 1;
                    }
                    SweepDecision::Wait => {}
                }
            }
            self.books().forget(self.now_ms());
            Ok(swept)
        })
    }

    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>> {
        let until_ms = self.now_ms().saturating_sub(older_than_ms);
        let mut open = self.open();
        open.retain(|hold| hold.opened_ms <= until_ms);
        open.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Box::pin(std::future::ready(Ok(open)))
    }

    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        let now_ms = self.now_ms();
        let wanted = |balance: &&AccountBalance| {
            query.tenant.as_deref().is_none_or(|tenant| tenant == balance.account.scope.tenant())
        };
        let mut balances: Vec<AccountBalance> = self.books().balances.values().filter(wanted).cloned().collect();
        balances.sort_by_key(|balance| std::cmp::Reverse(balance.changed_ms));
        balances.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
        Box::pin(std::future::ready(Ok(balances.iter().map(|balance| balance.at(now_ms)).collect())))
    }

    fn find_balances(&self, accounts: Vec<Account>) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        let (now_ms, books) = (self.now_ms(), self.books());
        let found = accounts.iter().filter_map(|account| books.balances.get(&account.digest()));
        let found = found.map(|balance| balance.at(now_ms)).collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}
