//! Gate 11, budget: the call does not come too often, and there is enough left of everything it draws on. Rates
//! are checked first, because that costs nothing; then units are leased; exact amounts are reserved in the
//! store, last.
//!
//! A permit goes in, a [`Cleared`] call comes out, and only that can be fenced. A call that changes something
//! and draws exact amounts is claimed before the reservation and fenced after it: the reservation names the
//! effect, so that each can be found from the other. A call that changes nothing leaves no effect that would
//! say what it cost, so its reservation stands alone.
//!
//! Deliberately not here: the store, the clock, and closing a reservation when the call has ended.

mod allowance;
mod rate;
#[cfg(test)]
mod tests;

use servanda_authority::AuthenticatedCaller;
use servanda_contract::cost::{Cost, CostError, Price};
use servanda_effects::{
    JournalError,
    budget::{
        AccountEntry, BudgetDimension, BudgetHoldId, BudgetStore, Chunks, Draw, EntryReply, ExhaustedAccount,
        Reservation, TakeOutcome, UnitTicket,
    },
    effect::EffectId,
};

use crate::{JudgedCall, Permit, PreviewedCall};
use allowance::{BudgetedCall, account_dimension, draws};

pub use allowance::{Allowance, AllowanceFilter, AllowanceScope, DrawError};
pub use rate::{Rate, ToolRateExceeded, ToolRateLimiter};

/// What a call is paid from.
#[derive(Debug, Clone, Copy)]
pub struct BudgetSources<'a> {
    /// The operator's allowances.
    pub allowances: &'a [Allowance],
    /// The caller, and the budgets of its credential.
    pub authenticated: &'a AuthenticatedCaller,
    /// The run the call belongs to, if any.
    pub run: Option<&'a str>,
}

/// A permitted call, and what it draws.
#[derive(Debug)]
pub struct PricedCall {
    permit: Permit,
    rate: Rate,
    leased: Vec<Draw>,
    exact: Vec<Draw>,
}

/// Evidence: the call does not come too often.
#[derive(Debug)]
pub struct RateCheckedCall {
    permit: Permit,
    leased: Vec<Draw>,
    exact: Vec<Draw>,
}

/// The progress of leasing.
#[derive(Debug)]
pub enum UnitLeaseProgress {
    /// The call got the units. The ticket puts them back if the call is never sent.
    Cleared(Box<Cleared>, UnitTicket),
    /// First make these entries, record each reply, and try again.
    First(Box<RateCheckedCall>, Vec<AccountEntry>),
    /// Another call is asking the store for the same chunk; try again when the store has answered.
    Wait(Box<RateCheckedCall>),
    /// One of the accounts has nothing left.
    Exhausted(Box<NotCleared>),
}

/// A call that gate 11 did not pass, with its unused permit.
#[derive(Debug)]
pub struct NotCleared {
    /// The permit.
    pub permit: Permit,
    /// Why.
    pub why: NotClearedReason,
}

/// Why gate 11 did not pass a call.
#[derive(Debug, Clone)]
pub enum NotClearedReason {
    /// It cannot draw at all.
    Undrawable(DrawError),
    /// It comes too often.
    TooOften(ToolRateExceeded, Rate),
    /// There is not enough, or the store could not be asked.
    Unfunded(FundingError),
}

/// Evidence that gate 11 passed the call: it may be begun. An exact amount is reserved between claim and fence.
#[derive(Debug)]
pub struct Cleared {
    permit: Permit,
    due: Vec<Draw>,
}

/// Why nothing was reserved.
#[derive(Debug, Clone)]
pub enum FundingError {
    /// There is not enough.
    Exhausted(Box<ExhaustedAccount>),
    /// The store did not reserve, or it is unknown whether it did.
    InDoubt(JournalError),
}

impl PricedCall {
    /// Computes what a permitted call draws. A call without an allowance draws nothing.
    pub fn new(permit: Permit, sources: &BudgetSources<'_>) -> Result<Self, Box<NotCleared>> {
        let draws = match drawn(&permit, sources) {
            Ok(draws) => draws,
            Err(why) => return Err(Box::new(NotCleared { permit, why: NotClearedReason::Undrawable(why) })),
        };
        let (exact, leased) = draws.into_iter().partition(|draw| draw.account.dimension.is_exact());
        let rate = Rate::from_limits(&permit.contract().contract().runtime.rate_limits);
        Ok(Self { permit, rate, leased, exact })
    }

    /// Takes a token of the tool's rate.
    pub fn check_rate(self, rates: &mut ToolRateLimiter, now_ms: u64) -> Result<RateCheckedCall, Box<NotCleared>> {
        let Self { permit, rate, leased, exact } = self;
        let (tenant, tool) = (&permit.proposal().caller.tenant, &permit.contract().contract().identity.name);
        match rates.take(tenant, tool, rate, now_ms) {
            Ok(_) => Ok(RateCheckedCall { permit, leased, exact }),
            Err(denied) => Err(Box::new(NotCleared { permit, why: NotClearedReason::TooOften(denied, rate) })),
        }
    }
}

/// What a previewed call would draw. Nothing is reserved, and the call cannot be cleared.
pub fn preview_draws(previewed: &PreviewedCall, sources: &BudgetSources<'_>) -> Result<Vec<Draw>, DrawError> {
    drawn(previewed, sources)
}

fn drawn(judged: &JudgedCall, sources: &BudgetSources<'_>) -> Result<Vec<Draw>, DrawError> {
    let contract = judged.contract();
    let caller = &judged.proposal().caller;
    let free = Price { currency: String::new(), cost: Cost::default() };
    let call = BudgetedCall {
        tenant: &caller.tenant,
        principal: &caller.principal,
        tool: &contract.contract().identity.name,
        run: sources.run,
        credentials: sources.authenticated.budgets(),
        class: judged.side_effect_class(),
        price: &free,
    };
    match contract.price() {
        Ok(price) => draws(&BudgetedCall { price, ..call }, sources.allowances),
        // A cost that cannot be counted matters only if an account counts money.
        Err(error) if counts_money(&call, sources.allowances) => Err(error.into()),
        Err(CostError::NotACost | CostError::TooMuch) => draws(&call, sources.allowances),
    }
}

fn counts_money(call: &BudgetedCall<'_>, allowances: &[Allowance]) -> bool {
    let limits = call.credentials.iter().flat_map(|credential| credential.limits.keys());
    allowances.iter().any(|allowance| allowance.dimension == BudgetDimension::Financial && allowance.is_about(call))
        || limits.copied().map(account_dimension).any(|dimension| dimension == BudgetDimension::Financial)
}

impl RateCheckedCall {
    /// Clears a call that takes no units.
    pub fn clear(self) -> Result<Cleared, Box<Self>> {
        let Self { permit, leased, exact } = self;
        if leased.is_empty() {
            Ok(Cleared { permit, due: exact })
        } else {
            Err(Box::new(Self { permit, leased, exact }))
        }
    }

    /// Ends the attempt because the store could not be asked for units.
    pub fn store_unavailable(self, error: JournalError) -> Box<NotCleared> {
        let why = NotClearedReason::Unfunded(FundingError::InDoubt(error));
        Box::new(NotCleared { permit: self.permit, why })
    }

    /// Takes a unit of every account that is leased. If there are too many accounts to hold units of, they are
    /// reserved in the store like exact amounts.
    pub fn lease(self, chunks: &mut Chunks, now_ms: u64) -> UnitLeaseProgress {
        match chunks.take(&self.leased, now_ms) {
            TakeOutcome::Taken(ticket) => {
                let Self { permit, exact, .. } = self;
                UnitLeaseProgress::Cleared(Box::new(Cleared { permit, due: exact }), ticket)
            }
            TakeOutcome::First(entries) => UnitLeaseProgress::First(Box::new(self), entries),
            TakeOutcome::Wait => UnitLeaseProgress::Wait(Box::new(self)),
            TakeOutcome::Exhausted(exhausted) => {
                let why = NotClearedReason::Unfunded(FundingError::Exhausted(Box::new(exhausted)));
                UnitLeaseProgress::Exhausted(Box::new(NotCleared { permit: self.permit, why }))
            }
            TakeOutcome::Full => {
                let Self { permit, leased, mut exact } = self;
                exact.extend(leased);
                UnitLeaseProgress::Cleared(Box::new(Cleared { permit, due: exact }), UnitTicket::default())
            }
        }
    }
}

impl Cleared {
    /// A question that the gateway asks on its own account draws nothing.
    pub(crate) fn for_question(permit: Permit) -> Self {
        Self { permit, due: Vec::new() }
    }

    /// The call.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Whether something has to be reserved before it may be sent.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Reserves the amount due of a call that changes nothing, before it is begun. Any other call is claimed
    /// first.
    pub async fn reserve_alone(self, budgets: &dyn BudgetStore) -> Result<Self, Box<NotCleared>> {
        let Self { permit, due } = self;
        if due.is_empty() || permit.effect_class().mutates() {
            return Ok(Self { permit, due });
        }
        match reserve(&permit, None, due, budgets).await {
            Ok(()) => Ok(Self { permit, due: Vec::new() }),
            Err(why) => Err(Box::new(NotCleared { permit, why: NotClearedReason::Unfunded(why) })),
        }
    }

    /// Reserves the amount due of a claimed call.
    pub(crate) async fn reserve_for(
        self,
        effect: Option<EffectId>,
        budgets: &dyn BudgetStore,
    ) -> Result<Permit, FundingError> {
        let Self { permit, due } = self;
        if !due.is_empty() {
            reserve(&permit, effect, due, budgets).await?;
        }
        Ok(permit)
    }
}

async fn reserve(
    permit: &Permit,
    effect: Option<EffectId>,
    draws: Vec<Draw>,
    budgets: &dyn BudgetStore,
) -> Result<(), FundingError> {
    let reservation = Reservation { id: BudgetHoldId::from(permit.call_id()), effect, draws };
    match budgets.apply_entry(AccountEntry::Reserve(reservation)).await {
        Ok(EntryReply::Reserved) => Ok(()),
        Ok(EntryReply::Exhausted(exhausted)) => Err(FundingError::Exhausted(Box::new(exhausted))),
        // A call reserves once, so any other reply is not about this reservation.
        Ok(_) => Err(FundingError::InDoubt(JournalError::new("the reservation is closed, or belongs to another call"))),
        Err(error) => Err(FundingError::InDoubt(error)),
    }
}
