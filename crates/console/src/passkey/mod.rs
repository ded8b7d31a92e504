//! Passkeys in the console: which site they belong to, what browsers are asked, the challenges of it, and the check of what they answer.
//!
//! The verification itself is in `servanda_authority::passkey`, and the store behind the port `PersonPasskeys`. A decision needs no challenge of
//! this room: a passkey signs the digest of the decision itself (`servanda_approval::passkey_decision_challenge`).

mod challenges;
mod check;
mod options;
mod party;

pub(crate) use self::{
    challenges::{PasskeyChallenges, PasskeyPurpose},
    check::{PasskeyRejection, check_assertion, check_registration, check_sign_in},
    options::{creation_options, request_options},
    party::relying_party,
};
