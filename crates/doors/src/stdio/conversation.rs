//! One client's conversation: what it has said so far decides what its next message means.

use std::{collections::BTreeMap, io, pin::pin, sync::Arc, time::Duration};

use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_engine::Gateway;
use servanda_mcp::{EnvelopeError, Era, Id, Message, envelope::code, fields::method};
use tokio::{
    io::AsyncRead,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::lines::{Line, Lines};
use crate::{
    call::{CallEvent, RunningCall},
    client,
    dispatch::{Desk, Peer, Reply, Request, duplicate_id},
    era,
    fault::Fault,
    in_flight::{Entry, InFlight},
    listen::{self, Subscription},
    options::StdioOptions,
    params::Params,
    splice,
};

/// The state of a connection.
pub(super) struct Conversation<G> {
    desk: Desk<G>,
    options: StdioOptions,
    output: mpsc::Sender<Vec<u8>>,
    in_flight: Arc<InFlight>,
    subscriptions: BTreeMap<Id, (Subscription, Entry)>,
    calls: JoinSet<()>,
    /// Calls that still run are not waited for any longer.
    give_up: CancellationToken,
    handshake: Handshake,
    changes: watch::Receiver<u64>,
}

/// How far the legacy handshake has come. Modern requests need none.
#[derive(Debug)]
enum Handshake {
    None,
    Answered { client: Option<String> },
    Completed { client: Option<String> },
}

/// The client stopped reading.
struct Unheard;

impl<G: Gateway> Conversation<G> {
    pub(super) fn new(gateway: Arc<G>, options: StdioOptions, output: mpsc::Sender<Vec<u8>>) -> Self {
        let mut changes = gateway.changes();
        changes.mark_unchanged();
        Self {
            desk: Desk::new(gateway, &options.server, options.page_size, options.calls_in_flight_max),
            options,
            output,
            in_flight: Arc::default(),
            subscriptions: BTreeMap::new(),
            calls: JoinSet::new(),
            give_up: CancellationToken::new(),
            handshake: Handshake::None,
            changes,
        }
    }

    /// Listens to the end of the input, then lets the calls finish.
    pub(super) async fn run(mut self, input: impl AsyncRead, shutdown: CancellationToken) -> io::Result<()> {
        let input = pin!(input);
        let mut lines = Lines::new(input, self.options.line_bytes_max);
        let ended = loop {
            let heard = tokio::select! {
                () = shutdown.cancelled() => break Ok(()),
                () = self.output.closed() => break Ok(()),
                () = listen::changed(&mut self.changes) => self.tell_of_change().await,
                Some(_) = self.calls.join_next() => Ok(()),
                line = lines.next() => match line {
                    Ok(Some(line)) => self.hear(line).await,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                },
            };
            if heard.is_err() {
                break Ok(());
            }
        };
        self.say_goodbye().await;
        ended
    }

    async fn say_goodbye(mut self) {
        for (subscription, _) in std::mem::take(&mut self.subscriptions).into_values() {
            if self.say(subscription.farewell()).await.is_err() {
                return;
            }
        }
        let drain_max = Duration::from_millis(self.options.drain_ms_max);
        let (give_up, gone) = (self.give_up.clone(), self.output.clone());
        let finished = async {
            let in_time = async { while self.calls.join_next().await.is_some() {} };
            if tokio::time::timeout(drain_max, in_time).await.is_err() {
                give_up.cancel();
                while self.calls.join_next().await.is_some() {}
            }
        };
        tokio::select! {
            () = finished => {}
            () = gone.closed() => {}
        }
    }

    async fn tell_of_change(&mut self) -> Result<(), Unheard> {
        if matches!(self.handshake, Handshake::Completed { .. }) {
            self.say(listen::legacy_list_changed()).await?;
        }
        for (subscription, _) in self.subscriptions.values().filter(|(wanted, _)| wanted.tools_list_changed) {
            self.say(subscription.list_changed()).await?;
        }
        Ok(())
    }

    async fn hear(&mut self, line: Line) -> Result<(), Unheard> {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(beginning) if looks_like_object(&beginning) => {
                let message = format!("the message is longer than {} bytes", self.options.line_bytes_max);
                let fault = Fault::new(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, message);
                return self.say(fault.message(None)).await;
            }
            Line::TooLong(_) => return Ok(()),
        };
        match Message::parse(&line) {
            Ok(Message::Request { id, method, params }) => match self.answer(&id, &method, params, &line).await {
                Ok(Some(message)) => self.say(message).await,
                Ok(None) => Ok(()),
                Err(fault) => self.say(fault.message(Some(&id))).await,
            },
            Ok(Message::Notification { method, params }) => {
                self.take_note(&method, params);
                Ok(())
            }
            Err(error) if deserves_answer(&line, &error) => {
                let id = match &error {
                    EnvelopeError::NotAMessage { id, .. } => id.as_ref(),
                    EnvelopeError::NotJson(_) => None,
                };
                self.say(Fault::envelope(&error).message(id)).await
            }
            Ok(Message::Response { .. } | Message::Failure { .. }) | Err(_) => Ok(()),
        }
    }

    /// The answer, where there is one at once.
    async fn answer(
        &mut self,
        id: &Id,
        method: &str,
        params: Option<&RawValue>,
        source: &Bytes,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let params = Params::parse(params)?;
        let meta = params.meta()?;
        let era = era::era_of(method, &meta, None);
        let request = Request { id, method: method.into(), params, meta, era, source, trace_parent: None };
        let client = match era {
            Era::Modern => {
                era::require_modern(&era::requested_version(&request.meta)?)?;
                client::client_name(request.meta.client_info)
            }
            Era::Legacy => self.legacy_client(method)?,
        };
        let peer = Peer { client, session: None, in_flight: Some(Arc::clone(&self.in_flight)) };
        match self.desk.answer(&request, &peer).await? {
            Reply::Result(result) => Ok(Some(splice::response(id, &result))),
            Reply::Welcome { result, client } => {
                self.handshake = Handshake::Answered { client };
                Ok(Some(splice::response(id, &result)))
            }
            Reply::Call(call) => {
                self.calls.spawn(relay(call, self.output.clone(), self.give_up.clone()));
                Ok(None)
            }
            Reply::Listen(subscription) => self.subscribe(id, subscription).map(Some),
        }
    }

    fn legacy_client(&self, method: &str) -> Result<Option<String>, Fault> {
        match &self.handshake {
            Handshake::Answered { client } | Handshake::Completed { client } => Ok(client.clone()),
            Handshake::None if matches!(method, method::INITIALIZE | method::PING) => Ok(None),
            Handshake::None => {
                Err(Fault::invalid_request(StatusCode::BAD_REQUEST, "the connection is not initialized").hint(
                    "send `initialize` first, or name the protocol version 2026-07-28 in `_meta` of every request",
                ))
            }
        }
    }

    fn subscribe(&mut self, id: &Id, subscription: Subscription) -> Result<Vec<u8>, Fault> {
        if self.subscriptions.len() >= self.options.subscriptions_max {
            return Err(Fault::busy("too many subscriptions are open", "cancel one that is not needed any more"));
        }
        let entry = self.in_flight.enter(id, &CancellationToken::new()).ok_or_else(duplicate_id)?;
        let acknowledgement = subscription.acknowledgement();
        self.subscriptions.insert(id.clone(), (subscription, entry));
        Ok(acknowledgement)
    }

    /// A notification that says nothing we understand is no reason to say anything back.
    fn take_note(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            method::INITIALIZED => {
                if let Handshake::Answered { client } = &mut self.handshake {
                    self.handshake = Handshake::Completed { client: client.take() };
                }
            }
            method::CANCELLED => {
                let id = Params::parse(params).ok().and_then(|params| params.request_id);
                if let Some(id) = id.and_then(|raw| serde_json::from_str::<Id>(raw.get()).ok()) {
                    self.subscriptions.remove(&id);
                    self.in_flight.cancel(&id);
                }
            }
            _ => {}
        }
    }

    async fn say(&self, message: Vec<u8>) -> Result<(), Unheard> {
        self.output.send(message).await.map_err(|_| Unheard)
    }
}

/// Passes on what a call has to say, for as long as it is wanted and heard.
async fn relay(mut call: Box<RunningCall>, output: mpsc::Sender<Vec<u8>>, give_up: CancellationToken) {
    loop {
        let event = tokio::select! {
            biased;
            event = call.next() => event,
            () = give_up.cancelled() => CallEvent::Answered(call.end_unknown()),
        };
        let (message, last) = match event {
            CallEvent::Progress(message) => (message, false),
            CallEvent::Answered(message) => (message, true),
            CallEvent::Cancelled => return,
        };
        if output.send(message).await.is_err() || last {
            return;
        }
    }
}

/// Whether a line that is not a message is answered: only what was meant as a request may be.
fn deserves_answer(line: &[u8], error: &EnvelopeError) -> bool {
    /// What a response has and a request has not.
    #[derive(serde::Deserialize)]
    struct Kind {
        method: Option<serde::de::IgnoredAny>,
        result: Option<serde::de::IgnoredAny>,
        error: Option<serde::de::IgnoredAny>,
    }
    if line.trim_ascii_start().starts_with(b"[") {
        let batch: Vec<&RawValue> = serde_json::from_slice(line).unwrap_or_default();
        return batch.iter().any(|raw| matches!(Message::parse(raw.get().as_bytes()), Ok(Message::Request { .. })));
    }
    let response = matches!(error, EnvelopeError::NotAMessage { .. })
        && serde_json::from_slice::<Kind>(line)
            .is_ok_and(|kind| kind.method.is_none() && (kind.result.is_some() || kind.error.is_some()));
    looks_like_object(line) && !response
}

fn looks_like_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{")
}
