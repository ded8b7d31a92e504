//! Callbacks: telling somebody outside how long work ended, signed, at least once, whatever happens to this process.
//!
//! The intent to tell is a note that is written with the end itself (`outbox`); a pure `step` says what follows on an attempt
//! (`delivery`). Deliberately not here: the shell that makes the attempts (`deferred::callback_delivery`), sockets, and what a receiver
//! does with an event that it gets twice, which has the same id both times.

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

/// Somebody who wants to be told, as the operator configured it.
#[derive(Debug, Clone)]
pub struct Callback {
    /// What it wants to be told.
    pub subscription: CallbackSubscription,
    /// Where it is told.
    pub address: WebhookAddress,
    /// What events are signed with.
    pub secret: SigningSecret,
}

/// What somebody wants to be told: enough to write an event down for them, and not enough to send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackSubscription {
    /// The callback's name, which is part of every note about it.
    pub name: String,
    /// Which ends.
    pub on: BTreeSet<EffectEnding>,
    /// Of which tools, by exposed names in which `*` stands for anything; every long one if none.
    pub tools: Vec<String>,
}

/// Everybody who wants to be told.
#[derive(Debug, Clone, Default)]
pub struct Callbacks(Vec<Callback>);

/// Carries what is to be told. A port: tests have a carrier of their own.
pub trait CallbackTransport: Send + Sync + fmt::Debug {
    /// Carries a letter once.
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
    /// All of a configuration; their names differ.
    pub fn new(callbacks: Vec<Callback>) -> Self {
        Self(callbacks)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Callback> {
        self.0.iter()
    }

    /// The one of that name.
    pub fn find(&self, name: &str) -> Option<&Callback> {
        self.0.iter().find(|callback| callback.subscription.name == name)
    }

    /// What they want to be told.
    pub fn subscriptions(&self) -> Vec<&CallbackSubscription> {
        self.0.iter().map(|callback| &callback.subscription).collect()
    }
}

impl CallbackSubscription {
    /// Whether it wants to be told of such an end.
    pub(crate) fn wants(&self, tool: &str, is_long: bool, ending: EffectEnding) -> bool {
        let of_tool =
            if self.tools.is_empty() { is_long } else { self.tools.iter().any(|pattern| matches(pattern, tool)) };
        of_tool && self.on.contains(&ending)
    }
}

impl Callback {
    /// A signed letter that says nothing but that it is a test.
    pub fn test_letter(&self, id: &str, now: servanda_contract::Timestamp) -> WebhookMessage {
        self.letter(id, &event::test_body(now), now)
    }

    /// A signed letter.
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

/// Whether a name is one of those that a pattern means. As long as pieces are taken where they are first found, the rest has
/// the most room.
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
