//! Signing in: the ways in which a person proves who they are.
//!
//! Each way ends in an [`AuthenticatedPerson`], from which a session is opened; nothing else makes a session. A further way adds a variant to
//! [`SignInMethod`], its routes, and an entry on the page of ways. Deliberately not here: checking a credential, which the authenticator does.

mod attempts;
mod authenticator;
mod links;
mod method;
mod passkeys;
mod person;
mod provider;

pub(crate) use self::attempts::{ATTEMPT_MS_MAX, AttemptRequest, OpenAttempt, SignInAttempts};
pub use self::{
    authenticator::{PersonAuthenticator, PersonRejection},
    links::{OneTimeLink, OneTimeLinks},
    method::SignInMethod,
    passkeys::{PasskeyAdmission, PersonPasskeys},
    person::{AuthenticatedPerson, SignInUnavailable},
    provider::{PersonProvider, ProviderAttempt, ProviderDescription, ProviderRefusal},
};
