//! One client's conversation: what it has said so far decides what its next message means.

use std::{collections::BTreeMap, io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use serde_json::value::RawValue;
use servanda_contract::Caller;
use servanda_engine::{Gateway, Guest, News, Remark, local_authority};
use servanda_mcp::{
    ClientCapabilities, EnvelopeError, Era, Id, Message,
    envelope::{self, code},
    fields::method,
    lines::Line,
};
use tokio::{
    io::AsyncRead,
    sync::{broadcast, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    errands::{self, Done, Granted, Place},
    lines::LineReader,
    noise,
    options::StdioOptions,
    outlet::{Outlet, Unheard},
};
use crate::{
    client,
    dispatch::{Desk, Reply, Welcome, duplicate_id},
    era,
    fault::Fault,
    in_flight::InFlight,
    limits::DeskLimits,
    listen::Subscription,
    notifications::{self, Tidings},
    params::{CallMessage, Meta, Params},
    remarks::Relay,
    request::{Departure, Peer, Request},
    session::{Session, SessionLimits},
};

/// The state of a connection.
pub(super) struct Conversation<G: Gateway> {
    desk: Desk<G>,
    options: StdioOptions,
    output: mpsc::Sender<Vec<u8>>,
    in_flight: Arc<InFlight>,
    subscriptions: BTreeMap<Id, (Subscription, Place)>,
    /// Subscriptions that are being granted.
    granting: usize,
    /// Bounded by the requests and subscriptions there may be at once.
    errands: JoinSet<Done>,
    /// What still runs is not waited for any longer.
    give_up: CancellationToken,
    handshake: Handshake,
    news: broadcast::Receiver<News>,
    stay: Stay<G>,
}

/// How far the legacy handshake has come. Modern requests need none.
#[derive(Debug)]
enum Handshake {
    None,
    Answered(Legacy),
    Completed(Legacy),
}

/// A client that has shaken hands.
#[derive(Debug)]
struct Legacy {
    session: Arc<Session>,
    relay: Relay,
    /// What servers say to it outside any request.
    remarks: mpsc::Receiver<Remark>,
}

/// What holds a connection's requests together at the gateway, until this is dropped.
struct Stay<G: Gateway> {
    gateway: Arc<G>,
    affinity: Arc<str>,
}

impl<G: Gateway> Drop for Stay<G> {
    fn drop(&mut self) {
        self.gateway.leave(&self.affinity);
    }
}

impl<G: Gateway> Conversation<G> {
    pub(super) fn new(gateway: Arc<G>, options: StdioOptions, output: mpsc::Sender<Vec<u8>>) -> Self {
        let limits = DeskLimits {
            page_size: options.page_size,
            requests_in_flight_max: options.calls_in_flight_max,
            watches_max: options.watches_max,
            capabilities_bytes_max: options.capabilities_bytes_max,
            uri_bytes_max: options.uri_bytes_max,
        };
        Self {
            news: gateway.news(),
            stay: Stay { gateway: Arc::clone(&gateway), affinity: Uuid::new_v4().to_string().into() },
            desk: Desk::new(gateway, &options.server, limits),
            options,
            output,
            in_flight: Arc::default(),
            subscriptions: BTreeMap::new(),
            granting: 0,
            errands: JoinSet::new(),
            give_up: CancellationToken::new(),
            handshake: Handshake::None,
        }
    }

    /// Listens to the end of the input, then lets the requests finish.
    pub(super) async fn run(mut self, input: impl AsyncRead, shutdown: CancellationToken) -> io::Result<()> {
        let input = pin!(input);
        let mut lines = LineReader::new(input, self.options.line_bytes_max);
        let ended = loop {
            let heard = tokio::select! {
                () = shutdown.cancelled() => break Ok(()),
                () = self.output.closed() => break Ok(()),
                tidings = notifications::next(&mut self.news) => self.announce(&tidings).await,
                Some(remark) = self.handshake.next_remark() => self.pass_on(remark).await,
                Some(done) = self.errands.join_next() => self.finish(done.unwrap_or(Done::Nothing)).await,
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
            if self.say(subscription.farewell(&self.desk.greeting.meta_member)).await.is_err() {
                return;
            }
        }
        let drain_max = Duration::from_millis(self.options.drain_ms_max);
        let (give_up, gone) = (self.give_up.clone(), self.output.clone());
        let finished = async {
            let in_time = async { while self.errands.join_next().await.is_some() {} };
            if tokio::time::timeout(drain_max, in_time).await.is_err() {
                give_up.cancel();
                while self.errands.join_next().await.is_some() {}
            }
        };
        tokio::select! {
            () = finished => {}
            () = gone.closed() => {}
        }
    }

    async fn announce(&mut self, tidings: &Tidings) -> Result<(), Unheard> {
        if let Handshake::Completed(legacy) = &self.handshake {
            for message in legacy.session.announcements(tidings) {
                self.say(message).await?;
            }
        }
        for (subscription, _) in self.subscriptions.values() {
            for message in subscription.announcements(tidings) {
                self.say(message).await?;
            }
        }
        Ok(())
    }

    async fn pass_on(&mut self, remark: Remark) -> Result<(), Unheard> {
        match self.handshake.legacy_mut().and_then(|legacy| legacy.relay.pass(remark)) {
            Some(message) => self.say(message).await,
            None => Ok(()),
        }
    }

    async fn finish(&mut self, done: Done) -> Result<(), Unheard> {
        let Done::Grant(granted) = done else { return Ok(()) };
        self.granting = self.granting.saturating_sub(1);
        let Some(Granted { subscription, place }) = granted.map(|granted| *granted) else { return Ok(()) };
        if place.cancel.is_cancelled() {
            return Ok(());
        }
        let acknowledgement = subscription.acknowledgement();
        self.subscriptions.insert(subscription.id().clone(), (subscription, place));
        self.say(acknowledgement).await
    }

    async fn hear(&mut self, line: Line) -> Result<(), Unheard> {
        let line = match line {
            Line::Whole(line) => line,
            Line::Oversized { prefix, .. } if noise::looks_like_object(&prefix) => {
                let message = format!("the message is longer than {} bytes", self.options.line_bytes_max);
                let fault = Fault::new(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, message);
                return self.say(fault.message(None)).await;
            }
            Line::Oversized { .. } => return Ok(()),
        };
        if let Some(legacy) = self.handshake.legacy()
            && legacy.session.takes_batches()
            && line.trim_ascii_start().starts_with(b"[")
        {
            return self.hear_batch(&line).await;
        }
        let outlet = Outlet::single(self.output.clone());
        self.hear_message(&line, &outlet).await
    }

    /// Several messages in one, which only 2025-03-26 has.
    async fn hear_batch(&mut self, line: &Bytes) -> Result<(), Unheard> {
        let messages: Vec<&RawValue> = serde_json::from_slice(line).unwrap_or_default();
        if messages.len() > self.options.batch_messages_max {
            let message = format!("a batch has at most {} messages", self.options.batch_messages_max);
            return self.say(Fault::invalid_request(StatusCode::BAD_REQUEST, message).message(None)).await;
        }
        let outlet = Outlet::batch(self.output.clone());
        for message in messages {
            // Upholds: `message` borrows from `line`.
            self.hear_message(&line.slice_ref(message.get().as_bytes()), &outlet).await?;
        }
        outlet.settle(None).await
    }

    async fn hear_message(&mut self, source: &Bytes, outlet: &Outlet) -> Result<(), Unheard> {
        if let Some(CallMessage { id, params, meta }) = CallMessage::read(source) {
            outlet.owe();
            return match self.answer(&id, method::TOOLS_CALL, (params, meta), (source, outlet)) {
                Ok(None) => Ok(()),
                Ok(Some(message)) => outlet.settle(Some(message)).await,
                Err(fault) => outlet.settle(Some(fault.message(Some(&id)))).await,
            };
        }
        match Message::parse(source) {
            Ok(Message::Request { id, method, params }) => {
                outlet.owe();
                match read(params).and_then(|read| self.answer(&id, &method, read, (source, outlet))) {
                    Ok(Some(message)) => outlet.settle(Some(message)).await,
                    Ok(None) => Ok(()),
                    Err(fault) => outlet.settle(Some(fault.message(Some(&id)))).await,
                }
            }
            Ok(Message::Notification { method, params }) => {
                self.take_note(&method, params);
                Ok(())
            }
            Ok(Message::Response { id, result }) => {
                self.take_answer(&id, Ok(result.to_owned()));
                Ok(())
            }
            Ok(Message::Failure { id: Some(id), error }) => {
                self.take_answer(&id, Err(error));
                Ok(())
            }
            Err(error) if noise::deserves_answer(source, &error) => {
                let id = match &error {
                    EnvelopeError::NotAMessage { id, .. } => id.as_ref(),
                    EnvelopeError::NotJson(_) => None,
                };
                outlet.owe();
                outlet.settle(Some(Fault::envelope(&error).message(id))).await
            }
            Ok(Message::Failure { id: None, .. }) | Err(_) => Ok(()),
        }
    }

    /// The answer, where there is one at once.
    fn answer(
        &mut self,
        id: &Id,
        method: &str,
        (params, meta): (Params<'_>, Meta<'_>),
        (source, outlet): (&Bytes, &Outlet),
    ) -> Result<Option<Vec<u8>>, Fault> {
        let era = era::era_of(method, &meta, None);
        let request =
            Request { id, method: method.into(), params, meta, era, source, trace_parent: None, idempotency_key: None };
        let peer = match era {
            Era::Modern => self.modern_peer(&request)?,
            Era::Legacy => self.legacy_peer(method)?,
        };
        let give_up = self.give_up.clone();
        match self.desk.answer(&request, peer)? {
            Reply::Result(result) => return Ok(Some(envelope::response(id, &result))),
            Reply::Welcome(welcome) => return Ok(Some(envelope::response(id, &self.welcome(*welcome)))),
            Reply::Soon(soon) => self.errands.spawn(errands::wait(soon, id.clone(), outlet.clone(), give_up)),
            Reply::Running(running) => self.errands.spawn(errands::relay(running, outlet.clone(), give_up)),
            Reply::Listen(wanted) => {
                if self.subscriptions.len() + self.granting >= self.options.subscriptions_max {
                    let hint = "cancel one that is not needed any more";
                    return Err(Fault::busy("too many subscriptions are open", hint));
                }
                let cancel = CancellationToken::new();
                let entry = self.in_flight.enter(id, &cancel).ok_or_else(duplicate_id)?;
                self.granting += 1;
                let gateway = Arc::clone(&self.desk.gateway);
                self.errands.spawn(errands::grant(wanted, gateway, Place { cancel, entry }, give_up))
            }
        };
        Ok(None)
    }

    fn modern_peer(&self, request: &Request<'_>) -> Result<Peer, Fault> {
        era::require_modern(&era::requested_version(&request.meta)?)?;
        self.desk.require_modest(request.meta.client_capabilities)?;
        let caller = Caller { client: client::client_name(request.meta.client_info), ..Caller::local() };
        let capabilities = ClientCapabilities::parse(request.meta.client_capabilities);
        Ok(self.peer(self.guest(caller, Era::Modern, capabilities), None))
    }

    fn legacy_peer(&self, method: &str) -> Result<Peer, Fault> {
        match self.handshake.legacy() {
            Some(legacy) => Ok(self.peer(legacy.session.guest.clone(), Some(Arc::clone(&legacy.session)))),
            None if matches!(method, method::INITIALIZE | method::PING) => {
                let guest = self.guest(Caller::local(), Era::Legacy, ClientCapabilities::none());
                Ok(self.peer(guest, None))
            }
            None => Err(Fault::invalid_request(StatusCode::BAD_REQUEST, "the connection is not initialized")
                .hint("send `initialize` first, or name the protocol version 2026-07-28 in `_meta` of every request")),
        }
    }

    fn peer(&self, guest: Guest, session: Option<Arc<Session>>) -> Peer {
        Peer { guest, session, in_flight: Some(Arc::clone(&self.in_flight)), departure: Departure::Cancels }
    }

    fn guest(&self, caller: Caller, era: Era, capabilities: ClientCapabilities) -> Guest {
        Guest { caller, authority: local_authority(), era, capabilities, affinity: Arc::clone(&self.stay.affinity) }
    }

    /// Begins a session, in place of one that was there.
    fn welcome(&mut self, welcome: Welcome) -> String {
        let Welcome { result, client, capabilities, version } = welcome;
        let guest = self.guest(Caller { client, ..Caller::local() }, Era::Legacy, capabilities);
        let limits = SessionLimits { questions_max: self.options.questions_max, watches_max: self.options.watches_max };
        let session = Arc::new(Session::new(guest, version, Arc::clone(&self.in_flight), limits));
        let gateway = &self.stay.gateway;
        if self.handshake.legacy().is_some() {
            gateway.leave(&self.stay.affinity);
        }
        let relay = Relay::of_session(Arc::clone(&session));
        let remarks = gateway.attend(&self.stay.affinity);
        self.handshake = Handshake::Answered(Legacy { session, relay, remarks });
        result
    }

    fn take_answer(&self, id: &Id, reply: servanda_engine::Reply) {
        if let Some(legacy) = self.handshake.legacy() {
            legacy.session.questions.answer(id, reply);
        }
    }

    /// A notification that says nothing we understand is no reason to say anything back.
    fn take_note(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            method::INITIALIZED => {
                self.handshake = match std::mem::replace(&mut self.handshake, Handshake::None) {
                    Handshake::Answered(legacy) => Handshake::Completed(legacy),
                    other => other,
                };
            }
            method::CANCELLED => {
                let id = Params::parse(params).ok().and_then(|params| params.request_id);
                if let Some(id) = id.and_then(|raw| serde_json::from_str::<Id>(raw.get()).ok()) {
                    self.subscriptions.remove(&id);
                    self.in_flight.cancel(&id);
                }
            }
            method::ROOTS_LIST_CHANGED => {
                if let Some(legacy) = self.handshake.legacy() {
                    self.desk.gateway.roots_changed(&legacy.session.guest);
                }
            }
            _ => {}
        }
    }

    async fn say(&self, message: Vec<u8>) -> Result<(), Unheard> {
        self.output.send(message).await.map_err(|_| Unheard)
    }
}

fn read(params: Option<&RawValue>) -> Result<(Params<'_>, Meta<'_>), Fault> {
    let params = Params::parse(params)?;
    let meta = params.meta()?;
    Ok((params, meta))
}

impl Handshake {
    fn legacy(&self) -> Option<&Legacy> {
        match self {
            Self::None => None,
            Self::Answered(legacy) | Self::Completed(legacy) => Some(legacy),
        }
    }

    fn legacy_mut(&mut self) -> Option<&mut Legacy> {
        match self {
            Self::None => None,
            Self::Answered(legacy) | Self::Completed(legacy) => Some(legacy),
        }
    }

    /// What a server says outside any request. Cancel safe.
    async fn next_remark(&mut self) -> Option<Remark> {
        self.legacy_mut()?.remarks.recv().await
    }
}
