//! The states of an effect, and their names: in storage, on screens and in observations.
//!
//! Deliberately not here: which state follows which event.

use serde::{Deserialize, Serialize};

/// The state of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// A call owns it and has sent nothing yet.
    Claimed,
    /// Bytes may have left; its end is not recorded yet.
    Dispatching,
    /// It is done.
    Completed,
    /// It failed for good; the failure is the answer.
    FailedFinal,
    /// It provably never ran; it may be tried again.
    FailedRetryable,
    /// It was sent, and its outcome is unknown.
    OutcomeUnknown,
    /// It was done and then undone.
    Compensated,
    /// The key was used once and is never used again.
    Expired,
}

/// How an effect ended, as far as notices tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectEnding {
    /// It is done.
    Completed,
    /// It failed, or never ran.
    Failed,
    /// It was sent, and its outcome is unknown.
    Unknown,
}

impl EffectState {
    /// How it ended, if it has.
    pub const fn ending(self) -> Option<EffectEnding> {
        match self {
            Self::Completed => Some(EffectEnding::Completed),
            Self::FailedFinal | Self::FailedRetryable => Some(EffectEnding::Failed),
            Self::OutcomeUnknown => Some(EffectEnding::Unknown),
            Self::Claimed | Self::Dispatching | Self::Compensated | Self::Expired => None,
        }
    }

    /// All of them, in the order of an effect's life.
    pub const ALL: [Self; 8] = [
        Self::Claimed,
        Self::Dispatching,
        Self::Completed,
        Self::FailedFinal,
        Self::FailedRetryable,
        Self::OutcomeUnknown,
        Self::Compensated,
        Self::Expired,
    ];

    /// The text form in storage and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Dispatching => "dispatching",
            Self::Completed => "completed",
            Self::FailedFinal => "failed_final",
            Self::FailedRetryable => "failed_retryable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Compensated => "compensated",
            Self::Expired => "expired",
        }
    }

    /// The state with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The specification's word for it in an observation.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Claimed | Self::Dispatching => "PENDING",
            Self::Completed => "COMPLETED",
            Self::FailedFinal => "FAILED_FINAL",
            Self::FailedRetryable => "FAILED_RETRYABLE",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::Compensated => "COMPENSATED",
            Self::Expired => "EXPIRED",
        }
    }
}
