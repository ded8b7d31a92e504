//! Who is calling. In this version every caller is the one local principal; authentication fills the same shape later.

use serde::{Deserialize, Serialize};

/// The party a call is made for. `client` is what the software calls itself: shown, recorded, never trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// The tenant all of the caller's state belongs to.
    pub tenant: String,
    /// The authenticated party.
    pub principal: String,
    /// Self-reported name and version of the client software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The protocol session, where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl Caller {
    /// The one principal of local mode.
    pub fn local() -> Self {
        Self { tenant: "local".to_owned(), principal: "local".to_owned(), client: None, session: None }
    }
}
