//! Who is let in at the HTTP door, once somebody has to be known: API keys by what the notebook keeps of them, access tokens by the
//! keys of their issuers, agent credentials by our root keys; and whether any of them was revoked, which is asked of the store every
//! time.
//!
//! The checks themselves are `servanda-authority`'s, which knows no socket and no store. This is the shell around them: it looks up,
//! fetches, keeps for a while, and tells what it found. Nothing of a credential is ever logged or repeated in an error; a credential
//! is named by the id it is revoked by.

mod authenticator;
mod cache;
mod challenges;
mod exchange;
mod fetch;
mod issuers;
pub mod keys;
pub mod revocation;
pub mod root_keys;
mod settings;

pub use authenticator::{AuthnError, CredentialAuthenticator};
pub use fetch::check_issuer;
pub use settings::{AuthnSettings, IssuerSettings, KEY_CACHE_POLICY, RequiredAuthnSettings, fetchable_url};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
