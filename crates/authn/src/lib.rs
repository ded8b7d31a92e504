//! Authentication at the HTTP door: API keys by their stored form, access tokens by their issuers' keys, agent
//! credentials by our root keys. Authentication of people: by keys, passkeys, and through an identity provider.
//! Revocation is read from the store on every request.
//!
//! `servanda-authority` does the checks themselves; it knows no socket and no store. This crate is the shell around it:
//! it looks up, fetches, caches, and reports. No part of a credential is ever logged or repeated in an error; a
//! credential is named by the id it is revoked by.

pub mod attestation_keys;
mod authenticator;
mod cache;
mod challenges;
mod exchange;
mod fetch;
mod issuers;
pub mod keys;
pub mod log_key;
mod monitors;
pub mod passkeys;
mod people;
mod people_passkeys;
mod people_provider;
mod provider_client;
mod provider_refusals;
pub mod revocation;
pub mod root_keys;
mod sealed_seed;
mod settings;

pub use authenticator::{AuthnError, CredentialAuthenticator};
pub use fetch::check_issuer;
pub use provider_client::{ClientSecretSource, check_provider};
pub use settings::{
    AuthnSettings, IssuerSettings, KEY_CACHE_POLICY, ProviderSettings, RequiredAuthnSettings, fetchable_url,
};

#[cfg(test)]
mod passkeys_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
