//! The id of a ticket, by which decisions, warrants and records name it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifies one ticket for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TicketId(String);

impl TicketId {
    /// A new id; ids made later sort later.
    pub fn new() -> Self {
        Self(format!("apr_{}", uuid::Uuid::now_v7().simple()))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TicketId {
    fn default() -> Self {
        Self::new()
    }
}

impl From<String> for TicketId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
