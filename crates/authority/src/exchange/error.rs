//! Why an exchange is refused, and the error that is answered (RFC 6749 §5.2): body and status; the door adds the headers.

use serde::Serialize;

use crate::capability::DelegationError;

/// An error as it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorAnswer {
    error: ErrorCode,
    error_description: String,
}

/// The codes of RFC 6749 and RFC 8693.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Missing, repeated or malformed; also a credential that is no good (RFC 8693 §2.2.2).
    InvalidRequest,
    /// Not an exchange.
    UnsupportedGrantType,
    /// More than the user has.
    InvalidScope,
    /// The token would be for a target other than this gateway.
    InvalidTarget,
    /// Ours.
    ServerError,
    /// Not now.
    TemporarilyUnavailable,
}

/// Why nothing is exchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The form.
    #[error("{0}")]
    Request(&'static str),
    /// Not an exchange.
    #[error("only token exchange is offered here")]
    GrantType,
    /// The subject's credential is no good. Why is for the log.
    #[error("the subject token is not valid here")]
    SubjectToken,
    /// The actor's credential is no good. Why is for the log.
    #[error("the actor token is not valid here")]
    ActorToken,
    /// Whether a credential is good cannot be found out at present.
    #[error("the tokens cannot be checked at present; try again later")]
    Later,
    /// The token names no actor, or one that may not act.
    #[error(
        "who is to act is not named (`agent` in `servanda_terms`), or its `actor_token` is another tenant's, of another name, or one \
         that acts for somebody already"
    )]
    Actor,
    /// Not scopes.
    #[error("`scope` is not a list of scopes")]
    ScopeText,
    /// Scopes that the user does not have.
    #[error("the subject does not have the scopes `{missing}`")]
    Scope {
        /// All of them, in one line.
        missing: String,
    },
    /// Nothing of what was asked is the user's.
    #[error("nothing of what is asked is the subject's to give")]
    NothingLeft,
    /// Not ours.
    #[error("target {index} is not one of this server")]
    Target {
        /// Which, counted from zero.
        index: usize,
    },
    /// Handed on often enough.
    #[error("the subject's credential may not be delegated any further")]
    Depth,
    /// Over.
    #[error("nothing is left of the lifetime")]
    Lifetime,
    /// Too much for a header, or no randomness.
    #[error("the credential cannot be made: {0}")]
    NotMade(DelegationError),
}

impl ExchangeError {
    /// The code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Request(_) | Self::SubjectToken | Self::ActorToken | Self::Actor | Self::Depth | Self::Lifetime => {
                ErrorCode::InvalidRequest
            }
            Self::GrantType => ErrorCode::UnsupportedGrantType,
            Self::ScopeText | Self::Scope { .. } | Self::NothingLeft => ErrorCode::InvalidScope,
            Self::Target { .. } => ErrorCode::InvalidTarget,
            Self::Later => ErrorCode::TemporarilyUnavailable,
            Self::NotMade(DelegationError::Randomness(_)) => ErrorCode::ServerError,
            Self::NotMade(_) => ErrorCode::InvalidRequest,
        }
    }

    /// The HTTP status.
    pub const fn status(&self) -> u16 {
        match self.code() {
            ErrorCode::ServerError => 500,
            ErrorCode::TemporarilyUnavailable => 503,
            _ => 400,
        }
    }

    /// The body. RFC 6749 allows no quotes and no backslash in it, and ours have none: values are never repeated.
    pub fn answer(&self) -> ErrorAnswer {
        let description = self.to_string().replace(['"', '\\'], "'");
        ErrorAnswer { error: self.code(), error_description: description }
    }
}

impl From<DelegationError> for ExchangeError {
    fn from(error: DelegationError) -> Self {
        match error {
            DelegationError::Depth(_) => Self::Depth,
            DelegationError::Lifetime => Self::Lifetime,
            other => Self::NotMade(other),
        }
    }
}
