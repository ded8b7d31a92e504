//! Decides who may use the HTTP door. A port: the authenticator knows what a credential is and how to check it; the
//! door hands it the header and passes its decision on.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use servanda_authority::{AuthenticatedCaller, challenge::Challenge};
use servanda_engine::{PortFuture, local_authority};

/// Decides which callers the door accepts.
pub trait Authenticator: Send + Sync + fmt::Debug {
    /// Checks the `Authorization` header of a request, if it has one.
    fn admit<'a>(
        &'a self,
        authorization: Option<&'a HeaderValue>,
    ) -> PortFuture<'a, Result<Arc<AuthenticatedCaller>, AuthRejection>>;

    /// The challenge for a caller whose credential lacks only scopes for a call; `None` if no challenge would help.
    fn step_up(&self, authority: &AuthenticatedCaller, scopes_needed: &[String]) -> Option<Challenge>;

    /// Whether an accepted caller is still accepted. If not, the streams on which it only listens are closed.
    fn is_still_valid<'a>(&'a self, _authority: &'a AuthenticatedCaller) -> PortFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }

    /// The document about this resource (RFC 9728). `path` is what follows the well-known path: empty, or the path of a
    /// resource. `None` if there is no such document.
    fn metadata(&self, _path: &str) -> Option<Bytes> {
        None
    }

    /// Answers a token request (RFC 8693); `None` if this gateway exchanges no tokens.
    fn exchange(&self, _form: Bytes) -> PortFuture<'_, Option<TokenExchangeResponse>> {
        Box::pin(std::future::ready(None))
    }

    /// A hostname that the door answers to besides those in its options.
    fn hostname(&self) -> Option<Arc<str>> {
        None
    }
}

/// The answer to a token request.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenExchangeResponse {
    /// The HTTP status.
    pub status: u16,
    /// A JSON document; it may contain a credential.
    pub body: Bytes,
    /// Why the credential in the form was not accepted, if that is the reason; it contains nothing of the credential.
    pub wrong_credential: Option<String>,
}

impl fmt::Debug for TokenExchangeResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenExchangeResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why a caller is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthRejection {
    /// Another credential may be accepted.
    Challenged {
        /// The status and header that the client gets.
        challenge: Challenge,
        /// The same in words.
        message: String,
        /// What to do about it.
        hint: String,
        /// What the log says about the credential that was shown, without anything of it; `None` if none was shown.
        wrong: Option<String>,
    },
    /// The credential cannot be checked at present.
    Unavailable {
        /// What the client is told.
        message: String,
    },
}

/// Local mode: every caller is the one local principal. For loopback only.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalAuthenticator;

impl Authenticator for LocalAuthenticator {
    fn admit<'a>(
        &'a self,
        _authorization: Option<&'a HeaderValue>,
    ) -> PortFuture<'a, Result<Arc<AuthenticatedCaller>, AuthRejection>> {
        Box::pin(std::future::ready(Ok(local_authority())))
    }

    fn step_up(&self, _authority: &AuthenticatedCaller, _scopes_needed: &[String]) -> Option<Challenge> {
        None
    }
}

/// The header and status of a challenge.
pub(super) fn challenge_header(challenge: &Challenge) -> (StatusCode, Option<(header::HeaderName, HeaderValue)>) {
    let status = StatusCode::from_u16(challenge.status).unwrap_or(StatusCode::UNAUTHORIZED);
    let value = HeaderValue::from_str(&challenge.header).ok();
    (status, value.map(|value| (header::WWW_AUTHENTICATE, value)))
}
