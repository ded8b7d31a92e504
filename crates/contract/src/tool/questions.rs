//! What a server may ask a caller while it works on the caller's request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// A form for the person to fill in: `elicitation/create`.
    Form,
    /// A page for the person to visit: `elicitation/create` with `mode: url`.
    Url,
    /// A message for the client's model to write: `sampling/createMessage`.
    Sampling,
    /// The folders that the client works in: `roots/list`.
    Roots,
}

impl QuestionKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Form, Self::Url, Self::Sampling, Self::Roots];

    /// The word for it in contracts, policies and records.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Url => "url",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}
