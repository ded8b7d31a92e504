//! Checks what browsers answer: whose passkey it is, whether it signed this challenge, and whether its counter grew.

use serde::Deserialize;
use servanda_authority::passkey::{
    PASSKEY_CHALLENGE_BYTES, PasskeyAssertion, PasskeyExpectation, PasskeyFault, PasskeyRegistration,
    RegisteredPasskey, RelyingParty, StoredPasskey, VerifiedPasskeyAssertion,
};

use crate::sign_in::{PersonAuthenticator, SignInUnavailable};

/// Characters of a person's handle.
const HANDLE_CHARS: usize = 43;

/// Why a passkey's answer is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PasskeyRejection {
    /// There is no answer in the form, or it is not one.
    NoAnswer,
    /// The challenge is too old, was answered before, or belongs to another session or purpose.
    Challenge,
    /// The passkey is not registered, was removed, or is another person's.
    Unknown,
    /// What the browser and the authenticator say is wrong.
    Fault(PasskeyFault),
    /// It cannot be checked at present.
    Unavailable(SignInUnavailable),
}

/// A signature by a passkey of a person, with the passkey.
#[derive(Debug, Clone)]
pub(crate) struct CheckedAssertion {
    /// The passkey.
    pub(crate) stored: StoredPasskey,
    /// The signature.
    pub(crate) verified: VerifiedPasskeyAssertion,
}

/// Checks that a passkey of the person with that handle signed the challenge.
pub(crate) async fn check_assertion(
    authenticator: &dyn PersonAuthenticator,
    handle: &str,
    answer: Option<&str>,
    asked: (&RelyingParty, &[u8; PASSKEY_CHALLENGE_BYTES]),
) -> Result<CheckedAssertion, PasskeyRejection> {
    let (party, challenge) = asked;
    let assertion = answer.and_then(|answer| serde_json::from_str::<PasskeyAssertion>(answer).ok());
    let assertion = assertion.ok_or(PasskeyRejection::NoAnswer)?;
    let stored = authenticator.find_passkey(handle, &assertion.id).await?.ok_or(PasskeyRejection::Unknown)?;
    let verified =
        assertion.verify(&PasskeyExpectation { challenge, party }, &stored.passkey).inspect_err(|fault| {
            if *fault == PasskeyFault::Cloned {
                warn_of_copy(&stored);
            }
        })?;
    if !authenticator.note_passkey_count(&stored, &verified).await? {
        warn_of_copy(&stored);
        return Err(PasskeyRejection::Fault(PasskeyFault::Cloned));
    }
    Ok(CheckedAssertion { stored, verified })
}

/// Checks that some person's passkey signed the challenge. The authenticator says whose it is, by the handle that it was given when the passkey
/// was registered.
pub(crate) async fn check_sign_in(
    authenticator: &dyn PersonAuthenticator,
    answer: Option<&str>,
    asked: (&RelyingParty, &[u8; PASSKEY_CHALLENGE_BYTES]),
) -> Result<CheckedAssertion, PasskeyRejection> {
    let said = answer.and_then(|answer| serde_json::from_str::<SaidHandle>(answer).ok());
    let handle = said.ok_or(PasskeyRejection::NoAnswer)?.response.user_handle;
    if handle.len() != HANDLE_CHARS {
        return Err(PasskeyRejection::Unknown);
    }
    check_assertion(authenticator, &handle, answer, asked).await
}

/// Checks a new passkey.
pub(crate) fn check_registration(
    answer: Option<&str>,
    asked: (&RelyingParty, &[u8; PASSKEY_CHALLENGE_BYTES]),
) -> Result<RegisteredPasskey, PasskeyRejection> {
    let (party, challenge) = asked;
    let registration = answer.and_then(|answer| serde_json::from_str::<PasskeyRegistration>(answer).ok());
    let registration = registration.ok_or(PasskeyRejection::NoAnswer)?;
    Ok(registration.verify(&PasskeyExpectation { challenge, party })?)
}

/// Whose passkey it is, as the authenticator says.
#[derive(Deserialize)]
struct SaidHandle {
    response: SaidHandleResponse,
}

#[derive(Deserialize)]
struct SaidHandleResponse {
    #[serde(rename = "userHandle")]
    user_handle: String,
}

fn warn_of_copy(stored: &StoredPasskey) {
    tracing::warn!(
        passkey = %stored.credential(),
        person = stored.principal,
        tenant = stored.tenant,
        "the counter of a passkey did not grow, so there may be a copy of it; its signature was not accepted"
    );
}

impl PasskeyRejection {
    /// What the person is told: what is wrong, and what to do.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::NoAnswer => {
                "The browser sent no answer of a passkey. Passkeys need JavaScript and a current browser.".to_owned()
            }
            Self::Challenge => {
                "The page was open for too long, was used already, or belongs to another session. Do it again on this page.".to_owned()
            }
            Self::Unknown => "This passkey is not registered here for you, or was removed.".to_owned(),
            Self::Fault(fault) => format!("It was not accepted: {fault}. What to do: {}.", fault.next_step()),
            Self::Unavailable(unavailable) => unavailable.to_string(),
        }
    }

    /// Why, for the log.
    pub(crate) fn logged(&self) -> String {
        match self {
            Self::NoAnswer => "no answer of a passkey".to_owned(),
            Self::Challenge => "a passkey's challenge is too old, used, or of another session".to_owned(),
            Self::Unknown => "a passkey that is not registered".to_owned(),
            Self::Fault(fault) => format!("a passkey: {fault}"),
            Self::Unavailable(unavailable) => unavailable.to_string(),
        }
    }
}

impl From<PasskeyFault> for PasskeyRejection {
    fn from(fault: PasskeyFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<SignInUnavailable> for PasskeyRejection {
    fn from(unavailable: SignInUnavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}
