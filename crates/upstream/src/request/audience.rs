//! Who hears what a server says about a request besides its answer. How that is found out is the conversations' business.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::Bystander;

/// Who hears what is said about a request.
#[derive(Debug, Clone)]
pub(crate) enum Audience {
    /// Nobody: the gateway made it on its own account, and nothing of a client's is in it.
    Nobody,
    /// No client, although a client made the request: what the server says may be about it.
    Deaf {
        /// Whether a modern server was asked for its log.
        wants_log: bool,
    },
    /// The client that made it.
    Caller(Caller),
    /// The subscription that the request is.
    Listener(mpsc::Sender<Heard>),
}

/// A caller who hears what is said about its request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) sink: Arc<dyn Bystander>,
    pub(crate) wants_progress: bool,
    /// Whether a modern server was asked for its log.
    pub(crate) wants_log: bool,
}

/// What a subscription hears about itself.
#[derive(Debug)]
pub(crate) enum Heard {
    /// What the server granted: the raw `notifications`.
    Acknowledged(Box<RawValue>),
    /// The server ended it.
    Ended,
}
