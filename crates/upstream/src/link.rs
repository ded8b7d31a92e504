//! One agreed connection to a server, whatever carries it: what can be asked on it, on which terms, and how asking ends.

use std::sync::OnceLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_mcp::{
    Id, ProtocolVersion, RpcError,
    envelope::{code, failure, response},
    fields::method,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{PerformFailure, RemarkSink, handshake::Peer, http::HttpWire, redaction::Redaction, stdio::StdioWire};

/// An agreed connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) wire: Wire,
    pub(crate) peer: Peer,
}

/// What carries it.
#[derive(Debug)]
pub(crate) enum Wire {
    /// A child's standard streams.
    Stdio(StdioWire),
    /// HTTP requests.
    Http(Box<HttpWire>),
}

/// A request, ready to leave.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    /// Ours, unique over all connections of an upstream.
    pub(crate) id: i64,
    pub(crate) method: &'static str,
    /// The tool of a call.
    pub(crate) name: Option<&'a str>,
    /// What the version header says; none before the legacy handshake.
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) body: Vec<u8>,
}

/// On what terms a request is made.
#[derive(Debug)]
pub(crate) struct Terms {
    /// When waiting ends; never for a subscription.
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: CancellationToken,
    pub(crate) when_cancelled: WhenCancelled,
    pub(crate) progress: Option<RemarkSink>,
    /// Whether the server is told when nobody waits any more. A handshake must not be cancelled.
    pub(crate) tell_server: bool,
}

/// What a cancellation does to a request that has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenCancelled {
    /// Nothing can have changed: stop.
    Abandon,
    /// Something may have changed: read to the end, so that it can be recorded.
    ReadOn,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Ended {
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
}

/// Why and when a connection went, told once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Departure {
    token: CancellationToken,
    why: std::sync::Arc<OnceLock<Gone>>,
}

/// Why a connection went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It broke.
    Broke {
        /// How.
        why: String,
    },
    /// What was agreed does not hold any more; a new agreement can be had at once.
    Disowned,
}

/// How much of a server's error message is kept.
const MESSAGE_CHARS_MAX: usize = 4096;

impl Terms {
    /// The terms of a handshake or a tool list.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            cancel: CancellationToken::new(),
            when_cancelled: WhenCancelled::Abandon,
            progress: None,
            tell_server: false,
        }
    }

    /// Waits for the deadline, for ever if there is none. Cancel safe.
    pub(crate) async fn deadline_passed(&self) {
        match self.deadline {
            // A timer sleeps for its granularity at least, and in that time a request would leave.
            Some(deadline) if deadline <= Instant::now() => {}
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

impl Departure {
    /// Tells that the connection is gone. The first reason stays.
    pub(crate) fn tell(&self, gone: Gone) {
        let _ = self.why.set(gone);
        self.token.cancel();
    }

    pub(crate) fn is_told(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until it is told. Cancel safe.
    pub(crate) async fn told(&self) -> Gone {
        self.token.cancelled().await;
        self.why.get().cloned().unwrap_or(Gone::Broke { why: "it was closed".to_owned() })
    }
}

impl Link {
    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) async fn exchange(&self, request: Outgoing<'_>, terms: Terms) -> Ended {
        self.wire.exchange(request, terms).await
    }

    /// Told when the connection is gone.
    pub(crate) fn departure(&self) -> &Departure {
        match &self.wire {
            Wire::Stdio(wire) => wire.departure(),
            Wire::Http(wire) => wire.departure(),
        }
    }
}

impl Wire {
    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) async fn exchange(&self, request: Outgoing<'_>, terms: Terms) -> Ended {
        match self {
            Self::Stdio(wire) => wire.exchange(request, terms).await,
            Self::Http(wire) => Box::pin(wire.exchange(request, terms)).await,
        }
    }

    /// Sends a notification, or says why it could not be sent.
    pub(crate) async fn notify(&self, body: Vec<u8>, version: ProtocolVersion, until: Instant) -> Result<(), String> {
        match self {
            Self::Stdio(wire) => wire.notify(body, until).await,
            Self::Http(wire) => Box::pin(wire.notify(body, version, until)).await,
        }
    }

    /// Ends the connection and everything behind it.
    pub(crate) async fn close(&self) {
        match self {
            Self::Stdio(wire) => wire.close().await,
            Self::Http(wire) => wire.close().await,
        }
    }
}

/// The answer to a request that a server makes: nothing is offered to servers but a sign of life.
pub(crate) fn answer_to_server(id: &Id, method: &str) -> Vec<u8> {
    if method == method::PING {
        return response(id, "{}");
    }
    failure(Some(id), &RpcError::new(code::METHOD_NOT_FOUND, "Servanda offers nothing to servers"))
}

/// The token of a progress notification, if it is one of ours.
pub(crate) fn progress_token(params: &RawValue) -> Option<i64> {
    #[derive(Deserialize)]
    struct Token<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: &'a RawValue,
    }
    serde_json::from_str::<Token<'_>>(params.get()).ok()?.token.get().parse().ok()
}

/// A server's error as a failure of ours.
pub(crate) fn rejected(error: RpcError, redaction: &Redaction) -> PerformFailure {
    let message: String = redaction.remove(&error.message).chars().take(MESSAGE_CHARS_MAX).collect();
    PerformFailure::Rejected { code: error.code, message, data: error.data.map(|data| redaction.remove_in_json(data)) }
}
