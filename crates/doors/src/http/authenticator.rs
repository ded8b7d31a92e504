//! Who is let in at the HTTP door. A port: what a credential is and how it is checked is the authenticator's business; the door hands
//! the header over and passes on what it is told.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use servanda_authority::{AuthenticatedCaller, challenge::Challenge};
use servanda_engine::{PortFuture, local_authority};

/// Knows who is let in.
pub trait Authenticator: Send + Sync + fmt::Debug {
    /// Checks what a request brought in its `Authorization` header, if anything.
    fn admit<'a>(
        &'a self,
        authorization: Option<&'a HeaderValue>,
    ) -> PortFuture<'a, Result<Arc<AuthenticatedCaller>, AuthRejection>>;

    /// What somebody is told whose credential lacks only scopes for a call; none if no challenge would help them.
    fn step_up(&self, authority: &AuthenticatedCaller, scopes_needed: &[String]) -> Option<Challenge>;

    /// Whether somebody who was let in may stay: a stream on which a client only listens is ended otherwise.
    fn is_still_valid<'a>(&'a self, _authority: &'a AuthenticatedCaller) -> PortFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }

    /// The document about this resource (RFC 9728), asked for with what follows the well-known path: empty, or the path of a
    /// resource. None where there is none.
    fn metadata(&self, _path: &str) -> Option<Bytes> {
        None
    }

    /// Answers a token request (RFC 8693); none where nothing is exchanged.
    fn exchange(&self, _form: Bytes) -> PortFuture<'_, Option<TokenExchangeResponse>> {
        Box::pin(std::future::ready(None))
    }

    /// A hostname the door goes by besides those it is told with its options.
    fn hostname(&self) -> Option<Arc<str>> {
        None
    }
}

/// What a token request is answered with.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenExchangeResponse {
    /// The HTTP status.
    pub status: u16,
    /// A JSON document; it may have a credential in it.
    pub body: Bytes,
    /// Why the credential in the form was not accepted, if that is the reason; nothing of the credential is in it.
    pub wrong_credential: Option<String>,
}

impl fmt::Debug for TokenExchangeResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenExchangeResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why somebody is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthRejection {
    /// With another credential they may be.
    Challenged {
        /// What the client is told, status and header.
        challenge: Challenge,
        /// The same in words.
        message: String,
        /// What to do about it.
        hint: String,
        /// What the log says about the credential that was shown, and nothing of it; none where none was shown.
        wrong: Option<String>,
    },
    /// It cannot be found out at present.
    Unavailable {
        /// What the client is told.
        message: String,
    },
}

/// Local mode: whoever reaches the door is the one local principal. For loopback only.
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
