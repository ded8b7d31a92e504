//! One agreed connection to a server, whatever carries it: what can be asked on it, on which terms, and how asking ends.

use std::{
    ops::Range,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use hyper::header::HeaderMap;
use servanda_mcp::{Era, ProtocolVersion, RpcError, shape};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Behalf, Errand, Lease, PerformFailure, Rejection,
    conversation::{Audience, Conversations},
    handshake::Peer,
    http::{EventWire, HttpWire},
    overtime::Overtime,
    patience::Patience,
    redaction::Redaction,
    stdio::StdioWire,
};

/// An agreed connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) wire: Wire,
    pub(crate) peer: Peer,
    /// Its number, unlike that of any other connection of the upstream.
    pub(crate) edition: u64,
    /// Whether somebody has judged what the server offers on it.
    judged: AtomicBool,
}

/// What carries it.
#[derive(Debug)]
pub(crate) enum Wire {
    /// A child's standard streams.
    Stdio(StdioWire),
    /// HTTP requests.
    Http(Box<HttpWire>),
    /// The HTTP transport of 2024-11-05: one stream of events, and requests beside it.
    Events(EventWire),
}

/// A request, ready to leave.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
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
    pub(crate) errand: Option<Errand>,
    /// Headers that are shown.
    pub(crate) shown: HeaderMap,
}

/// On what terms a request is made.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// How long it is waited for.
    pub(crate) patience: Patience,
    pub(crate) cancel: CancellationToken,
    pub(crate) when_cancelled: WhenCancelled,
    /// Who hears what is said about it.
    pub(crate) audience: Audience,
    /// Whether the server is told when nobody waits any more. A handshake must not be cancelled.
    pub(crate) tell_server: bool,
    /// Under which lease its bytes may leave, if they need one.
    pub(crate) lease: Option<Lease>,
    /// For which user; none is the gateway itself.
    pub(crate) behalf: Option<Behalf>,
    /// The time after the deadline, where the answer still matters.
    pub(crate) overtime: Option<Arc<Overtime>>,
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
    /// The server did not let it in with what it was shown. Only where something was.
    NotLetIn {
        /// The same as a failure.
        failure: PerformFailure,
        /// What it says.
        rejection: Rejection,
    },
}

/// A request under way. Boxed, so that the waiting future is not as large as the largest of the connections.
pub(crate) type Exchange<'a> = Pin<Box<dyn Future<Output = Ended> + Send + 'a>>;

/// Why and when a connection went, told once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Departure {
    token: CancellationToken,
    why: Arc<OnceLock<Gone>>,
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

impl<'a> Outgoing<'a> {
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
            errand: None,
            shown: HeaderMap::new(),
        }
    }

    /// The same about something that has a name.
    pub(crate) fn about(self, name: Option<&'a str>, param_headers: &'a [(String, String)]) -> Self {
        Self { name, param_headers, ..self }
    }

    /// The same with a key in a header.
    pub(crate) fn keyed(self, key_header: Option<&'a (String, String)>) -> Self {
        Self { key_header, ..self }
    }
}

impl Terms {
    /// The terms of a handshake.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            patience: Patience::until(deadline),
            cancel: CancellationToken::new(),
            when_cancelled: WhenCancelled::Abandon,
            audience: Audience::Nobody,
            tell_server: false,
            lease: None,
            behalf: None,
            overtime: None,
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
    /// Agreed, and judged by nobody yet.
    pub(crate) fn new(wire: Wire, peer: Peer, edition: u64) -> Self {
        Self { wire, peer, edition, judged: AtomicBool::new(false) }
    }

    /// Takes note of whether somebody has judged what the server offers on it.
    pub(crate) fn set_judged(&self, judged: bool) {
        self.judged.store(judged, Ordering::Release);
    }

    /// Whether somebody has.
    pub(crate) fn is_judged(&self) -> bool {
        self.judged.load(Ordering::Acquire)
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) fn exchange<'a>(&'a self, request: Outgoing<'a>, terms: Terms) -> Exchange<'a> {
        self.wire.exchange(request, terms)
    }

    /// Told when the connection is gone.
    pub(crate) fn departure(&self) -> &Departure {
        match &self.wire {
            Wire::Stdio(wire) => wire.departure(),
            Wire::Http(wire) => wire.departure(),
            Wire::Events(wire) => wire.departure(),
        }
    }

    /// Whether the server may still be at something that nobody waits for.
    pub(crate) fn haunted(&self) -> bool {
        self.wire.conversations().haunted()
    }

    /// Whether the client is being asked something.
    pub(crate) fn asks(&self) -> bool {
        self.wire.conversations().asks()
    }

    /// Waits until a server that was taken for a legacy one has said, too late, that it is modern. Cancel safe.
    pub(crate) async fn known_better(&self) {
        match &self.wire {
            Wire::Stdio(wire) => wire.signs().late_told().await,
            Wire::Http(_) | Wire::Events(_) => std::future::pending().await,
        }
    }

    /// Says something that nobody waits for, if there is room for it now.
    pub(crate) fn say(&self, body: Vec<u8>) {
        self.wire.conversations().mouth().say_if_room(body);
    }
}

impl Wire {
    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) fn exchange<'a>(&'a self, request: Outgoing<'a>, terms: Terms) -> Exchange<'a> {
        match &self.conversations().setting().credentials {
            None => self.exchange_once(request, terms),
            Some(credentials) => Box::pin(self.exchange_showing(credentials, request, terms)),
        }
    }

    /// The same with nothing but what the request has.
    pub(crate) fn exchange_once<'a>(&'a self, request: Outgoing<'a>, terms: Terms) -> Exchange<'a> {
        match self {
            Self::Stdio(wire) => Box::pin(wire.exchange(request, terms)),
            Self::Http(wire) => Box::pin(wire.exchange(request, terms)),
            Self::Events(wire) => Box::pin(wire.exchange(request, terms)),
        }
    }

    /// Sends a notification, or says why it could not be sent.
    pub(crate) async fn notify(&self, body: Vec<u8>, until: Instant) -> Result<(), String> {
        match self {
            Self::Stdio(wire) => wire.notify(body, until).await,
            Self::Http(wire) => Box::pin(wire.notify(body, until)).await,
            Self::Events(wire) => wire.notify(body, until).await,
        }
    }

    /// From now on this version is spoken.
    pub(crate) fn agree(&self, version: ProtocolVersion) {
        self.conversations().agree(version.era());
        if let Self::Http(wire) = self {
            wire.agree(version);
        }
    }

    /// Ends the connection and everything behind it.
    pub(crate) async fn close(&self) {
        match self {
            Self::Stdio(wire) => wire.close().await,
            Self::Http(wire) => wire.close().await,
            Self::Events(wire) => wire.close(),
        }
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        match self {
            Self::Stdio(wire) => wire.conversations(),
            Self::Http(wire) => wire.conversations(),
            Self::Events(wire) => wire.conversations(),
        }
    }
}

/// A server's error as a failure of ours.
pub(crate) fn rejected(error: RpcError, era: Era, redaction: &Redaction) -> PerformFailure {
    let message: String = redaction.remove(&error.message).chars().take(MESSAGE_CHARS_MAX).collect();
    // Data that two readers could read differently is dropped; the code and the message say enough.
    let data = error.data.filter(|data| match shape::inspect(data.get().as_bytes()) {
        Ok(()) => true,
        Err(fault) => {
            tracing::warn!(code = error.code, %fault, "the data of an upstream's error is dropped");
            false
        }
    });
    let data = data.map(|data| redaction.remove_in_json(data));
    PerformFailure::Rejected { code: error.code, message, data, era }
}
