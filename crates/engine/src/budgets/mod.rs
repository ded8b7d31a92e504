//! Gate 11 in this process: the accounts, the units that this process hands out by itself, and the rate limits. `gates::budget` decides
//! what a call draws and whether there is enough; this module asks the store, once for all calls that wait for the same answer.
//!
//! Only leased units are in memory: a process that dies loses at most a chunk of each account. What a call reserved is closed when the call
//! ends ([`CallCharge`]), or else by the sweep.

mod call_charge;
mod forecast;
mod refusals;
mod upkeep;
mod with_deadline;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_authority::AuthenticatedCaller;
use servanda_contract::{Proposal, time::Clock};
use servanda_effects::{
    FailureStreak, JournalError,
    budget::{AccountEntry, BudgetStore, Chunks, UnitTicket},
};
use servanda_gates::{
    Permit,
    budget::{
        Allowance, AllowanceScope, BudgetSources, Cleared, NotCleared, PricedCall, RateCheckedCall, ToolRateLimiter,
        UnitLeaseProgress,
    },
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::TaskTracker;

pub(crate) use self::{
    call_charge::{CallCharge, DispatchCertainty},
    forecast::{BudgetForecast, DrawForecast, forecast},
    refusals::refuse,
    upkeep::{return_units, run_upkeep},
    with_deadline::WithDeadline,
};

/// The most tools, of all tenants, whose rates are kept.
const BUCKETS_MAX: usize = 16_384;

/// Draws from budgets for the calls of this process.
#[derive(Debug)]
pub(crate) struct BudgetClient {
    store: Arc<dyn BudgetStore>,
    clock: Arc<dyn Clock>,
    /// Entries that are being made; the engine waits for them when it shuts down.
    in_flight: TaskTracker,
    chunks: Mutex<Chunks>,
    rates: Mutex<ToolRateLimiter>,
    /// Notified whenever the store has answered.
    answered: Notify,
    /// Charges and searches for abandoned reservations that failed, of which the log tells the first of a streak.
    failed_charges: FailureStreak,
    failed_sweeps: FailureStreak,
}

impl BudgetClient {
    pub(crate) fn new(books: Arc<dyn BudgetStore>, clock: Arc<dyn Clock>, in_flight: TaskTracker) -> Self {
        let rates = Mutex::new(ToolRateLimiter::new(BUCKETS_MAX));
        let (failed_charges, failed_sweeps) = (FailureStreak::default(), FailureStreak::default());
        let (chunks, answered) = (Mutex::default(), Notify::new());
        Self { store: books, clock, in_flight, chunks, rates, answered, failed_charges, failed_sweeps }
    }

    /// The store, for people who look.
    pub(crate) fn store(&self) -> &dyn BudgetStore {
        self.store.as_ref()
    }

    /// The store, for a caller that waits until the deadline and no longer.
    pub(crate) fn with_deadline(&self, deadline: Instant) -> WithDeadline<'_> {
        WithDeadline { store: self.store.as_ref(), deadline }
    }

    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts back the units of a call that was never sent.
    fn put_back(&self, ticket: UnitTicket) {
        self.chunks().put_back(ticket);
    }
}

/// Takes a call through gate 11, except for the amounts that are reserved when it is claimed. The store is asked only if a chunk is empty
/// or if a call that changes nothing costs money.
pub(crate) async fn clear(
    budget_client: &Arc<BudgetClient>,
    permit: Permit,
    budget_sources: (&[Allowance], &AuthenticatedCaller),
    deadline: Instant,
    call_charge: &mut CallCharge,
) -> Result<Cleared, Box<NotCleared>> {
    let (allowances, authenticated) = budget_sources;
    let now_ms = budget_client.clock.now().unix_ms();
    let run = run_of_call(permit.proposal(), allowances).map(Cow::into_owned);
    let charge = PricedCall::new(permit, &BudgetSources { allowances, authenticated, run: run.as_deref() })?;
    let paced = charge.check_rate(&mut budget_client.rates.lock().unwrap_or_else(PoisonError::into_inner), now_ms)?;
    let cleared = match paced.clear() {
        Ok(cleared) => cleared,
        // Boxed, because calls that take no units need no room for it.
        Err(paced) => Box::pin(lease(budget_client, paced, deadline, call_charge)).await?,
    };
    if !cleared.is_due() || cleared.permit().effect_class().mutates() {
        return Ok(cleared);
    }
    // This call closes the reservation, whatever its outcome.
    call_charge.set_hold(cleared.permit());
    let patient = budget_client.with_deadline(deadline);
    Box::pin(cleared.reserve_alone(&patient)).await
}

/// Which run a call belongs to: the one that its client names, else its session. Computed only if a budget is per run.
fn run_of_call<'a>(proposal: &'a Proposal, allowances: &[Allowance]) -> Option<Cow<'a, str>> {
    if !allowances.iter().any(|allowance| allowance.per == AllowanceScope::Run) {
        return None;
    }
    let keys = &proposal.keys;
    match (&keys.workflow_id, &keys.run_id) {
        (Some(workflow), Some(run)) => Some(Cow::Owned(format!("{workflow}/{run}"))),
        (None, Some(run)) => Some(Cow::Borrowed(run)),
        (_, None) => proposal.caller.session.as_deref().map(Cow::Borrowed),
    }
}

async fn lease(
    budget_client: &Arc<BudgetClient>,
    mut paced: Box<RateCheckedCall>,
    deadline: Instant,
    call_charge: &mut CallCharge,
) -> Result<Cleared, Box<NotCleared>> {
    loop {
        // Enabled before the chunks are looked at, so that an answer in between is not missed.
        let mut answered = std::pin::pin!(budget_client.answered.notified());
        answered.as_mut().enable();
        let leasing = paced.lease(&mut budget_client.chunks(), budget_client.clock.now().unix_ms());
        let asked = match leasing {
            UnitLeaseProgress::Cleared(cleared, ticket) => {
                call_charge.take_units(ticket);
                return Ok(*cleared);
            }
            UnitLeaseProgress::Exhausted(not_cleared) => return Err(not_cleared),
            UnitLeaseProgress::First(back, entries) => {
                paced = back;
                book_entries(budget_client, entries, deadline).await
            }
            UnitLeaseProgress::Wait(back) => {
                paced = back;
                tokio::time::timeout_at(deadline, answered).await.map_err(|_| with_deadline::too_slow())
            }
        };
        if let Err(error) = asked {
            return Err(paced.store_unavailable(error));
        }
    }
}

/// Makes entries and records the replies even if this call stops waiting, because other calls wait for the same replies.
async fn book_entries(
    budget_client: &Arc<BudgetClient>,
    entries: Vec<AccountEntry>,
    deadline: Instant,
) -> Result<(), JournalError> {
    let inside = Arc::clone(budget_client);
    let asking = budget_client.in_flight.spawn(async move {
        let mut outcome = Ok(());
        for entry in entries {
            let booked = inside.store.apply_entry(entry.clone()).await;
            inside.chunks().record_reply(&entry, booked.as_ref().ok(), inside.clock.now().unix_ms());
            inside.answered.notify_waiters();
            // Units that could not be given back fail no call; the store finds them.
            if matches!(entry, AccountEntry::Lease(_)) {
                outcome = outcome.and(booked.map(drop));
            }
        }
        outcome
    });
    let asked = tokio::time::timeout_at(deadline, asking).await.map_err(|_| with_deadline::too_slow())?;
    asked.unwrap_or_else(|error| Err(JournalError::new(error.to_string())))
}
