//! What the transaction of a batch adds beside the rows of its jobs: what records are found by, and the leaves of the verifiable log.

use servanda_contract::CallRecord;
use servanda_effects::{LoggedChange, budget::BudgetHold, effect::Effect};

use crate::{
    LedgerError,
    gathered_index::GatheredIndex,
    leaves::{DecisionTold, EffectStanding, LeafWriter, Leaves, TicketChange},
};

/// What a batch adds.
#[derive(Debug, Default)]
pub(super) struct BatchAdditions {
    /// What its records are found by and counted as.
    pub(super) index: GatheredIndex,
    /// Its leaves.
    pub(super) leaves: Leaves,
    /// Writes leaves; none if the log is switched off.
    pub(super) log: Option<LeafWriter>,
}

impl BatchAdditions {
    /// Forgets what the batch before added.
    pub(super) fn begin(&mut self, log: Option<&LeafWriter>) {
        self.index.clear();
        self.leaves = Leaves::default();
        self.log = log.cloned();
    }

    /// Adds a record that was written.
    pub(super) fn call(&mut self, record: &CallRecord, told: DecisionTold) -> Result<(), LedgerError> {
        self.index.add(record);
        self.log.as_ref().map_or(Ok(()), |log| log.end(record, told, &mut self.leaves))
    }

    /// Adds the decision about a call that is under way: its record is with its effect, and not found yet.
    pub(super) fn decision(&mut self, record: &CallRecord) -> Result<(), LedgerError> {
        self.log.as_ref().map_or(Ok(()), |log| log.decision(record, &mut self.leaves))
    }

    /// Adds an effect that was written.
    pub(super) fn effect(&mut self, before: Option<&Effect>, effect: &Effect) -> Result<(), LedgerError> {
        let before = before.map(EffectStanding::of);
        self.log.as_ref().map_or(Ok(()), |_| self.leaves.effect(before, effect))
    }

    /// Adds what changed with a note that was written.
    pub(super) fn changes(&mut self, changes: &[LoggedChange]) -> Result<(), LedgerError> {
        self.log.as_ref().map_or(Ok(()), |_| self.leaves.changes(changes))
    }

    /// Adds what a budget holds now.
    pub(super) fn budget_hold(&mut self, hold: &BudgetHold) -> Result<(), LedgerError> {
        self.log.as_ref().map_or(Ok(()), |log| log.budget_hold(hold, &mut self.leaves))
    }

    /// Adds what happened to a ticket that was written.
    pub(super) fn ticket(&mut self, transition: &TicketChange) -> Result<(), LedgerError> {
        self.log.as_ref().map_or(Ok(()), |log| log.ticket(transition, &mut self.leaves))
    }
}
