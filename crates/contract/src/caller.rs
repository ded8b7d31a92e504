//! Who is calling, as it is recorded: the user and the agents that act for the user, kept apart.
//!
//! This module does not authenticate: a door has checked a credential before it fills in a `Caller`.

use serde::{Deserialize, Serialize};

/// The party that a call is made for. `client` is the name that the software gives itself: it is shown and recorded, never
/// trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// The tenant that owns all of the caller's state.
    pub tenant: String,
    /// The authenticated party: the user, never an agent that acts for one.
    pub principal: String,
    /// The agents that act for the user; the one that acts now comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<CallerActor>,
    /// The id by which the credential is known and revoked; `None` in local mode. Never the credential itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Self-reported name and version of the client software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The protocol session, where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// An agent that acts for a user or for another agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerActor {
    /// The agent's name.
    pub name: String,
    /// True if the agent showed its own credential or an issuer vouches for it; otherwise the name is only a claim of the
    /// credential's holder.
    pub proven: bool,
}

impl Caller {
    /// The one principal of local mode.
    pub fn local() -> Self {
        Self::named("local", "local")
    }

    /// A principal of a tenant, with nothing else known about it.
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

    /// Whether both are the same user of the same tenant with the same chain of agents. Any other caller has no access to what
    /// the first one has open.
    pub fn is_same_party(&self, other: &Self) -> bool {
        self.is_same_user(other) && self.actors == other.actors
    }

    /// Whether this caller may see the calls of `owner`. A user sees all of their own calls. An agent sees only the calls that
    /// it made itself, not those of the user's other agents.
    pub fn may_see_calls_of(&self, owner: &Self) -> bool {
        self.is_same_user(owner) && (self.actors.is_empty() || self.actors == owner.actors)
    }

    /// Whether both act for the same user of the same tenant, through any agent.
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.tenant == other.tenant && self.principal == other.principal
    }
}
