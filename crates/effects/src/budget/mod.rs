//! The books of budgets: how much may be read, written, sent outside, spent and gravely changed, by whom and in which period. [`step()`]
//! decides what follows on each entry in the books, for every store alike.
//!
//! Money and critical changes are reserved one by one in the store before anything is sent, and are settled or refunded
//! afterwards: exact, however many gateways share the store. The rest is leased in [`Chunks`]. A reservation names the effect it is
//! for, so that a process that dies leaves nothing behind that [`verdict`] could not settle.
//!
//! A call reserves for its effect while the effect is claimed and before it is fenced: then the effect's handle is known, and a call whose
//! reservation was refunded because the claim was lost can never be sent any more.
//!
//! Deliberately not here: storage, and what a call draws on, which gate 11 decides.

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

/// One entry in the books. Entries may be made again without harm: each is known by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountEntry {
    /// Keeps something back for a call that is about to be sent: all of its draws, or none.
    Reserve(Reservation),
    /// The call was sent. Counted draws are used up; of money, what it cost, if that is known, else what was reserved.
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
    /// It does not want the rest of them any more.
    ReturnLease(LeaseReturn),
}

/// What is kept back for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The call.
    pub id: BudgetHoldId,
    /// The effect it is for; none for a call that has none.
    pub effect: Option<EffectId>,
    /// From which accounts.
    pub draws: Vec<Draw>,
}

/// So much is drawn from an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    /// From which.
    pub account: Account,
    /// How much there is in a window.
    pub limit: u64,
    /// How much is drawn.
    pub amount: u64,
}

/// Units that a process asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkLease {
    /// Its own id for it.
    pub id: BudgetHoldId,
    /// From which account.
    pub account: Account,
    /// How much there is in a window.
    pub limit: u64,
    /// How many.
    pub wanted: u64,
}

/// That an account has not enough left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExhaustedAccount {
    /// Which.
    pub account: Account,
    /// What is left of it.
    pub left: u64,
    /// When there is a new window; none if it does not renew.
    pub renews_at_ms: Option<u64>,
}

/// What an entry came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryReply {
    /// It is kept back.
    Reserved,
    /// So many units are the process's.
    Leased {
        /// How many.
        granted: u64,
        /// How long they may be used, by the store's clock. None if the account does not renew.
        lasts_ms: Option<u64>,
    },
    /// There is not enough. Nothing was changed.
    Exhausted(ExhaustedAccount),
    /// It is used up.
    Settled {
        /// How much more it was than was reserved. It has happened, so an operator has to be told.
        over: u64,
    },
    /// It is given back.
    Refunded,
    /// The id was used for something else.
    Mismatch,
    /// There is no such reservation or lease, or not any more.
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

/// Which standings to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceQuery {
    /// Only of this tenant; of all if none.
    pub tenant: Option<String>,
    /// At most so many, the latest changed first.
    pub limit: u32,
}

/// Where budgets are kept: exact for all who share the store, and still there after a crash.
pub trait BudgetStore: Send + Sync + fmt::Debug {
    /// Makes one entry in one transaction. After an error it is not known whether it was made: make the same entry again.
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>>;

    /// Settles and refunds what processes left open, by what its effects say, and forgets what is over: so many at the most.
    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>>;

    /// Reservations that have been open for longer than that, the oldest first.
    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>>;

    /// How accounts stand now.
    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>>;
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

    /// The accounts it draws on or gives back to. `hold` is what is on the books under its id.
    pub fn accounts<'a>(&'a self, hold: Option<&'a BudgetHold>) -> Vec<&'a Account> {
        match (self, hold) {
            (_, Some(hold)) => hold.draws.iter().map(|draw| &draw.account).collect(),
            (Self::Reserve(reservation), None) => reservation.draws.iter().map(|draw| &draw.account).collect(),
            (Self::Lease(lease), None) => vec![&lease.account],
            (Self::Settle { .. } | Self::Refund { .. } | Self::ReturnLease(_), None) => Vec::new(),
        }
    }
}
