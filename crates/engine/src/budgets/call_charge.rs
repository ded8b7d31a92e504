//! What one call draws from budgets, from when it is taken until the end of the call is known. Units of a call that was never sent are
//! given back, even if the charge is only dropped. An amount that is reserved in the store is settled or refunded by what is known of the
//! end; if nothing is known, it is left to the sweep.

use std::sync::Arc;

use servanda_contract::{cost::Price, record::Outcome, tool::CostUnit};
use servanda_effects::{
    budget::{AccountEntry, BudgetHoldId, BudgetStore as _, ClosedBy, EntryReply, UnitTicket},
    effect::EffectState,
};
use servanda_gates::{CompiledContract, Permit};

use super::BudgetClient;
use crate::clock::within_ms;

/// How long an answer waits until its charge is closed.
const CLOSE_MS_MAX: u64 = 5_000;
/// How often closing is tried; the sweep closes what is left.
const CLOSE_ATTEMPTS_MAX: u32 = 3;

/// What one call draws.
#[derive(Debug)]
pub(crate) struct CallCharge {
    budget_client: Arc<BudgetClient>,
    units: ChargedUnits,
    hold: Option<ChargeHold>,
}

#[derive(Debug, Default)]
enum ChargedUnits {
    #[default]
    None,
    /// Taken, and the call has not left.
    Unsent(UnitTicket),
    /// The call may have left.
    Sent(UnitTicket),
}

/// An amount that is reserved in the store.
#[derive(Debug)]
struct ChargeHold {
    id: BudgetHoldId,
    contract: Arc<CompiledContract>,
}

/// Whether a call was made, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DispatchCertainty {
    /// It was made, or it may have been and nothing will ever tell.
    Yes,
    /// It provably was not made.
    No,
    /// Its effect will tell.
    Unknown,
}

impl DispatchCertainty {
    /// Decides by the outcome, for a call whose effect tells nothing because it has none or because it changes nothing. A call that changed
    /// nothing may still have cost something.
    pub(crate) const fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::NotExecuted | Outcome::Refused | Outcome::Previewed => Self::No,
            _ => Self::Yes,
        }
    }

    /// Decides by the state in which the effect was settled; none if another dispatch has the effect, or if the state is not on record.
    /// Even then it is known here that the call is done, but only the effect can tell that it was never made.
    pub(crate) const fn from_effect(settled: Option<EffectState>, is_done: bool) -> Self {
        match (settled, is_done) {
            (Some(EffectState::FailedRetryable), _) => Self::No,
            (Some(EffectState::Completed | EffectState::FailedFinal), _) | (None, true) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

impl CallCharge {
    pub(crate) fn new(budget_client: &Arc<BudgetClient>) -> Self {
        Self { budget_client: Arc::clone(budget_client), units: ChargedUnits::None, hold: None }
    }

    pub(super) fn take_units(&mut self, ticket: UnitTicket) {
        self.units = ChargedUnits::Unsent(ticket);
    }

    /// Marks that an amount is, or may be, reserved for the call.
    pub(crate) fn set_hold(&mut self, permit: &Permit) {
        self.hold = Some(ChargeHold { id: BudgetHoldId::from(permit.call_id()), contract: permit.shared_contract() });
    }

    /// Leaves the reservation to the effect, because this call can no longer tell how it ends.
    pub(crate) fn leave_hold_to_effect(&mut self) {
        self.hold = None;
    }

    /// Marks that the call may leave from now on.
    pub(crate) fn mark_sent(&mut self) {
        if let ChargedUnits::Unsent(ticket) = std::mem::take(&mut self.units) {
            self.units = ChargedUnits::Sent(ticket);
        }
    }

    /// Closes the charge, if there is anything to close. `took_ms` is how long the upstream had the call.
    pub(crate) async fn close(&mut self, made: DispatchCertainty, took_ms: u64) {
        if let (DispatchCertainty::No, ChargedUnits::Unsent(ticket) | ChargedUnits::Sent(ticket)) =
            (made, std::mem::take(&mut self.units))
        {
            self.budget_client.put_back(ticket);
        }
        let Some(ChargeHold { id, contract }) = self.hold.take() else { return };
        let by = ClosedBy::Caller;
        let entry = match made {
            DispatchCertainty::Yes => AccountEntry::Settle { id, cost_micros: cost_micros(&contract, took_ms), by },
            DispatchCertainty::No => AccountEntry::Refund { id, by },
            DispatchCertainty::Unknown => return,
        };
        Box::pin(book(&self.budget_client, entry)).await;
    }
}

impl Drop for CallCharge {
    fn drop(&mut self) {
        if let ChargedUnits::Unsent(ticket) = std::mem::take(&mut self.units) {
            self.budget_client.put_back(ticket);
        }
    }
}

/// What the call cost, if that depends on how long it took; none if it cost what was reserved.
fn cost_micros(contract: &CompiledContract, took_ms: u64) -> Option<u64> {
    let profile = &contract.contract().runtime.cost_profile;
    let by_second = profile.cost_unit == CostUnit::Second;
    by_second.then(|| Price::from_profile(profile, took_ms).ok()?.cost.total_micros().ok()).flatten()
}

async fn book(budget_client: &BudgetClient, entry: AccountEntry) {
    let books = budget_client.with_deadline(within_ms(CLOSE_MS_MAX));
    for _ in 0..CLOSE_ATTEMPTS_MAX {
        match books.apply_entry(entry.clone()).await {
            Ok(EntryReply::Settled { over }) if over > 0 => {
                let id = entry.id();
                tracing::warn!(call_id = %id, over, "a call cost more than was reserved for it; see `servanda budgets`");
                return;
            }
            Ok(_) => {
                if let Some(attempts) = budget_client.failed_charges.worked() {
                    tracing::info!(attempts, "charges of calls are on record again; so many attempts failed");
                }
                return;
            }
            Err(error) if budget_client.failed_charges.failed() => {
                let id = entry.id();
                tracing::warn!(call_id = %id, %error, "the charge of a call could not be put on record yet; the sweep closes it later, and others may follow");
            }
            Err(error) => {
                tracing::debug!(call_id = %entry.id(), %error, "the charge of a call could not be put on record yet");
            }
        }
    }
}
