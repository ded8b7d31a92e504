//! Signing in through the operator's identity provider (`OpenID` Connect). A port: the crate `authn` is the provider's client and verifies what
//! it says; the console keeps the attempt, and opens the session.

use std::fmt;

use servanda_authority::Secret;
use servanda_contract::Timestamp;
use servanda_effects::PortFuture;

use super::AuthenticatedPerson;

/// Signs people in through an identity provider.
pub trait PersonProvider: Send + Sync + fmt::Debug {
    /// The provider at present. None if the operator configured none.
    fn provider(&self) -> Option<ProviderDescription>;

    /// The address at the provider to which a person is sent.
    fn provider_address<'a>(&'a self, attempt: &'a ProviderAttempt) -> PortFuture<'a, Result<String, ProviderRefusal>>;

    /// The code in an answer that came back through the person's browser, if it belongs to this attempt and comes from the provider.
    fn read_answer<'a>(
        &'a self,
        attempt: &'a ProviderAttempt,
        query: &'a str,
    ) -> PortFuture<'a, Result<Secret, ProviderRefusal>>;

    /// The person for whom the provider issued a code.
    fn person_of_code<'a>(
        &'a self,
        attempt: &'a ProviderAttempt,
        code: &'a Secret,
    ) -> PortFuture<'a, Result<AuthenticatedPerson, ProviderRefusal>>;
}

/// The provider, as pages need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderDescription {
    /// Its name for people.
    pub name: String,
    /// A digest of its settings. An attempt and a session of other settings do not count any more.
    pub settings: String,
}

/// What ties an answer to the attempt that it is for, and to the browser that made the attempt.
#[derive(Debug)]
pub struct ProviderAttempt {
    /// Comes back with the answer.
    pub state: Secret,
    /// Comes back in the ID token.
    pub nonce: Secret,
    /// Its hash is sent first, and it itself with the code (PKCE).
    pub verifier: Secret,
    /// Where the browser returns to.
    pub redirect: String,
    /// If the person has to show again who they are: since when.
    pub asked_again_at: Option<Timestamp>,
    /// A digest of the provider's settings when the attempt began.
    pub settings: String,
}

/// Why the provider signs nobody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRefusal {
    /// The reason's name, for pages, the log and people who ask for help.
    pub reason: &'static str,
    /// The provider's own code for it: a few letters, never prose.
    pub code: Option<String>,
    /// What the person is told: what happened, and what to do.
    pub message: &'static str,
    /// What the log says beside the reason; nothing of a credential.
    pub detail: String,
}
