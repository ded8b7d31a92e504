//! What the store has of a session.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use servanda_contract::{Timestamp, tool::Presence};
use servanda_engine::approvals::Person;

use crate::sign_in::SignInMethod;

/// How long a sign-in counts as fresh.
const FRESH_MS_MAX: u64 = 5 * 60_000;

/// A session. None of it opens the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionRecord {
    pub(crate) version: u32,
    /// The tenant.
    pub(crate) tenant: String,
    /// The person.
    pub(crate) principal: String,
    /// The person's groups when signing in.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) groups: BTreeSet<String>,
    /// How the person signed in.
    pub(crate) method: SignInMethod,
    /// When the session began.
    pub(crate) created_at: Timestamp,
    /// When the person last proved who they are.
    pub(crate) fresh_at: Timestamp,
    /// When the session ends, however often it is used.
    pub(crate) ends_at: Timestamp,
}

impl SessionRecord {
    /// The version that this program writes.
    pub(crate) const VERSION: u32 = 1;

    /// The person, as approvals see them at that time.
    pub(crate) fn person(&self, now: Timestamp) -> Person {
        // A clock that was set back makes no sign-in fresh again.
        let is_fresh = now >= self.fresh_at && now.since_ms(self.fresh_at) <= FRESH_MS_MAX;
        Person {
            tenant: self.tenant.clone(),
            principal: self.principal.clone(),
            groups: self.groups.clone(),
            presence: if is_fresh { Presence::Fresh } else { Presence::Session },
            credential: format!("console:{}", self.method.recorded()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_is_fresh_for_five_minutes() {
        let at = Timestamp::from_unix_ms;
        let record = SessionRecord {
            version: SessionRecord::VERSION,
            tenant: "acme".to_owned(),
            principal: "ada".to_owned(),
            groups: BTreeSet::new(),
            method: SignInMethod::OneTimeLink,
            created_at: at(1_000_000),
            fresh_at: at(1_000_000),
            ends_at: at(9_000_000),
        };
        for (now, expected) in [
            (1_000_000, Presence::Fresh),
            (1_300_000, Presence::Fresh),
            (1_300_001, Presence::Session),
            (999_999, Presence::Session),
        ] {
            assert_eq!(record.person(at(now)).presence, expected, "{now}");
        }
    }
}
