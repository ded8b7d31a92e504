//! Who is calling and what they may: rights that only ever shrink, the credentials that carry them, and the challenges for
//! those who lack some.
//!
//! Everything here takes values and returns values. There is deliberately no socket, no store and no clock: a key is looked
//! up, a key set fetched and a revocation asked about by whoever uses this, and time is handed in. Randomness is the one
//! thing that is taken from outside, for new keys.

pub mod api_key;
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
