//! The outcome of a tool: content, or the reason why it failed.

use serde_json::Value;

pub(crate) type SampleToolOutcome = Result<Value, SampleToolFailure>;

/// Why a tool did not do what it was asked; the agent reads this text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SampleToolFailure {
    #[error("invalid arguments: {0}")]
    Arguments(#[from] serde_json::Error),
    #[error("{0}")]
    Declined(String),
    #[error("the company database failed: {0}")]
    Database(#[from] rusqlite::Error),
}

impl SampleToolFailure {
    pub(crate) fn declined(text: impl Into<String>) -> Self {
        Self::Declined(text.into())
    }
}
