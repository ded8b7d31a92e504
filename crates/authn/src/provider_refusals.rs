//! Why the identity provider signs nobody in: each reason with its name, what the person is told to do, and what the log says.
//!
//! No text of the provider is in any of them, only its short error codes.

use servanda_authority::token::{IdTokenError, TokenError};
use servanda_console::ProviderRefusal;
use servanda_oauth::{callback::ConsentError, openid::ProviderLookupError, token_response::TokenRequestError};

const AGAIN: &str = "The answer belongs to another sign-in, perhaps one that you began in another tab. Sign in again.";
const NOT_READABLE: &str = "The answer of the identity provider cannot be read. Sign in again; if that repeats, tell an operator of the gateway.";
const NOT_BELIEVED: &str = "What the identity provider answered is not believed. Sign in again; if that repeats, tell an operator of the gateway, \
                            who finds the reason in its log.";
const AWAY: &str = "The identity provider does not answer at present. Try again in a few minutes.";
const CLOCK: &str = "The clocks of the gateway and of the identity provider differ too much, or the sign-in took too long. Sign in again; if that \
                     repeats, tell an operator of the gateway.";
const CLIENT: &str = "The identity provider does not accept the console's client. Tell an operator of the gateway: `client_id`, `client_secret` or \
                      the address to come back to is not what the provider knows.";
const NAMELESS: &str = "The identity provider does not say who you are in the way that the gateway expects: a claim for your name, tenant or groups \
                        is missing. Tell an operator of the gateway.";

/// A refusal.
fn refusal(reason: &'static str, message: &'static str, detail: &str) -> ProviderRefusal {
    ProviderRefusal { reason, code: None, message, detail: detail.to_owned() }
}

/// The operator configured another provider, or none, since the attempt began.
pub(crate) fn other_settings() -> ProviderRefusal {
    let message = "An operator changed how people sign in. Sign in again.";
    refusal("other_settings", message, "the settings of the provider changed since the attempt began")
}

/// The provider cannot be reached.
pub(crate) fn unreachable(detail: &str) -> ProviderRefusal {
    refusal("provider_unreachable", AWAY, detail)
}

/// Its document is not known.
pub(crate) fn of_lookup(error: &ProviderLookupError) -> ProviderRefusal {
    let reason = match error {
        ProviderLookupError::Unreachable => return unreachable(&error.to_string()),
        ProviderLookupError::Nothing => "no_provider_document",
        ProviderLookupError::NotBelieved(_) => "provider_document_not_believed",
    };
    let message = "The identity provider is not set up as the gateway expects. Tell an operator: `servanda doctor` says what is wrong.";
    refusal(reason, message, &error.to_string())
}

/// Its document names no address at which people sign in.
pub(crate) fn no_sign_in_page() -> ProviderRefusal {
    let message = "The identity provider names no page to sign in at. Tell an operator of the gateway.";
    refusal("no_sign_in_page", message, "the document has no `authorization_endpoint`")
}

/// Every client of the provider gets another `sub`.
pub(crate) fn pairwise() -> ProviderRefusal {
    let message = "The identity provider gives each client another `sub`, so that the owner of an agent would not be known as its owner. An \
                   operator names another claim with `principal_claim`, or writes `principal_claim: sub` if that is meant.";
    refusal("pairwise_subject", message, "`subject_types_supported` has only `pairwise`")
}

/// The secret of our client cannot be looked up.
pub(crate) fn no_secret(detail: &str) -> ProviderRefusal {
    let message =
        "The gateway does not find the secret of its client. Tell an operator: `servanda doctor` says what is missing.";
    refusal("no_client_secret", message, detail)
}

/// Our client cannot authenticate.
pub(crate) fn client(detail: &str) -> ProviderRefusal {
    refusal("client_refused", CLIENT, detail)
}

/// There is no ID token among the tokens.
pub(crate) fn no_id_token() -> ProviderRefusal {
    refusal("no_id_token", NOT_BELIEVED, "the token endpoint issued no ID token")
}

/// The provider has no key of the ID token's id.
pub(crate) fn unknown_key() -> ProviderRefusal {
    refusal("unknown_key", NOT_BELIEVED, "the provider publishes no key with the id that the ID token names")
}

/// The provider's keys cannot be fetched.
pub(crate) fn keys_unavailable() -> ProviderRefusal {
    refusal("keys_unavailable", AWAY, "the provider's keys cannot be fetched")
}

/// The answer that came back through the browser gives no code.
pub(crate) fn of_answer(error: ConsentError) -> ProviderRefusal {
    let detail = error.to_string();
    match error {
        ConsentError::State => refusal("wrong_state", AGAIN, &detail),
        ConsentError::Issuer => refusal("wrong_issuer", NOT_BELIEVED, &detail),
        ConsentError::Form => refusal("malformed_answer", NOT_READABLE, &detail),
        ConsentError::Denied { word } => {
            ProviderRefusal { code: Some(word.clone()), ..refusal("refused_by_provider", denied(&word), &detail) }
        }
    }
}

/// What a person does about an error code of the provider.
fn denied(word: &str) -> &'static str {
    match word {
        "access_denied" => {
            "The identity provider did not let you sign in here. If you did not stop it yourself, ask its administrators for access to this console."
        }
        "login_required" | "interaction_required" | "consent_required" | "account_selection_required" => {
            "The identity provider wants to ask you something first. Sign in again and answer there."
        }
        "temporarily_unavailable" | "server_error" => AWAY,
        _ => {
            "The identity provider refuses the console's request. Tell an operator of the gateway: its client there is not set up for it."
        }
    }
}

/// The code was not redeemed.
pub(crate) fn of_tokens(error: &TokenRequestError) -> ProviderRefusal {
    let detail = error.to_string();
    let (reason, message, code) = match error {
        TokenRequestError::Refused { word } if word == "invalid_grant" => {
            ("code_refused", "The sign-in took too long, or its answer was used before. Sign in again.", Some(word))
        }
        TokenRequestError::Refused { word } if matches!(word.as_str(), "invalid_client" | "unauthorized_client") => {
            ("client_refused", CLIENT, Some(word))
        }
        TokenRequestError::Refused { word } => ("tokens_refused", NOT_BELIEVED, Some(word)),
        TokenRequestError::Status { .. } => ("tokens_refused", AWAY, None),
        TokenRequestError::Form | TokenRequestError::Kind => ("malformed_tokens", NOT_READABLE, None),
    };
    ProviderRefusal { code: code.cloned(), ..refusal(reason, message, &detail) }
}

/// The ID token signs nobody in.
pub(crate) fn of_id_token(error: IdTokenError) -> ProviderRefusal {
    let (reason, message) = match error {
        IdTokenError::Nonce => ("wrong_nonce", NOT_BELIEVED),
        IdTokenError::AuthorizedParty => ("wrong_client", NOT_BELIEVED),
        IdTokenError::AccessTokenHash => ("wrong_at_hash", NOT_BELIEVED),
        IdTokenError::NotAskedAgain => (
            "not_asked_again",
            "The identity provider did not ask you again who you are, or does not say when it did. Sign out there and sign in again; if that \
             repeats, tell an operator of the gateway: the provider has to answer `max_age=0` with `auth_time`.",
        ),
        IdTokenError::UnverifiedEmail => (
            "unverified_email",
            "The identity provider has not verified your address. Verify it there, or ask an operator of the gateway to name people by another \
             claim.",
        ),
        IdTokenError::Token(error) => match error {
            TokenError::TooLong | TokenError::Malformed | TokenError::Critical => ("malformed_id_token", NOT_BELIEVED),
            TokenError::Algorithm | TokenError::AlgorithmOfIssuer => ("wrong_algorithm", NOT_BELIEVED),
            TokenError::Type => ("not_an_id_token", NOT_BELIEVED),
            TokenError::Issuer => ("wrong_issuer", NOT_BELIEVED),
            TokenError::Key(_) => ("unknown_key", NOT_BELIEVED),
            TokenError::Signature => ("wrong_signature", NOT_BELIEVED),
            TokenError::Audience => ("wrong_audience", NOT_BELIEVED),
            TokenError::Expired => ("expired", CLOCK),
            TokenError::NotYet => ("not_valid_yet", CLOCK),
            TokenError::Claim(_) | TokenError::ConfiguredClaim | TokenError::Scopes(_) | TokenError::Actors => {
                ("missing_claim", NAMELESS)
            }
            TokenError::Tenant => (
                "wrong_tenant",
                "Your tenant does not use this gateway, as far as its operators have said. Ask an operator of the gateway.",
            ),
        },
    };
    refusal(reason, message, &error.to_string())
}
