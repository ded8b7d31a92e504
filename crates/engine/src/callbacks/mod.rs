//! Callbacks: messages to receivers outside that tell them how long work ended, or that a call waits for people. Each is delivered at least
//! once, even if this process dies.
//!
//! A note to deliver is stored in the same commit as the end itself (`outbox`), or before the ticket says that people were told
//! (`ticket_notices`). The pure function `after_attempt` decides what follows an
//! attempt (`delivery`). Deliberately not here: making the attempts (`deferred::callback_delivery`), sockets, and what a receiver does
//! with an event that it gets twice; both copies have the same id.

mod delivery;
mod event;
mod outbox;
mod signature;
#[cfg(test)]
mod tests;
mod ticket_events;
mod ticket_notices;

use std::{collections::BTreeSet, fmt};

use servanda_contract::Timestamp;
use servanda_effects::{PortFuture, effect::EffectEnding};
use servanda_upstream::{WebhookAddress, WebhookClient, WebhookMessage, WebhookResponse, WebhookSendError};

pub use delivery::{ANSWER_MS_MAX, CallbackDelivery, deliveries};
pub use outbox::CallbackNotices;
pub use signature::{SigningSecret, SigningSecretError};
pub use ticket_events::WebhookFormat;
pub use ticket_notices::ApprovalWebhook;

pub(crate) use delivery::{CallbackRetryPolicy, DeliveryStep, DeliveryTurn, PAGE, after_attempt};
pub(crate) use outbox::CallbackOutbox;
pub(crate) use ticket_notices::TicketCallbacks;

/// A receiver of callbacks, as the operator configured it.
#[derive(Debug, Clone)]
pub struct Callback {
    /// Which ends are sent to it.
    pub subscription: CallbackSubscription,
    /// Where they are sent, and what signs them.
    pub receiver: WebhookReceiver,
}

/// Where messages are sent.
#[derive(Debug, Clone)]
pub struct WebhookReceiver {
    /// The address.
    pub address: WebhookAddress,
    /// The secret that signs messages. Only messages for a chat may have none: there the address is the secret.
    pub secret: Option<SigningSecret>,
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

/// All configured receivers. Their names differ.
#[derive(Debug, Clone, Default)]
pub struct Callbacks {
    of_calls: Vec<Callback>,
    of_approvals: Vec<ApprovalWebhook>,
}

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
    /// The receivers of a configuration. Their names must differ.
    pub fn new(of_calls: Vec<Callback>, of_approvals: Vec<ApprovalWebhook>) -> Self {
        Self { of_calls, of_approvals }
    }

    /// Finds a receiver by its name.
    pub fn find(&self, name: &str) -> Option<&WebhookReceiver> {
        let of_call = self.of_calls.iter().find(|callback| callback.subscription.name == name);
        let of_approval = || self.of_approvals.iter().find(|webhook| webhook.name == name);
        of_call.map(|callback| &callback.receiver).or_else(|| of_approval().map(|webhook| &webhook.receiver))
    }

    /// A message to a receiver that only says that it is a test, in the receiver's format.
    pub fn test_letter(&self, name: &str, id: &str, now: Timestamp) -> Option<WebhookMessage> {
        let webhook = self.of_approvals.iter().find(|webhook| webhook.name == name);
        let body =
            webhook.map_or_else(|| event::test_body(now), |webhook| ticket_events::test_body(webhook.format, now));
        self.find(name).map(|receiver| receiver.letter(id, &body, now))
    }

    /// The subscriptions of all callbacks.
    pub fn subscriptions(&self) -> Vec<&CallbackSubscription> {
        self.of_calls.iter().map(|callback| &callback.subscription).collect()
    }

    /// The receivers of notices about tickets.
    pub fn approval_webhooks(&self) -> &[ApprovalWebhook] {
        &self.of_approvals
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

impl WebhookReceiver {
    /// A message, signed if there is a secret.
    pub(crate) fn letter(&self, id: &str, body: &str, now: Timestamp) -> WebhookMessage {
        let timestamp_sec = now.unix_ms() / 1_000;
        let mut headers = vec![("webhook-id", id.to_owned()), ("webhook-timestamp", timestamp_sec.to_string())];
        if let Some(secret) = &self.secret {
            headers.push(("webhook-signature", secret.sign(id, timestamp_sec, body)));
        }
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
