//! One client's connection: its earlier messages decide what its next message means.

use std::{collections::BTreeMap, io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use serde_json::value::RawValue;
use servanda_contract::Caller;
use servanda_engine::{ChangeEvent, ClientMessage, Gateway, Requester, local_authority};
use servanda_mcp::{
    ClientCapabilities, EnvelopeError, Era, Id, Message,
    envelope::{self, code},
    fields::method,
    lines::BoundedLine,
};
use tokio::{
    io::AsyncRead,
    sync::{broadcast, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    background::{self, BackgroundOutcome, GrantedSubscription, SubscriptionSlot},
    lines::ClientLineReader,
    malformed,
    options::StdioOptions,
    output::{StdioDoorOutput, StdioOutputClosed},
};
use crate::{
    client,
    client_messages::ClientMessageRelay,
    dispatch::{ClientInitialization, DispatchReply, MethodDispatcher, duplicate_id},
    era,
    fault::ProtocolFault,
    in_flight::ClientRequestsInFlight,
    limits::DispatchLimits,
    listen::ListenSubscription,
    notifications::{self, Notifications},
    params::{CallMessage, Meta, Params},
    request::{ClientDisconnectPolicy, DoorRequest, DoorRequestContext},
    session::{LegacyClientSession, SessionLimits},
};

/// The state of a connection.
pub(super) struct StdioDoorConnection<G: Gateway> {
    dispatcher: MethodDispatcher<G>,
    options: StdioOptions,
    output: mpsc::Sender<Vec<u8>>,
    in_flight: Arc<ClientRequestsInFlight>,
    subscriptions: BTreeMap<Id, (ListenSubscription, SubscriptionSlot)>,
    /// Subscriptions that are being granted.
    granting: usize,
    /// Bounded by the requests and subscriptions there may be at once.
    background: JoinSet<BackgroundOutcome>,
    /// Cancelled when requests that still run are not waited for any longer.
    give_up: CancellationToken,
    handshake: StdioHandshake,
    news: broadcast::Receiver<ChangeEvent>,
    affinity_guard: AffinityGuard<G>,
}

/// How far the legacy handshake has come. Modern requests need none.
#[derive(Debug)]
enum StdioHandshake {
    None,
    Answered(StdioLegacyClient),
    Completed(StdioLegacyClient),
}

/// A client that has completed the handshake.
#[derive(Debug)]
struct StdioLegacyClient {
    session: Arc<LegacyClientSession>,
    relay: ClientMessageRelay,
    /// Messages of servers that belong to no request.
    client_messages: mpsc::Receiver<ClientMessage>,
}

/// The affinity that groups a connection's requests at the gateway, until this is dropped.
struct AffinityGuard<G: Gateway> {
    gateway: Arc<G>,
    affinity: Arc<str>,
}

impl<G: Gateway> Drop for AffinityGuard<G> {
    fn drop(&mut self) {
        self.gateway.end_session(&self.affinity);
    }
}

impl<G: Gateway> StdioDoorConnection<G> {
    pub(super) fn new(gateway: Arc<G>, options: StdioOptions, output: mpsc::Sender<Vec<u8>>) -> Self {
        let limits = DispatchLimits {
            page_size: options.page_size,
            requests_in_flight_max: options.calls_in_flight_max,
            watches_max: options.watches_max,
            capabilities_bytes_max: options.capabilities_bytes_max,
            uri_bytes_max: options.uri_bytes_max,
        };
        Self {
            news: gateway.change_events(),
            affinity_guard: AffinityGuard {
                gateway: Arc::clone(&gateway),
                affinity: Uuid::new_v4().to_string().into(),
            },
            dispatcher: MethodDispatcher::new(gateway, &options.server, limits),
            options,
            output,
            in_flight: Arc::default(),
            subscriptions: BTreeMap::new(),
            granting: 0,
            background: JoinSet::new(),
            give_up: CancellationToken::new(),
            handshake: StdioHandshake::None,
        }
    }

    /// Reads to the end of the input, then lets the requests finish.
    pub(super) async fn run(mut self, input: impl AsyncRead, shutdown: CancellationToken) -> io::Result<()> {
        let input = pin!(input);
        let mut lines = ClientLineReader::new(input, self.options.line_bytes_max);
        let ended = loop {
            let heard = tokio::select! {
                () = shutdown.cancelled() => break Ok(()),
                () = self.output.closed() => break Ok(()),
                notifications = notifications::next(&mut self.news) => self.announce(&notifications).await,
                Some(client_message) = self.handshake.next_client_message() => self.forward(client_message).await,
                Some(done) = self.background.join_next() => self.finish(done.unwrap_or(BackgroundOutcome::Nothing)).await,
                line = lines.next() => match line {
                    Ok(Some(line)) => self.handle_line(line).await,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                },
            };
            if heard.is_err() {
                break Ok(());
            }
        };
        self.shut_down().await;
        ended
    }

    async fn shut_down(mut self) {
        for (subscription, _) in std::mem::take(&mut self.subscriptions).into_values() {
            if self.send(subscription.closing_response(&self.dispatcher.server_info.meta_member)).await.is_err() {
                return;
            }
        }
        let drain_max = Duration::from_millis(self.options.drain_ms_max);
        let (give_up, gone) = (self.give_up.clone(), self.output.clone());
        let finished = async {
            let in_time = async { while self.background.join_next().await.is_some() {} };
            if tokio::time::timeout(drain_max, in_time).await.is_err() {
                give_up.cancel();
                while self.background.join_next().await.is_some() {}
            }
        };
        tokio::select! {
            () = finished => {}
            () = gone.closed() => {}
        }
    }

    async fn announce(&mut self, notifications: &Notifications) -> Result<(), StdioOutputClosed> {
        if let StdioHandshake::Completed(legacy) = &self.handshake {
            for message in legacy.session.announcements(notifications) {
                self.send(message).await?;
            }
        }
        for (subscription, _) in self.subscriptions.values() {
            for message in subscription.announcements(notifications) {
                self.send(message).await?;
            }
        }
        Ok(())
    }

    async fn forward(&mut self, client_message: ClientMessage) -> Result<(), StdioOutputClosed> {
        match self.handshake.legacy_mut().and_then(|legacy| legacy.relay.render(client_message)) {
            Some(message) => self.send(message).await,
            None => Ok(()),
        }
    }

    async fn finish(&mut self, done: BackgroundOutcome) -> Result<(), StdioOutputClosed> {
        let BackgroundOutcome::Grant(granted) = done else { return Ok(()) };
        self.granting = self.granting.saturating_sub(1);
        let Some(GrantedSubscription { subscription, place }) = granted.map(|granted| *granted) else { return Ok(()) };
        if place.cancel.is_cancelled() {
            return Ok(());
        }
        let acknowledgement = subscription.acknowledgement();
        self.subscriptions.insert(subscription.id().clone(), (subscription, place));
        self.send(acknowledgement).await
    }

    async fn handle_line(&mut self, line: BoundedLine) -> Result<(), StdioOutputClosed> {
        let line = match line {
            BoundedLine::Whole(line) => line,
            BoundedLine::Oversized { prefix, .. } if malformed::looks_like_object(&prefix) => {
                let message = format!("the message is longer than {} bytes", self.options.line_bytes_max);
                let fault = ProtocolFault::new(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, message);
                return self.send(fault.message(None)).await;
            }
            BoundedLine::Oversized { .. } => return Ok(()),
        };
        if let Some(legacy) = self.handshake.legacy()
            && legacy.session.takes_batches()
            && line.trim_ascii_start().starts_with(b"[")
        {
            return self.handle_batch(&line).await;
        }
        let output = StdioDoorOutput::single(self.output.clone());
        self.handle_message(&line, &output).await
    }

    /// Several messages in one, which only 2025-03-26 allows.
    async fn handle_batch(&mut self, line: &Bytes) -> Result<(), StdioOutputClosed> {
        let messages: Vec<&RawValue> = serde_json::from_slice(line).unwrap_or_default();
        if messages.len() > self.options.batch_messages_max {
            let message = format!("a batch has at most {} messages", self.options.batch_messages_max);
            return self.send(ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, message).message(None)).await;
        }
        let output = StdioDoorOutput::batch(self.output.clone());
        for message in messages {
            // Upholds: `message` borrows from `line`.
            self.handle_message(&line.slice_ref(message.get().as_bytes()), &output).await?;
        }
        output.answer(None).await
    }

    async fn handle_message(&mut self, source: &Bytes, output: &StdioDoorOutput) -> Result<(), StdioOutputClosed> {
        if let Some(CallMessage { id, params, meta }) = CallMessage::read(source) {
            output.expect_answer();
            return match self.answer(&id, method::TOOLS_CALL, (params, meta), (source, output)) {
                Ok(None) => Ok(()),
                Ok(Some(message)) => output.answer(Some(message)).await,
                Err(fault) => output.answer(Some(fault.message(Some(&id)))).await,
            };
        }
        match Message::parse(source) {
            Ok(Message::Request { id, method, params }) => {
                output.expect_answer();
                match read(params).and_then(|read| self.answer(&id, &method, read, (source, output))) {
                    Ok(Some(message)) => output.answer(Some(message)).await,
                    Ok(None) => Ok(()),
                    Err(fault) => output.answer(Some(fault.message(Some(&id)))).await,
                }
            }
            Ok(Message::Notification { method, params }) => {
                self.handle_notification(&method, params);
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
            Err(error) if malformed::deserves_answer(source, &error) => {
                let id = match &error {
                    EnvelopeError::NotAMessage { id, .. } => id.as_ref(),
                    EnvelopeError::NotJson(_) => None,
                };
                output.expect_answer();
                output.answer(Some(ProtocolFault::from_envelope_error(&error).message(id))).await
            }
            Ok(Message::Failure { id: None, .. }) | Err(_) => Ok(()),
        }
    }

    /// The answer, if it is there at once.
    fn answer(
        &mut self,
        id: &Id,
        method: &str,
        (params, meta): (Params<'_>, Meta<'_>),
        (source, output): (&Bytes, &StdioDoorOutput),
    ) -> Result<Option<Vec<u8>>, ProtocolFault> {
        let era = era::era_of(method, &meta, None);
        let request = DoorRequest {
            id,
            method: method.into(),
            params,
            meta,
            era,
            source,
            trace_parent: None,
            idempotency_key: None,
        };
        let context = match era {
            Era::Modern => self.modern_context(&request)?,
            Era::Legacy => self.legacy_context(method)?,
        };
        let give_up = self.give_up.clone();
        match self.dispatcher.answer(&request, context)? {
            DispatchReply::Result(result) => return Ok(Some(envelope::response(id, &result))),
            DispatchReply::Initialize(initialization) => {
                return Ok(Some(envelope::response(id, &self.begin_session(*initialization))));
            }
            DispatchReply::Deferred(deferred) => {
                self.background.spawn(background::run_deferred(deferred, id.clone(), output.clone(), give_up))
            }
            DispatchReply::Running(running) => {
                self.background.spawn(background::run_request(running, output.clone(), give_up))
            }
            DispatchReply::Listen(listen_request) => {
                if self.subscriptions.len() + self.granting >= self.options.subscriptions_max {
                    let hint = "cancel one that you no longer need";
                    return Err(ProtocolFault::busy("too many subscriptions are open", hint));
                }
                let cancel = CancellationToken::new();
                let entry = self.in_flight.enter(id, &cancel).ok_or_else(duplicate_id)?;
                self.granting += 1;
                let gateway = Arc::clone(&self.dispatcher.gateway);
                self.background.spawn(background::run_grant(
                    listen_request,
                    gateway,
                    SubscriptionSlot { cancel, entry },
                    give_up,
                ))
            }
        };
        Ok(None)
    }

    fn modern_context(&self, request: &DoorRequest<'_>) -> Result<DoorRequestContext, ProtocolFault> {
        era::require_modern(&era::requested_version(&request.meta)?)?;
        self.dispatcher.require_bounded_capabilities(request.meta.client_capabilities)?;
        let caller = Caller { client: client::client_name(request.meta.client_info), ..Caller::local() };
        let capabilities = ClientCapabilities::parse(request.meta.client_capabilities);
        Ok(self.request_context(self.requester(caller, Era::Modern, capabilities), None))
    }

    fn legacy_context(&self, method: &str) -> Result<DoorRequestContext, ProtocolFault> {
        match self.handshake.legacy() {
            Some(legacy) => {
                Ok(self.request_context(legacy.session.requester.clone(), Some(Arc::clone(&legacy.session))))
            }
            None if matches!(method, method::INITIALIZE | method::PING) => {
                let requester = self.requester(Caller::local(), Era::Legacy, ClientCapabilities::none());
                Ok(self.request_context(requester, None))
            }
            None => Err(ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, "the connection is not initialized")
                .hint("send `initialize` first, or name the protocol version 2026-07-28 in `_meta` of every request")),
        }
    }

    fn request_context(&self, requester: Requester, session: Option<Arc<LegacyClientSession>>) -> DoorRequestContext {
        DoorRequestContext {
            requester,
            session,
            in_flight: Some(Arc::clone(&self.in_flight)),
            disconnect_policy: ClientDisconnectPolicy::Cancel,
        }
    }

    fn requester(&self, caller: Caller, era: Era, capabilities: ClientCapabilities) -> Requester {
        Requester {
            caller: Arc::new(caller),
            authority: local_authority(),
            era,
            capabilities,
            affinity: Arc::clone(&self.affinity_guard.affinity),
        }
    }

    /// Begins a session and replaces an earlier one.
    fn begin_session(&mut self, initialization: ClientInitialization) -> String {
        let ClientInitialization { result, client, capabilities, version } = initialization;
        let requester = self.requester(Caller { client, ..Caller::local() }, Era::Legacy, capabilities);
        let limits = SessionLimits { questions_max: self.options.questions_max, watches_max: self.options.watches_max };
        let session = Arc::new(LegacyClientSession::new(requester, version, Arc::clone(&self.in_flight), limits));
        let gateway = &self.affinity_guard.gateway;
        if self.handshake.legacy().is_some() {
            gateway.end_session(&self.affinity_guard.affinity);
        }
        let relay = ClientMessageRelay::for_session(Arc::clone(&session));
        let client_messages = gateway.subscribe_session(&self.affinity_guard.affinity);
        self.handshake = StdioHandshake::Answered(StdioLegacyClient { session, relay, client_messages });
        result
    }

    fn take_answer(&self, id: &Id, reply: servanda_engine::QuestionReply) {
        if let Some(legacy) = self.handshake.legacy() {
            legacy.session.questions.answer(id, reply);
        }
    }

    /// Applies a notification. An unknown notification is ignored.
    fn handle_notification(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            method::INITIALIZED => {
                self.handshake = match std::mem::replace(&mut self.handshake, StdioHandshake::None) {
                    StdioHandshake::Answered(legacy) => StdioHandshake::Completed(legacy),
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
                    self.dispatcher.gateway.roots_changed(&legacy.session.requester);
                }
            }
            _ => {}
        }
    }

    async fn send(&self, message: Vec<u8>) -> Result<(), StdioOutputClosed> {
        self.output.send(message).await.map_err(|_| StdioOutputClosed)
    }
}

fn read(params: Option<&RawValue>) -> Result<(Params<'_>, Meta<'_>), ProtocolFault> {
    let params = Params::parse(params)?;
    let meta = params.meta()?;
    Ok((params, meta))
}

impl StdioHandshake {
    fn legacy(&self) -> Option<&StdioLegacyClient> {
        match self {
            Self::None => None,
            Self::Answered(legacy) | Self::Completed(legacy) => Some(legacy),
        }
    }

    fn legacy_mut(&mut self) -> Option<&mut StdioLegacyClient> {
        match self {
            Self::None => None,
            Self::Answered(legacy) | Self::Completed(legacy) => Some(legacy),
        }
    }

    /// The next server message that belongs to no request. Cancel safe.
    async fn next_client_message(&mut self) -> Option<ClientMessage> {
        self.legacy_mut()?.client_messages.recv().await
    }
}
