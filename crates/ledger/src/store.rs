//! What a ledger needs from a store besides the ports of `servanda-effects`. Both stores implement it; the
//! crate root chooses between them.

use std::path::PathBuf;

use servanda_effects::{
    AuditLog, CallHistory, Journal, JournalError, Notebook, PortFuture, TicketStore, budget::BudgetStore,
    effect::EffectStore,
};

#[cfg(test)]
use crate::time::StoreTime;
use crate::{
    capacity::{LedgerLimits, StorageUsage},
    log_switch::LogSwitch,
    retention::{PruneReport, PruneRound},
};

/// A migration of a ledger of an earlier version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The version it had.
    pub found: u32,
    /// The version it has.
    pub newest: u32,
    /// Where the backup from before the migration is; PostgreSQL makes none.
    pub backup: Option<PathBuf>,
}

/// What a store does besides its ports.
pub(crate) trait LedgerStore:
    Journal + CallHistory + Notebook + EffectStore + BudgetStore + TicketStore + AuditLog
{
    fn close(&self) -> PortFuture<'_, ()>;
    fn prune(&self, round: PruneRound) -> PortFuture<'_, Result<PruneReport, JournalError>>;
    fn measure(&self, limits: LedgerLimits) -> PortFuture<'_, Result<StorageUsage, JournalError>>;
    fn lost_count(&self) -> u64;
    fn migration(&self) -> Option<&Migration>;
    fn may_lose_commits(&self) -> Option<String>;
    /// Whether the verifiable log is written.
    fn log_switch(&self) -> &LogSwitch;
    #[cfg(test)]
    fn time(&self) -> &StoreTime;
}
