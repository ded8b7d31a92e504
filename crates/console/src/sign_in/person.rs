//! What every way of signing in ends in: a person whose proof was checked, or that it cannot be checked at present.

use std::collections::BTreeSet;

use servanda_contract::Timestamp;

use super::SignInMethod;

/// A person whose proof was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticatedPerson {
    /// The tenant.
    pub tenant: String,
    /// The person.
    pub principal: String,
    /// The person's groups.
    pub groups: BTreeSet<String>,
    /// How they signed in.
    pub method: SignInMethod,
    /// When they last showed who they are. A time long ago if that is not known, so that the sign-in is not fresh.
    pub proved_at: Timestamp,
    /// When a session of this proof has to end at the latest.
    pub expires_at: Timestamp,
}

/// A credential cannot be checked at present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("credentials cannot be checked at present: {0}")]
pub struct SignInUnavailable(pub String);
