//! Callers and their rights: rights that only ever shrink, the credentials that carry them, and the challenges for
//! callers who lack some.
//!
//! Everything here takes values and returns values. There is deliberately no socket, no store and no clock: the user of
//! this crate looks up keys, fetches key sets, reads revocations and passes the time in. Only randomness for new keys
//! comes from outside.

pub mod api_key;
pub mod attestation;
pub mod bearer;
pub mod caller;
#[cfg(test)]
mod canary_tests;
pub mod capability;
pub mod challenge;
mod credential_method;
pub mod exchange;
pub mod invocation;
pub mod jwks;
pub mod key_cache;
pub mod passkey;
pub mod rights;
pub mod scrubber;
pub mod sealing;
pub mod secret;
pub mod signature;
#[cfg(test)]
mod testing;
pub mod token;

pub use caller::{Actor, AuthenticatedCaller, CredentialBudget, CredentialId};
pub use credential_method::CredentialMethod;
pub use rights::{Narrowing, RequiredRights, Rights};
pub use secret::Secret;
