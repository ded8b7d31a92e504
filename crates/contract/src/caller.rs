//! Who is calling, as it is recorded: the user, and whoever acts for them, kept apart.
//!
//! How that was found out is not here: a door has checked a credential before it fills this in.

use serde::{Deserialize, Serialize};

/// The party a call is made for. `client` is what the software calls itself: shown, recorded, never trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// The tenant all of the caller's state belongs to.
    pub tenant: String,
    /// The authenticated party: the user, never an agent that acts for one.
    pub principal: String,
    /// Who acts for the user, the one who acts now first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<CallerActor>,
    /// What the credential is known and revoked by; none in local mode. Never the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Self-reported name and version of the client software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The protocol session, where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// One who acts for somebody else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerActor {
    /// What it is called.
    pub name: String,
    /// Whether it showed a credential of its own or an issuer vouches for it; else the name is its holder's word.
    pub proven: bool,
}

impl Caller {
    /// The one principal of local mode.
    pub fn local() -> Self {
        Self::named("local", "local")
    }

    /// A principal of a tenant, of whom nothing else is known.
    pub fn named(tenant: &str, principal: &str) -> Self {
        Self {
            tenant: tenant.to_owned(),
            principal: principal.to_owned(),
            actors: Vec::new(),
            credential: None,
            client: None,
            session: None,
        }
    }

    /// Whether both are the same user of the same tenant, with the same agents between: whoever else it is, is a stranger to
    /// what the first one has open.
    pub fn is_same_party(&self, other: &Self) -> bool {
        self.is_same_user(other) && self.actors == other.actors
    }

    /// Whether what is `owner`'s may be shown: a user sees everything of theirs, an agent only what it began itself. What other
    /// agents of the same user do is none of its business.
    pub fn may_see_calls_of(&self, owner: &Self) -> bool {
        self.is_same_user(owner) && (self.actors.is_empty() || self.actors == owner.actors)
    }

    /// Whether both are made for the same user of the same tenant, whoever acts.
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.tenant == other.tenant && self.principal == other.principal
    }
}
