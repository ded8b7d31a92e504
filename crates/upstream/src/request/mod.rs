//! One request to a server: its bytes, its terms, and how it ends. It does not know which connection carries it, or how.

pub(crate) mod audience;
pub(crate) mod message;
pub(crate) mod overtime;
pub(crate) mod parcel;
pub(crate) mod pausable_deadline;

use std::{ops::Range, pin::Pin, sync::Arc};

use bytes::Bytes;
use hyper::header::HeaderMap;
use servanda_mcp::ProtocolVersion;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{audience::RequestAudience, overtime::Overtime, pausable_deadline::PausableDeadline};
use crate::{CredentialRejection, CredentialRequest, DispatchLease, PerformFailure, RequestUser};

/// A request that is ready to be sent.
#[derive(Debug)]
pub(crate) struct WireRequest<'a> {
    /// The gateway's id, unique over all connections of an upstream.
    pub(crate) id: i64,
    pub(crate) method: &'static str,
    /// The tool, prompt, URI or task it is about.
    pub(crate) name: Option<&'a str>,
    /// Headers that repeat annotated arguments, without their prefix.
    pub(crate) param_headers: &'a [(String, String)],
    /// A header with an idempotency key, sent unchanged.
    pub(crate) key_header: Option<&'a (String, String)>,
    /// W3C trace context for a connection that carries headers; the body has it too.
    pub(crate) trace_parent: Option<&'a str>,
    /// The value of the version header; none before the legacy handshake.
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) body: Vec<u8>,
    /// Where in the body the arguments of a tool call are.
    pub(crate) arguments: Option<Range<usize>>,
    /// What the credentials are requested for; none if the request serves the connection itself.
    pub(crate) credential_request: Option<CredentialRequest>,
    /// Headers with credentials.
    pub(crate) credential_headers: HeaderMap,
}

/// The terms of a request.
#[derive(Debug, Clone)]
pub(crate) struct WireRequestTerms {
    /// How long the gateway waits for it.
    pub(crate) pausable_deadline: PausableDeadline,
    pub(crate) cancel: CancellationToken,
    pub(crate) when_cancelled: CancellationMode,
    /// Who receives what is said about it.
    pub(crate) audience: RequestAudience,
    /// Whether the server is told when the request is abandoned. A handshake must not be cancelled.
    pub(crate) tell_server: bool,
    /// The lease under which its bytes may be sent, if they need one.
    pub(crate) lease: Option<DispatchLease>,
    /// The user it is made for; none is the gateway itself.
    pub(crate) behalf: Option<RequestUser>,
    /// The time after the deadline, if the answer still matters then.
    pub(crate) overtime: Option<Arc<Overtime>>,
}

/// What a cancellation does to a request that has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancellationMode {
    /// Nothing can have changed: stop reading.
    Abandon,
    /// Something may have changed: read the answer to the end, so that it can be recorded.
    ReadOn,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum ExchangeEnd {
    /// The server answered.
    Answered(Bytes),
    /// There is no answer.
    Failed(PerformFailure),
    /// The connection is lost or about to be, and no byte was sent: the next connection may take the request.
    NeverLeft {
        /// Why.
        why: String,
    },
    /// The server says that it no longer knows the session or the era. This does not prove that it did nothing, so only a request that
    /// changes nothing may be repeated on the next connection.
    Disowned(PerformFailure),
    /// The server rejected the credentials. Only if it was shown any.
    NotLetIn {
        /// The same as a failure.
        failure: PerformFailure,
        /// What the server said about the credentials.
        rejection: CredentialRejection,
    },
}

/// A running request. Boxed, so that the waiting future is not as large as the future of the largest transport.
pub(crate) type ExchangeFuture<'a> = Pin<Box<dyn Future<Output = ExchangeEnd> + Send + 'a>>;

impl<'a> WireRequest<'a> {
    /// A request that needs no headers of its own.
    pub(crate) fn new(id: i64, method: &'static str, version: Option<ProtocolVersion>, body: Vec<u8>) -> Self {
        Self {
            id,
            method,
            name: None,
            param_headers: &[],
            key_header: None,
            trace_parent: None,
            version,
            body,
            arguments: None,
            credential_request: None,
            credential_headers: HeaderMap::new(),
        }
    }

    /// Adds the name of what the request is about.
    pub(crate) fn with_name(self, name: Option<&'a str>, param_headers: &'a [(String, String)]) -> Self {
        Self { name, param_headers, ..self }
    }

    /// Adds a header with an idempotency key.
    pub(crate) fn with_key_header(self, key_header: Option<&'a (String, String)>) -> Self {
        Self { key_header, ..self }
    }

    /// Adds trace context.
    pub(crate) fn with_trace_parent(self, trace_parent: Option<&'a str>) -> Self {
        Self { trace_parent, ..self }
    }
}

impl WireRequestTerms {
    /// The terms of a handshake.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            pausable_deadline: PausableDeadline::until(deadline),
            cancel: CancellationToken::new(),
            when_cancelled: CancellationMode::Abandon,
            audience: RequestAudience::Nobody,
            tell_server: false,
            lease: None,
            behalf: None,
            overtime: None,
        }
    }
}

impl ExchangeEnd {
    /// The answer or the failure of a request for which no other connection is tried.
    pub(crate) fn outcome(self) -> Result<Bytes, PerformFailure> {
        match self {
            Self::Answered(result) => Ok(result),
            Self::Failed(failure) | Self::Disowned(failure) | Self::NotLetIn { failure, .. } => Err(failure),
            Self::NeverLeft { why } => Err(PerformFailure::Unavailable { why }),
        }
    }
}
