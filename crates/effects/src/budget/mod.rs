//! The accounts of budgets: how much may be read, written, sent outside, spent and critically changed, by whom
//! and in which period. [`step()`] decides the result of every entry, for every store alike.
//!
//! Money and critical changes are reserved one by one in the store before anything is sent, and are settled or
//! refunded afterwards: exact, however many gateways share the store. The rest is leased in [`Chunks`]. A
//! reservation names its effect, so that [`sweep_decision`] can close everything that a dead process leaves
//! behind.
//!
//! A call reserves after its effect is claimed and before it is fenced: then the effect's handle is known, and
//! a call whose reservation was refunded because it lost the claim can no longer be sent.
//!
//! Deliberately not here: storage, and which accounts a call draws on, which gate 11 decides.

mod account;
mod balance;
mod chunks;
mod hold;
mod in_memory;
mod step;
mod sweep;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::{JournalError, PortFuture, effect::EffectId};

pub use account::{Account, BudgetDimension, BudgetScope, Period};
pub use balance::AccountBalance;
pub use chunks::{Chunks, LeaseReturn, TakeOutcome, UnitTicket, chunk_size};
pub use hold::{BudgetHold, BudgetHoldId, BudgetHoldKind, BudgetHoldStage, ClosedBy, HeldDraw};
pub use in_memory::InMemoryBudgets;
pub use step::{BudgetSnapshot, BudgetTransition, step};
pub use sweep::{OPEN_MS_MAX, SweepDecision, sweep_decision};

/// One entry in the accounts. An entry may be repeated without harm: it is identified by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountEntry {
    /// Reserves for a call that is about to be sent: all of its draws, or none.
    Reserve(Reservation),
    /// The call was sent. Counted units are used up; of money, the cost if it is known, else what was reserved.
    Settle {
        /// Which reservation.
        id: BudgetHoldId,
        /// What it cost.
        cost_micros: Option<u64>,
        /// Who says so.
        by: ClosedBy,
    },
    /// The call was provably never made.
    Refund {
        /// Which reservation.
        id: BudgetHoldId,
        /// Who says so.
        by: ClosedBy,
    },
    /// A process wants units to hand out by itself: as many as there are, up to what it wants.
    Lease(ChunkLease),
    /// The process gives the rest of them back.
    ReturnLease(LeaseReturn),
}

/// What is reserved for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The call.
    pub id: BudgetHoldId,
    /// Its effect; none for a call that has none.
    pub effect: Option<EffectId>,
    /// The accounts it draws on.
    pub draws: Vec<Draw>,
}

/// An amount that is drawn from an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    /// The account.
    pub account: Account,
    /// The limit of a window.
    pub limit: u64,
    /// The amount that is drawn.
    pub amount: u64,
}

/// Units that a process asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkLease {
    /// The id that the process gave the lease.
    pub id: BudgetHoldId,
    /// The account.
    pub account: Account,
    /// The limit of a window.
    pub limit: u64,
    /// How many units.
    pub wanted: u64,
}

/// An account that has not enough left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExhaustedAccount {
    /// The account.
    pub account: Account,
    /// What is left of it.
    pub left: u64,
    /// When the next window begins; none if it does not renew.
    pub renews_at_ms: Option<u64>,
}

/// The result of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryReply {
    /// The amounts are reserved.
    Reserved,
    /// The process got units.
    Leased {
        /// How many.
        granted: u64,
        /// How long they may be used, by the store's clock. None if the account does not renew.
        lasts_ms: Option<u64>,
    },
    /// There is not enough. Nothing was changed.
    Exhausted(ExhaustedAccount),
    /// The reservation is used up.
    Settled {
        /// How much more was used than reserved. It has happened, so an operator has to be told.
        over: u64,
    },
    /// The reservation is given back.
    Refunded,
    /// The id was used for something else.
    Mismatch,
    /// There is no such reservation or lease, or it is forgotten.
    NotFound,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Reservations whose call was made.
    pub settled: u64,
    /// Reservations whose call was never made.
    pub refunded: u64,
}

/// Which balances to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceQuery {
    /// Only of this tenant; none means all.
    pub tenant: Option<String>,
    /// The most balances to list, latest changed first.
    pub limit: u32,
}

/// Stores budgets: exact for all gateways that share the store, and durable across a crash.
pub trait BudgetStore: Send + Sync + fmt::Debug {
    /// Makes one entry in one transaction. After an error it is not known whether it was made: make the same entry again.
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>>;

    /// Settles and refunds abandoned reservations according to their effects, and forgets finished ones: at
    /// most `limit`.
    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>>;

    /// Reservations that have been open for longer than that, oldest first.
    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>>;

    /// The current balances of accounts.
    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>>;

    /// The current balances of these accounts, in any order. An account that was never drawn on has none.
    fn find_balances(&self, accounts: Vec<Account>) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>>;
}

impl AccountEntry {
    /// The reservation or lease it is about.
    pub const fn id(&self) -> &BudgetHoldId {
        match self {
            Self::Reserve(Reservation { id, .. })
            | Self::Settle { id, .. }
            | Self::Refund { id, .. }
            | Self::Lease(ChunkLease { id, .. })
            | Self::ReturnLease(LeaseReturn { id, .. }) => id,
        }
    }

    /// The accounts it draws on or gives back to. `hold` is the stored hold with its id.
    pub fn accounts<'a>(&'a self, hold: Option<&'a BudgetHold>) -> Vec<&'a Account> {
        match (self, hold) {
            (_, Some(hold)) => hold.draws.iter().map(|draw| &draw.account).collect(),
            (Self::Reserve(reservation), None) => reservation.draws.iter().map(|draw| &draw.account).collect(),
            (Self::Lease(lease), None) => vec![&lease.account],
            (Self::Settle { .. } | Self::Refund { .. } | Self::ReturnLease(_), None) => Vec::new(),
        }
    }
}
