//! One request to a server: what leaves, on what terms, and how it ends. Which connection carries it, and how, is not known here.

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

/// A request, ready to leave.
#[derive(Debug)]
pub(crate) struct WireRequest<'a> {
    /// Ours, unique over all connections of an upstream.
    pub(crate) id: i64,
    pub(crate) method: &'static str,
    /// The tool, prompt, URI or task it is about.
    pub(crate) name: Option<&'a str>,
    /// Headers that repeat annotated arguments, without their prefix.
    pub(crate) param_headers: &'a [(String, String)],
    /// A header with a key, as it is.
    pub(crate) key_header: Option<&'a (String, String)>,
    /// What the version header says; none before the legacy handshake.
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) body: Vec<u8>,
    /// Where in the body the arguments of a tool call are.
    pub(crate) arguments: Option<Range<usize>>,
    /// What it is made for, where that is not for the sake of the connection.
    pub(crate) credential_request: Option<CredentialRequest>,
    /// Headers that are shown.
    pub(crate) credential_headers: HeaderMap,
}

/// On what terms a request is made.
#[derive(Debug, Clone)]
pub(crate) struct WireRequestTerms {
    /// How long it is waited for.
    pub(crate) pausable_deadline: PausableDeadline,
    pub(crate) cancel: CancellationToken,
    pub(crate) when_cancelled: CancellationMode,
    /// Who hears what is said about it.
    pub(crate) audience: RequestAudience,
    /// Whether the server is told when the request is given up. A handshake must not be cancelled.
    pub(crate) tell_server: bool,
    /// Under which lease its bytes may leave, if they need one.
    pub(crate) lease: Option<DispatchLease>,
    /// For which user; none is the gateway itself.
    pub(crate) behalf: Option<RequestUser>,
    /// The time after the deadline, where the answer still matters.
    pub(crate) overtime: Option<Arc<Overtime>>,
}

/// What a cancellation does to a request that has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancellationMode {
    /// Nothing can have changed: stop.
    Abandon,
    /// Something may have changed: read to the end, so that it can be recorded.
    ReadOn,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum ExchangeEnd {
    /// With an answer.
    Answered(Bytes),
    /// Without one.
    Failed(PerformFailure),
    /// The connection is lost or about to be, and no byte left: the next one may take the request.
    NeverLeft {
        /// Why.
        why: String,
    },
    /// The server says that it does not know what was agreed any more (the session, or the era). Its word is no proof that
    /// it did nothing: only a request that changes nothing may be made again on the next connection.
    Disowned(PerformFailure),
    /// The server did not let it in with what it was shown. Only where something was.
    NotLetIn {
        /// The same as a failure.
        failure: PerformFailure,
        /// What it says.
        rejection: CredentialRejection,
    },
}

/// A request under way. Boxed, so that the waiting future is not as large as the largest of the connections.
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
            version,
            body,
            arguments: None,
            credential_request: None,
            credential_headers: HeaderMap::new(),
        }
    }

    /// The same about something that has a name.
    pub(crate) fn with_name(self, name: Option<&'a str>, param_headers: &'a [(String, String)]) -> Self {
        Self { name, param_headers, ..self }
    }

    /// The same with a key in a header.
    pub(crate) fn with_key_header(self, key_header: Option<&'a (String, String)>) -> Self {
        Self { key_header, ..self }
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
