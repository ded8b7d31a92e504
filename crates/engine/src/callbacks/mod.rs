//! Callbacks: signed messages to receivers outside that tell them how long work ended. Each is delivered at least once, even if this
//! process dies.
//!
//! A note to deliver is stored in the same commit as the end itself (`outbox`). The pure function `after_attempt` decides what follows an
//! attempt (`delivery`). Deliberately not here: making the attempts (`deferred::callback_delivery`), sockets, and what a receiver does
//! with an event that it gets twice; both copies have the same id.

mod delivery;
mod event;
mod outbox;
mod signature;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use servanda_effects::{PortFuture, effect::EffectEnding};
use servanda_upstream::{WebhookAddress, WebhookClient, WebhookMessage, WebhookResponse, WebhookSendError};

pub use delivery::{ANSWER_MS_MAX, CallbackDelivery, deliveries};
pub use outbox::CallbackNotices;
pub use signature::{SigningSecret, SigningSecretError};

pub(crate) use delivery::{CallbackRetryPolicy, DeliveryStep, DeliveryTurn, PAGE, after_attempt};
pub(crate) use outbox::CallbackOutbox;

/// A receiver of callbacks, as the operator configured it.
#[derive(Debug, Clone)]
pub struct Callback {
    /// Which ends are sent to it.
    pub subscription: CallbackSubscription,
    /// Where they are sent.
    pub address: WebhookAddress,
    /// The secret that signs them.
    pub secret: SigningSecret,
}

/// Which ends a receiver wants to know: enough to store an event for it, but not enough to send the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackSubscription {
    /// The callback's name, which is part of every note about it.
    pub name: String,
    /// The ends that it wants.
    pub on: BTreeSet<EffectEnding>,
    /// The tools that it wants, by exposed names in which `*` stands for anything. If there are none, it wants every long-running tool.
    pub tools: Vec<String>,
}

/// All configured callbacks.
#[derive(Debug, Clone, Default)]
pub struct Callbacks(Vec<Callback>);

/// Sends messages to receivers. A port: tests have their own implementation.
pub trait CallbackTransport: Send + Sync + fmt::Debug {
    /// Sends a message once.
    fn post<'a>(
        &'a self,
        to: &'a WebhookAddress,
        letter: WebhookMessage,
    ) -> PortFuture<'a, Result<WebhookResponse, WebhookSendError>>;
}

impl CallbackTransport for WebhookClient {
    fn post<'a>(
        &'a self,
        to: &'a WebhookAddress,
        letter: WebhookMessage,
    ) -> PortFuture<'a, Result<WebhookResponse, WebhookSendError>> {
        Box::pin(self.send(to, letter))
    }
}

impl Callbacks {
    /// The callbacks of a configuration. Their names must differ.
    pub fn new(callbacks: Vec<Callback>) -> Self {
        Self(callbacks)
    }

    /// All callbacks.
    pub fn iter(&self) -> impl Iterator<Item = &Callback> {
        self.0.iter()
    }

    /// Finds a callback by its name.
    pub fn find(&self, name: &str) -> Option<&Callback> {
        self.0.iter().find(|callback| callback.subscription.name == name)
    }

    /// The subscriptions of all callbacks.
    pub fn subscriptions(&self) -> Vec<&CallbackSubscription> {
        self.0.iter().map(|callback| &callback.subscription).collect()
    }
}

impl CallbackSubscription {
    /// Whether the receiver wants to know of such an end.
    pub(crate) fn wants(&self, tool: &str, is_long: bool, ending: EffectEnding) -> bool {
        let of_tool =
            if self.tools.is_empty() { is_long } else { self.tools.iter().any(|pattern| matches(pattern, tool)) };
        of_tool && self.on.contains(&ending)
    }
}

impl Callback {
    /// A signed message that only says that it is a test.
    pub fn test_letter(&self, id: &str, now: servanda_contract::Timestamp) -> WebhookMessage {
        self.letter(id, &event::test_body(now), now)
    }

    /// Signs a message.
    pub(crate) fn letter(&self, id: &str, body: &str, now: servanda_contract::Timestamp) -> WebhookMessage {
        let timestamp_sec = now.unix_ms() / 1_000;
        let headers = vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp_sec.to_string()),
            ("webhook-signature", self.secret.sign(id, timestamp_sec, body)),
        ];
        WebhookMessage { headers, body: bytes::Bytes::copy_from_slice(body.as_bytes()) }
    }
}

/// Whether a name matches a pattern. Each piece is matched at its first occurrence, which leaves the most room for the rest.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(found) = rest.find(piece) else { return false };
        rest = rest.get(found + piece.len()..).unwrap_or_default();
    }
    true
}
