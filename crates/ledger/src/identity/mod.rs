//! Which ledger it is and how far it has come, according to the ledger and to a small file outside it; and
//! whether the two belong together. A ledger that is missing, empty, foreign or older than the file is refused,
//! because it would let keys run again whose calls were acknowledged.
//!
//! Deliberately not here: reading or writing a store.

mod adoption;
mod position_file;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf};

use servanda_contract::Timestamp;

pub use adoption::{Adoption, AdoptionRequest, LossSettlement};
pub(crate) use adoption::{UnsettledLoss, lost_window};
pub(crate) use position_file::{PositionFile, install};

/// Which ledger it is and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LedgerPosition {
    /// Random, made together with the ledger.
    pub ledger_id: String,
    /// Only grows: in a file with every writing transaction, in a database with every heartbeat of a gateway.
    pub position: u64,
    /// When it grew last.
    pub written_ms: u64,
    /// When the ledger was made.
    pub made_ms: u64,
}

/// What the position file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PositionWitness {
    /// There is no such file.
    Nothing,
    /// There was a ledger, and it had come this far.
    Known {
        /// At least this far.
        position: LedgerPosition,
        /// Whether the last process that wrote to it ended cleanly.
        ended_cleanly: bool,
    },
    /// There is a file, and it cannot be read.
    Unreadable(String),
}

/// What was found in the ledger's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundLedger {
    /// Nothing.
    Missing,
    /// A file or database without any table.
    Empty,
    /// Something that is not a database, or a damaged one.
    Unreadable(String),
    /// A ledger.
    Ledger {
        /// Its identity; a ledger of an earlier version has none.
        position: Option<LedgerPosition>,
        /// The ids of the ledgers that it replaced.
        former_ids: Vec<String>,
    },
}

/// How a ledger is opened.
#[derive(Debug, Clone, Default)]
pub struct LedgerGuard {
    /// The file outside the ledger that says which ledger it is and how far it had come. Without it nothing is
    /// compared.
    pub position_file: Option<PathBuf>,
    /// Whether a ledger of an earlier version is brought up to date.
    pub schema: LedgerSchemaPolicy,
}

/// What happens to a ledger of an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LedgerSchemaPolicy {
    /// It is brought up to date, after a backup where the store can make one.
    #[default]
    Migrate,
    /// It is refused.
    Require,
}

/// Why a ledger is not the one that the position file knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerDamage {
    /// It is not there.
    Missing,
    /// It has no tables.
    Empty,
    /// It cannot be read.
    Unreadable(String),
    /// It is another ledger; one of an earlier version has no identity.
    Foreign(Option<String>),
    /// It is the known ledger in an earlier state.
    Behind(u64),
    /// The position file cannot be read.
    Witness(String),
}

/// A refused ledger, with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLedger {
    /// Which ledger, without a password.
    pub place: String,
    /// The position file that contradicts it.
    pub position_file: PathBuf,
    /// What is wrong.
    pub damage: LedgerDamage,
    /// What the position file says.
    pub known: Option<LedgerPosition>,
    /// The state of the file's write-ahead log.
    pub log: Option<String>,
}

/// Whether the found ledger may be the one that the position file knows.
pub(crate) fn judge(witness: &PositionWitness, found: &FoundLedger) -> Result<(), LedgerDamage> {
    let known = match witness {
        PositionWitness::Unreadable(reason) => return Err(LedgerDamage::Witness(reason.clone())),
        PositionWitness::Nothing => None,
        PositionWitness::Known { position, .. } => Some(position),
    };
    match (known, found) {
        (_, FoundLedger::Unreadable(reason)) => Err(LedgerDamage::Unreadable(reason.clone())),
        (None, _) => Ok(()),
        (Some(_), FoundLedger::Missing) => Err(LedgerDamage::Missing),
        (Some(_), FoundLedger::Empty) => Err(LedgerDamage::Empty),
        (Some(known), FoundLedger::Ledger { position: Some(found), .. }) if found.ledger_id == known.ledger_id => {
            if found.position < known.position {
                Err(LedgerDamage::Behind(found.position))
            } else {
                Ok(())
            }
        }
        // A person accepted it in place of the known ledger, through another gateway with a position file of
        // its own.
        (Some(known), FoundLedger::Ledger { former_ids, .. }) if former_ids.contains(&known.ledger_id) => Ok(()),
        (Some(_), FoundLedger::Ledger { position, .. }) => {
            Err(LedgerDamage::Foreign(position.as_ref().map(|found| found.ledger_id.clone())))
        }
    }
}

impl PositionWitness {
    /// How far the ledger had come, if the position file says.
    pub fn position(&self) -> Option<&LedgerPosition> {
        match self {
            Self::Known { position, .. } => Some(position),
            Self::Nothing | Self::Unreadable(_) => None,
        }
    }
}

impl LedgerGuard {
    /// What the position file says.
    pub(crate) fn witness(&self) -> PositionWitness {
        self.position_file.as_deref().map_or(PositionWitness::Nothing, position_file::read)
    }
}

impl fmt::Display for LedgerDamage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => formatter.write_str("is missing"),
            Self::Empty => formatter.write_str("is empty"),
            Self::Unreadable(reason) => write!(formatter, "cannot be read ({reason})"),
            Self::Foreign(Some(id)) => write!(formatter, "is another ledger (id {id})"),
            Self::Foreign(None) => formatter.write_str("is an older ledger without an identity"),
            Self::Behind(position) => write!(formatter, "is older than it was last: it is at position {position}"),
            Self::Witness(_) => formatter.write_str("cannot be compared with its position file"),
        }
    }
}

impl fmt::Display for RefusedLedger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.position_file.display();
        write!(formatter, "the ledger `{}` {}", self.place, self.damage)?;
        match (&self.damage, &self.known) {
            (LedgerDamage::Witness(reason), _) => write!(formatter, ": `{file}` {reason}")?,
            (_, Some(known)) => {
                let written = Timestamp::from_unix_ms(known.written_ms);
                let LedgerPosition { ledger_id, position, .. } = known;
                write!(formatter, "; `{file}` knows ledger {ledger_id} at position {position}, written {written}")?;
            }
            (_, None) => {}
        }
        match &self.log {
            Some(log) => write!(formatter, "; {log}"),
            None => Ok(()),
        }
    }
}
