//! The leaves that a transaction adds to the verifiable log: what it does to calls, effects and tickets, for every store alike. A leaf is
//! written in the transaction of what it is about, so that there is neither without the other.
//!
//! Deliberately not here: the order of leaves in the log (`log_tree`), and SQL.

mod calls;
mod changes;
mod effects;
mod tickets;

use servanda_approval::Ticket;
use servanda_audit::{
    AuditLeaf,
    leaf::{AuditEvent, LEAF_VERSION, LeafSalts},
    tile::append_to_bundle,
};
use servanda_contract::{CallRecord, Digest, digest::DigestDomain, record::Outcome};
use servanda_effects::{
    LoggedChange,
    budget::BudgetHold,
    effect::{Effect, EffectState},
};

pub(crate) use self::tickets::TicketChange;
use crate::{LedgerError, codec::unsigned};

/// Writes leaves, with the salts of the log.
#[derive(Debug, Clone)]
pub(crate) struct LeafWriter {
    salts: LeafSalts,
}

/// Leaves one after the other, each after its length in two bytes, as in a bundle of the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Leaves {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
}

/// Whether the decision about a call that ends has a leaf already: the one that was written with the dispatch of its effect. A record by itself
/// tells it in any case: another call may have dispatched the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecisionTold {
    Before,
    Now,
}

/// An effect as its leaves know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EffectStanding {
    state: EffectState,
    epoch: u64,
    /// Whether a person has settled it.
    is_settled: bool,
}

impl LeafWriter {
    pub(crate) const fn new(salts: LeafSalts) -> Self {
        Self { salts }
    }

    /// Adds the decision about a call, before something is sent for it.
    pub(crate) fn decision(&self, record: &CallRecord, leaves: &mut Leaves) -> Result<(), LedgerError> {
        leaves.add(calls::at_ms(record), calls::decided(record, &self.salts), record.call_id.as_str())
    }

    /// Adds the end of a call, with its decision unless that was added before. A call that is still under way, whose record only moves, has
    /// none.
    pub(crate) fn end(&self, record: &CallRecord, told: DecisionTold, leaves: &mut Leaves) -> Result<(), LedgerError> {
        if record.outcome == Outcome::Dispatching {
            return Ok(());
        }
        leaves.add(calls::at_ms(record), calls::ended(record, told, &self.salts), record.call_id.as_str())
    }

    /// Adds what a budget holds now.
    pub(crate) fn budget_hold(&self, hold: &BudgetHold, leaves: &mut Leaves) -> Result<(), LedgerError> {
        let at_ms = hold.closed_ms.unwrap_or(hold.opened_ms);
        leaves.add(at_ms, changes::held(hold, &self.salts)?, hold.id.as_str())
    }

    /// Adds what happened to a ticket.
    pub(crate) fn ticket(&self, transition: &TicketChange, leaves: &mut Leaves) -> Result<(), LedgerError> {
        let ticket: &Ticket = &transition.after;
        let events = tickets::events(transition, &self.salts)?;
        events.into_iter().try_for_each(|event| leaves.add(ticket.changed_ms, event, ticket.id.as_str()))
    }
}

impl Leaves {
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the new state of an effect, if it has one.
    pub(crate) fn effect(&mut self, before: Option<EffectStanding>, effect: &Effect) -> Result<(), LedgerError> {
        if before == Some(EffectStanding::of(effect)) {
            return Ok(());
        }
        let is_settled_now = before.is_none_or(|before| !before.is_settled);
        if let Some(settlement) = effect.settlement.as_ref().filter(|_| is_settled_now) {
            self.add(effect.changed_ms, effects::settled(effect, settlement), effect.id.as_str())?;
        }
        self.add(effect.changed_ms, effects::event(effect), effect.id.as_str())
    }

    /// Adds what changed with a note.
    pub(crate) fn changes(&mut self, changes: &[LoggedChange]) -> Result<(), LedgerError> {
        changes.iter().try_for_each(|change| self.add(change.at.unix_ms(), changes::told(change), &change.id))
    }

    fn add(&mut self, at_ms: u64, event: AuditEvent, about: &str) -> Result<(), LedgerError> {
        let leaf = AuditLeaf { at_ms: at_ms.min(unsigned(LEAF_NUMBER_MAX)), event, v: LEAF_VERSION };
        let unwritable = |reason: String| LedgerError::Leaf { about: about.to_owned(), reason };
        let bytes = leaf.spell().map_err(|error| unwritable(error.to_string()))?;
        append_to_bundle(&mut self.bytes, &bytes).map_err(|error| unwritable(error.to_string()))?;
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Adds leaves that come after these.
    pub(crate) fn append(&mut self, after: &Self) {
        self.bytes.extend_from_slice(&after.bytes);
        self.count = self.count.saturating_add(after.count);
    }
}

impl DecisionTold {
    /// For a record that comes with an event of an effect: the call may be the one that dispatched it, or another that recovered it.
    pub(crate) fn with_effect(before: Option<&Effect>, record: &CallRecord) -> Self {
        let is_dispatcher = |before: &Effect| before.call_id == record.call_id && before.state != EffectState::Claimed;
        if before.is_some_and(is_dispatcher) { Self::Before } else { Self::Now }
    }
}

impl EffectStanding {
    pub(crate) const fn of(effect: &Effect) -> Self {
        Self { state: effect.state, epoch: effect.epoch, is_settled: effect.settlement.is_some() }
    }
}

/// The largest number of a leaf: 2 to the power of 53, less one.
const LEAF_NUMBER_MAX: i64 = (1 << 53) - 1;

/// The longest name that stands in a leaf as it is. A leaf full of such names, each character escaped, fits into a bundle.
const NAME_BYTES_MAX: usize = 256;

/// A name as a leaf can say it. One that is too long stands as its digest.
fn text(text: &str) -> String {
    if text.len() <= NAME_BYTES_MAX {
        text.to_owned()
    } else {
        Digest::compute(DigestDomain::LeafText, &[text.as_bytes()]).to_string()
    }
}
