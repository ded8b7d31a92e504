//! Who receives what a server says about a request besides its answer. The conversations find the recipient.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::ServerMessageSink;

/// Who receives what is said about a request.
#[derive(Debug, Clone)]
pub(crate) enum RequestAudience {
    /// No client: the gateway made the request on its own account, and it contains nothing from a client.
    Nobody,
    /// No client, although a client made the request: a message of the server may be about it.
    Muted {
        /// Whether a modern server was asked for its log.
        wants_log: bool,
    },
    /// The client that made it.
    Caller(CallerSink),
    /// The request is a subscription; its signals go here.
    Subscription(mpsc::Sender<SubscriptionSignal>),
}

/// A caller that receives what is said about its request.
#[derive(Debug, Clone)]
pub(crate) struct CallerSink {
    pub(crate) sink: Arc<dyn ServerMessageSink>,
    pub(crate) wants_progress: bool,
    /// Whether a modern server was asked for its log.
    pub(crate) wants_log: bool,
}

/// What a subscription learns about itself.
#[derive(Debug)]
pub(crate) enum SubscriptionSignal {
    /// What the server granted: the raw `notifications`.
    Acknowledged(Box<RawValue>),
    /// The server ended it.
    Ended,
}
