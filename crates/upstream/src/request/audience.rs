//! Who hears what a server says about a request besides its answer. How that is found out is the conversations' business.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::ServerMessageSink;

/// Who hears what is said about a request.
#[derive(Debug, Clone)]
pub(crate) enum RequestAudience {
    /// Nobody: the gateway made it on its own account, and nothing of a client's is in it.
    Nobody,
    /// No client, although a client made the request: what the server says may be about it.
    Muted {
        /// Whether a modern server was asked for its log.
        wants_log: bool,
    },
    /// The client that made it.
    Caller(CallerSink),
    /// The subscription that the request is.
    Subscription(mpsc::Sender<SubscriptionSignal>),
}

/// A caller who hears what is said about its request.
#[derive(Debug, Clone)]
pub(crate) struct CallerSink {
    pub(crate) sink: Arc<dyn ServerMessageSink>,
    pub(crate) wants_progress: bool,
    /// Whether a modern server was asked for its log.
    pub(crate) wants_log: bool,
}

/// What a subscription hears about itself.
#[derive(Debug)]
pub(crate) enum SubscriptionSignal {
    /// What the server granted: the raw `notifications`.
    Acknowledged(Box<RawValue>),
    /// The server ended it.
    Ended,
}
