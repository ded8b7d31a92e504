//! Checks who a person is. A port: the crate `authn` knows credentials and revocation; the console knows forms and sessions.

use std::fmt;

use servanda_authority::Secret;
use servanda_effects::PortFuture;

use super::{AuthenticatedPerson, PersonPasskeys, PersonProvider, SignInMethod, SignInUnavailable};

/// Checks people's credentials.
pub trait PersonAuthenticator: PersonPasskeys + PersonProvider + Send + Sync + fmt::Debug {
    /// Whether the gateway asks nobody for a credential, so that one person uses it, who signs in with a one-time link.
    fn is_single_user(&self) -> bool;

    /// The person whose API key this is. Accepts only keys for people: those that have the scope `servanda:console` by name, and under which
    /// no agent acts.
    fn authenticate<'a>(&'a self, key: &'a Secret) -> PortFuture<'a, Result<AuthenticatedPerson, PersonRejection>>;

    /// Whether what a person signed in with still counts: a revoked or expired credential ends the sessions that it opened.
    fn is_still_valid<'a>(&'a self, method: &'a SignInMethod) -> PortFuture<'a, Result<bool, SignInUnavailable>>;
}

/// Why a person is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonRejection {
    /// The credential is not accepted.
    Wrong {
        /// What the person is told.
        message: String,
        /// What the log says, without anything of the credential.
        why: String,
    },
    /// It cannot be checked at present.
    Unavailable(SignInUnavailable),
}
