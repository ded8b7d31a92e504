//! Why an exchange is refused, and the error answer (RFC 6749 §5.2): body and status; the door adds the headers.

use serde::Serialize;

use crate::capability::DelegationError;

/// An error as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorAnswer {
    error: ErrorCode,
    error_description: String,
}

/// The codes of RFC 6749 and RFC 8693.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// A parameter is missing, repeated or malformed, or a credential is not valid (RFC 8693 §2.2.2).
    InvalidRequest,
    /// The grant is not a token exchange.
    UnsupportedGrantType,
    /// The request asks for more scopes than the user has.
    InvalidScope,
    /// The token would be for a target other than this gateway.
    InvalidTarget,
    /// An internal error.
    ServerError,
    /// The request cannot be answered now.
    TemporarilyUnavailable,
}

/// Why an exchange is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The form is malformed.
    #[error("{0}")]
    Request(&'static str),
    /// The grant is not a token exchange.
    #[error("only token exchange is supported here")]
    GrantType,
    /// The subject's credential is not valid. The log says why.
    #[error("the subject token is not valid here")]
    SubjectToken,
    /// The actor's credential is not valid. The log says why.
    #[error("the actor token is not valid here")]
    ActorToken,
    /// The credentials cannot be checked at present.
    #[error("the tokens cannot be checked at present; try again later")]
    Later,
    /// The request names no agent, or one that may not act.
    #[error(
        "the request does not name the agent (`agent` in `servanda_terms`), or its `actor_token` is of another tenant, of another \
         name, or one that already acts for a user"
    )]
    Actor,
    /// `scope` is malformed.
    #[error("`scope` is not a list of scopes")]
    ScopeText,
    /// Scopes that the user does not have.
    #[error("the subject does not have the scopes `{missing}`")]
    Scope {
        /// All of them, in one line.
        missing: String,
    },
    /// The user has nothing of what was asked.
    #[error("the subject has nothing of what the request asks for")]
    NothingLeft,
    /// The target is not ours.
    #[error("target {index} does not name this server")]
    Target {
        /// The target's index, from zero.
        index: usize,
    },
    /// The credential may not be delegated any further.
    #[error("the subject's credential may not be delegated any further")]
    Depth,
    /// The lifetime is over.
    #[error("no lifetime is left")]
    Lifetime,
    /// Too much for a header, or no randomness.
    #[error("the credential cannot be created: {0}")]
    NotMade(DelegationError),
}

impl ExchangeError {
    /// The error code.
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

    /// The body. RFC 6749 allows neither quotes nor backslashes in it, and our messages have none: they never repeat
    /// values.
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
