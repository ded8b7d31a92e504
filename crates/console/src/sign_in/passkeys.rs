//! People's passkeys, as the console needs them. A port: the crate `authn` keeps them and knows when they end.

use std::fmt;

use servanda_authority::{
    Secret,
    passkey::{StoredPasskey, VerifiedPasskeyAssertion},
};
use servanda_contract::Timestamp;
use servanda_effects::PortFuture;

use super::{AuthenticatedPerson, SignInUnavailable};

/// Keeps people's passkeys. All that it finds counts at present: neither the passkey nor the key under which it was registered was revoked or
/// has expired.
pub trait PersonPasskeys: Send + Sync + fmt::Debug {
    /// The passkeys of a person, the oldest first.
    fn passkeys_of<'a>(
        &'a self,
        tenant: &'a str,
        principal: &'a str,
    ) -> PortFuture<'a, Result<Vec<StoredPasskey>, SignInUnavailable>>;

    /// The passkey of the person with that handle that has that `WebAuthn` id, with the greatest counter that it has shown.
    fn find_passkey<'a>(
        &'a self,
        handle: &'a str,
        credential_id: &'a str,
    ) -> PortFuture<'a, Result<Option<StoredPasskey>, SignInUnavailable>>;

    /// The person whom a passkey signs in, with the groups that their key has now. None if it does not count any more.
    fn person_of_passkey<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
    ) -> PortFuture<'a, Result<Option<AuthenticatedPerson>, SignInUnavailable>>;

    /// Keeps a new passkey.
    fn register_passkey<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
    ) -> PortFuture<'a, Result<PasskeyAdmission, SignInUnavailable>>;

    /// Ends a passkey.
    fn remove_passkey<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
        by: &'a str,
    ) -> PortFuture<'a, Result<(), SignInUnavailable>>;

    /// Remembers the counter of a signature. False if another signature had the same one.
    fn note_passkey_count<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
        verified: &'a VerifiedPasskeyAssertion,
    ) -> PortFuture<'a, Result<bool, SignInUnavailable>>;

    /// Whether a challenge is answered for the first time.
    fn is_first_answer<'a>(
        &'a self,
        challenge: &'a str,
        expires_at: Timestamp,
    ) -> PortFuture<'a, Result<bool, SignInUnavailable>>;

    /// The secret from which the challenges of people without a session are made. All gateways of a store have the same.
    fn challenge_secret(&self) -> PortFuture<'_, Result<Secret, SignInUnavailable>>;
}

/// Whether a new passkey was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasskeyAdmission {
    /// It was.
    Kept,
    /// The person has, or had, a passkey of this id.
    Known,
    /// The person has as many as a person may have.
    TooMany(usize),
}
