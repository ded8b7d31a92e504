//! What a tool brings back: content, or why it did not do what it was asked.

use serde_json::Value;

pub(crate) type SampleToolOutcome = Result<Value, SampleToolFailure>;

/// Why a tool did not do what it was asked; the text is what the agent reads.
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
