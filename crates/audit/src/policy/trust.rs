//! Checkpoints that a policy trusts: signed by a log of it, under that log's name, and cosigned by a quorum of its witnesses.

use super::quorum::LogPolicy;
use crate::{
    checkpoint::{Checkpoint, CheckpointFault},
    note::{Endorsement, NoteFault, SignedNote, VerifierKey},
};

/// A checkpoint that a policy trusts. Only [`LogPolicy::trust`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCheckpoint {
    checkpoint: Checkpoint,
    endorsements: Vec<Endorsement>,
}

/// Why a policy does not trust a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UntrustedCheckpoint {
    /// Not a note, or its signatures are not what they should be.
    #[error(transparent)]
    Note(#[from] NoteFault),
    /// Not a checkpoint.
    #[error(transparent)]
    Text(#[from] CheckpointFault),
    /// Another log's.
    #[error("the checkpoint is of the log `{origin}`, which the policy does not have")]
    OtherLog {
        /// The log that it says it is of.
        origin: String,
    },
    /// Too few witnesses.
    #[error("{cosigned} of the policy's witnesses cosigned the checkpoint, which is no quorum")]
    NoQuorum {
        /// How many did.
        cosigned: usize,
    },
}

impl TrustedCheckpoint {
    /// What is trusted.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The verified signatures, of the log and of witnesses.
    pub fn endorsements(&self) -> &[Endorsement] {
        &self.endorsements
    }
}

impl LogPolicy {
    /// Checks the signatures of a checkpoint.
    pub fn trust(&self, note: &[u8]) -> Result<TrustedCheckpoint, UntrustedCheckpoint> {
        let note = SignedNote::from_bytes(note)?;
        let checkpoint: Checkpoint = note.text().parse()?;
        // The text is not believed yet: it only chooses the keys, and one of them must have signed it.
        let is_of_origin = |key: &&VerifierKey| key.name().as_str() == checkpoint.origin();
        let logs: Vec<&VerifierKey> = self.logs().map(|(key, _)| key).filter(is_of_origin).collect();
        if logs.is_empty() {
            return Err(UntrustedCheckpoint::OtherLog { origin: checkpoint.origin().to_owned() });
        }
        let mut known = logs.clone();
        known.extend(self.witnesses().map(|(key, _)| key).filter(|key| !logs.contains(key)));
        let endorsements = match note.verify(&known) {
            Err(NoteFault::Unsigned | NoteFault::ForeignKey { .. }) => Err(note.why_unsigned(&logs)),
            verified => verified,
        }?;
        let signed = |key: &VerifierKey| endorsements.iter().any(|endorsement| endorsement.key == *key);
        if !logs.iter().any(|log| signed(log)) {
            return Err(note.why_unsigned(&logs).into());
        }
        if !self.is_quorum(&signed) {
            let cosigned = self.witnesses().filter(|(key, _)| signed(key)).count();
            return Err(UntrustedCheckpoint::NoQuorum { cosigned });
        }
        Ok(TrustedCheckpoint { checkpoint, endorsements })
    }
}
