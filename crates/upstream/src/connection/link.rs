//! One established connection to a server, over any transport. [`crate::request`] knows what a request is and how it ends.

mod with_credentials;

use std::sync::atomic::{AtomicBool, Ordering};

use servanda_mcp::ProtocolVersion;
use tokio::time::Instant;

use crate::{
    conversation::{Conversations, loss::ConnectionLoss},
    eras::handshake::UpstreamPeer,
    http::{EventWire, HttpWire},
    request::{ExchangeFuture, WireRequest, WireRequestTerms},
    stdio::StdioWire,
};

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) wire: Wire,
    pub(crate) peer: UpstreamPeer,
    /// Its number, unique among the upstream's connections.
    pub(crate) edition: u64,
    /// Whether the engine has judged what the server offers on this connection.
    judged: AtomicBool,
}

/// The transport.
#[derive(Debug)]
pub(crate) enum Wire {
    /// A child's standard streams.
    Stdio(StdioWire),
    /// HTTP requests.
    Http(Box<HttpWire>),
    /// The HTTP transport of 2024-11-05: one stream of events, and requests beside it.
    Events(EventWire),
}

impl Link {
    /// The handshake is done; the engine has not judged the server's offer yet.
    pub(crate) fn new(wire: Wire, peer: UpstreamPeer, edition: u64) -> Self {
        Self { wire, peer, edition, judged: AtomicBool::new(false) }
    }

    /// Sets whether the engine has judged what the server offers on this connection.
    pub(crate) fn set_judged(&self, judged: bool) {
        self.judged.store(judged, Ordering::Release);
    }

    /// Whether the engine has judged it.
    pub(crate) fn is_judged(&self) -> bool {
        self.judged.load(Ordering::Acquire)
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) fn exchange<'a>(&'a self, request: WireRequest<'a>, terms: WireRequestTerms) -> ExchangeFuture<'a> {
        self.wire.exchange(request, terms)
    }

    /// Reports when the connection is lost.
    pub(crate) fn loss(&self) -> &ConnectionLoss {
        match &self.wire {
            Wire::Stdio(wire) => wire.loss(),
            Wire::Http(wire) => wire.loss(),
            Wire::Events(wire) => wire.loss(),
        }
    }

    /// Whether the server may still work on a request that was given up.
    pub(crate) fn has_abandoned_request(&self) -> bool {
        self.wire.conversations().has_abandoned_request()
    }

    /// Whether the client is being asked something.
    pub(crate) fn is_asking_client(&self) -> bool {
        self.wire.conversations().is_asking_client()
    }

    /// Waits until a server that was taken for a legacy one says, too late, that it is modern. Cancel safe.
    pub(crate) async fn found_modern(&self) {
        match &self.wire {
            Wire::Stdio(wire) => wire.signals().wait_for_late_peer().await,
            Wire::Http(_) | Wire::Events(_) => std::future::pending().await,
        }
    }

    /// Sends a notification if there is room for it now; otherwise drops it.
    pub(crate) fn notify_if_room(&self, body: Vec<u8>) {
        self.wire.conversations().server_outbox().send_if_room(body);
    }
}

impl Wire {
    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) fn exchange<'a>(&'a self, request: WireRequest<'a>, terms: WireRequestTerms) -> ExchangeFuture<'a> {
        match &self.conversations().context().credentials {
            None => self.exchange_once(request, terms),
            Some(credentials) => Box::pin(self.exchange_with_credentials(credentials, request, terms)),
        }
    }

    /// Makes a request without adding credentials.
    pub(crate) fn exchange_once<'a>(&'a self, request: WireRequest<'a>, terms: WireRequestTerms) -> ExchangeFuture<'a> {
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

    /// From now on the connection uses this version.
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
