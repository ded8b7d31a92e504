//! What a server says besides its answers on one connection, and who gets it: the request it belongs to, the client of the connection, all
//! clients, or none.
//!
//! Over HTTP a request has a stream of its own. Over other transports a server does not say which request it means, so a message is
//! attributed to a request only if there is a single candidate. Every request of a client is a candidate, whether or not the client
//! listens, and stays one after the client gave it up until the server answers it, because a server may continue a cancelled request.
//!
//! The modules below are what connections have in common, whatever carries them.

pub(crate) mod duplex;
pub(crate) mod in_flight;
pub(crate) mod inbound;
pub(crate) mod loss;
pub(crate) mod outbox;
mod oversized;
pub(crate) mod pending;
mod questions;
pub(crate) mod server_error;
pub(crate) mod startup_signals;
pub(crate) mod waiting;

use std::{
    collections::HashMap,
    sync::atomic::Ordering,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_mcp::{
    Era, Id, RawObject,
    envelope::code,
    fields::{meta, method},
    shape::{self, ShapeFault},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{
    outbox::Outbox,
    questions::{OpenQuestions, RoutedQuestion},
};
use crate::{
    ServerMessage, ServerMessageSink, UpstreamRequester,
    request::{
        WireRequestTerms,
        audience::{RequestAudience, SubscriptionSignal},
        parcel::Parcel,
        pausable_deadline::PausableDeadline,
    },
    shared::{SharedContext, announcement},
};

/// How many abandoned requests are remembered on one connection.
const GIVEN_UP_MAX: usize = 1_024;

/// The running requests of one connection.
#[derive(Debug)]
pub(crate) struct Conversations {
    context: Arc<SharedContext>,
    /// The requester that the connection is for; none for the shared one.
    requester: Option<UpstreamRequester>,
    era: OnceLock<Era>,
    under_way: Mutex<OpenRequests>,
    questions: Arc<OpenQuestions>,
}

#[derive(Debug, Default)]
struct OpenRequests {
    by_id: HashMap<i64, RequestConversation>,
    /// How many of them were abandoned.
    given_up: usize,
    /// More were abandoned than are remembered: from now on, a message outside a stream cannot be attributed to a request.
    overflowed: bool,
}

#[derive(Debug)]
struct RequestConversation {
    audience: RequestAudience,
    pausable_deadline: PausableDeadline,
    /// No client is asked on its behalf any more.
    is_over: bool,
    /// Ends its open questions; none before there is one.
    over: Option<CancellationToken>,
    /// The server has answered it.
    answered: bool,
    /// No caller waits for it any more.
    given_up: bool,
}

/// Registers a request in the conversations. Dropping it withdraws a request that was not sent, and ends the request's questions. A request
/// that was sent and is not settled stays a candidate.
#[derive(Debug)]
pub(crate) struct RequestGuard<'a> {
    conversations: &'a Conversations,
    id: i64,
    parcel: Parcel,
    /// The server has finished it, or never had it.
    settled: bool,
}

/// The recipient of something that a server said.
enum Recipient {
    /// A client.
    Client {
        sink: Arc<dyn ServerMessageSink>,
        /// The deadlines that pause while the client is asked.
        clocks: Vec<PausableDeadline>,
        /// Cancelled when the request that the question belongs to is over, if that request is known.
        over: CancellationToken,
    },
    /// No client, with the reason.
    Nobody(&'static str),
}

impl Conversations {
    pub(crate) fn context(&self) -> &Arc<SharedContext> {
        &self.context
    }

    /// The requester that the connection is for; none for the shared one.
    pub(crate) fn requester(&self) -> Option<&UpstreamRequester> {
        self.requester.as_ref()
    }

    pub(crate) fn new(
        context: &Arc<SharedContext>,
        requester: Option<UpstreamRequester>,
        server_outbox: Outbox,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            requester,
            era: OnceLock::new(),
            under_way: Mutex::default(),
            questions: Arc::new(OpenQuestions::new(Arc::clone(context), server_outbox)),
        }
    }

    /// The era that was agreed on. Legacy during the handshake, because only legacy servers send messages then.
    pub(crate) fn era(&self) -> Era {
        self.era.get().copied().unwrap_or(Era::Legacy)
    }

    pub(crate) fn agree(&self, era: Era) {
        let _ = self.era.set(era);
    }

    pub(crate) fn server_outbox(&self) -> &Outbox {
        self.questions.server_outbox()
    }

    /// Whether the client is being asked something.
    pub(crate) fn is_asking_client(&self) -> bool {
        self.questions.has_open()
    }

    /// Registers a request. The caller has limited the number of requests.
    pub(crate) fn register(&self, id: i64, terms: &WireRequestTerms, parcel: &Parcel) -> RequestGuard<'_> {
        let (audience, pausable_deadline) = (terms.audience.clone(), terms.pausable_deadline.clone());
        let conversation = RequestConversation {
            audience,
            pausable_deadline,
            is_over: false,
            over: None,
            answered: false,
            given_up: false,
        };
        self.lock().by_id.insert(id, conversation);
        RequestGuard { conversations: self, id, parcel: parcel.clone(), settled: false }
    }

    /// Records that the server answered a request, whether or not a caller still waits for it.
    pub(crate) fn answered(&self, id: i64) {
        let mut under_way = self.lock();
        match under_way.by_id.get_mut(&id) {
            Some(conversation) if conversation.given_up => {
                under_way.by_id.remove(&id);
                under_way.given_up -= 1;
            }
            Some(conversation) => conversation.answered = true,
            None => {}
        }
    }

    /// Whether the server may still be working on an abandoned request.
    pub(crate) fn has_abandoned_request(&self) -> bool {
        let under_way = self.lock();
        under_way.given_up > 0 || under_way.overflowed
    }

    /// Handles a notification. `of` is the request whose stream it came on.
    pub(crate) fn on_notification(&self, method: &str, params: Option<&RawValue>, of: Option<i64>) {
        if let Err(fault) = inspect(params) {
            self.context.protocol_warnings.warn(
                &self.context.spec.id,
                &fault,
                "a notification from the server is dropped",
            );
            return;
        }
        match (method, params) {
            (method::PROGRESS, Some(params)) => self.on_progress(params, of),
            (method::CANCELLED, Some(params)) => self.on_cancelled(params),
            (method::SUBSCRIPTIONS_ACKNOWLEDGED, Some(params)) => self.on_acknowledged(params, of),
            (method::LOG_MESSAGE, Some(params)) => {
                let modern = self.era() == Era::Modern;
                self.pass_on(of, |wants_log| !modern || wants_log, ServerMessage::LogMessage(params.to_owned()));
            }
            (method, params) => match announcement::read(method, params) {
                Some(announcement) => self.context.announce(announcement),
                None if method == method::ELICITATION_COMPLETE => {
                    let server_message = ServerMessage::Notification {
                        method: method.to_owned(),
                        params: params.map(ToOwned::to_owned),
                    };
                    self.pass_on(of, |_| true, server_message);
                }
                // No revision defines this notification, and a client would take it for the gateway's own.
                None => tracing::debug!(upstream = %self.context.spec.id, "an unknown notification is dropped"),
            },
        }
    }

    /// Handles a request of the server. `of` is the request whose stream it came on.
    pub(crate) fn on_request(&self, id: &Id, method: &str, params: Option<&RawValue>, of: Option<i64>) {
        tracing::debug!(upstream = %self.context.spec.id, method, "the server made a request");
        // A modern server has no requests of its own, and a client must not answer any.
        if self.era() == Era::Modern {
            return;
        }
        if let Err(fault) = inspect(params) {
            self.context.protocol_warnings.warn(&self.context.spec.id, &fault, "a request from the server is refused");
            return self.server_outbox().refuse(id, code::INVALID_PARAMS, &format!("the message {fault}"));
        }
        if method == method::PING {
            return self.server_outbox().respond(id, "{}");
        }
        let answers = self.requester.as_ref().is_some_and(|client| client.capabilities.answers(method, params));
        if !answers {
            let why = format!("the client did not declare that it answers this `{method}`");
            return self.server_outbox().refuse(id, code::METHOD_NOT_FOUND, &why);
        }
        // Servers that ask nothing else still ask for roots, so `roots/list` does not count.
        if of.is_none() && method != method::ROOTS_LIST {
            self.context.asks_beside_requests.store(true, Ordering::Relaxed);
        }
        match self.recipient(of, |_| true) {
            Recipient::Nobody(why) => self.server_outbox().refuse(id, code::INTERNAL_ERROR, why),
            Recipient::Client { sink, clocks, over } => {
                let clocks = clocks.iter().map(PausableDeadline::pause).collect();
                let asked = RoutedQuestion { id: id.clone(), method, params, clocks, over };
                self.questions.ask(sink.as_ref(), asked);
            }
        }
    }

    fn on_progress(&self, params: &RawValue, of: Option<i64>) {
        let Some(token) = progress_token(params).filter(|token| of.is_none_or(|id| id == *token)) else { return };
        let sink = match self.lock().waited_for(token).map(|conversation| &conversation.audience) {
            Some(RequestAudience::Caller(caller)) if caller.wants_progress => caller.sink.clone(),
            _ => return,
        };
        let Ok(params) = serde_json::from_str::<RawObject<'_>>(params.get()) else { return };
        let params = params.without(&[meta::PROGRESS_TOKEN]).to_json();
        if let Ok(params) = RawValue::from_string(params) {
            let _ = sink.receive(ServerMessage::Progress(params));
        }
    }

    /// The server withdraws a question or ends a subscription.
    fn on_cancelled(&self, params: &RawValue) {
        #[derive(Deserialize)]
        struct CancelledParams {
            #[serde(rename = "requestId")]
            id: Id,
        }
        let Ok(CancelledParams { id }) = serde_json::from_str(params.get()) else { return };
        if let Id::Number(number) = id
            && let Some(listener) = self.subscription_sender(number)
        {
            let _ = listener.try_send(SubscriptionSignal::Ended);
        } else {
            self.questions.withdraw(&id);
        }
    }

    fn on_acknowledged(&self, params: &RawValue, of: Option<i64>) {
        let Ok(params) = serde_json::from_str::<RawObject<'_>>(params.get()) else { return };
        let tag = params.get("_meta").and_then(|meta| serde_json::from_str::<RawObject<'_>>(meta.get()).ok());
        let tag = tag.and_then(|meta| meta.get(meta::SUBSCRIPTION_ID)?.get().parse().ok());
        let listener = tag.or(of).and_then(|id| self.subscription_sender(id));
        if let (Some(listener), Some(granted)) = (listener, params.get("notifications")) {
            let _ = listener.try_send(SubscriptionSignal::Acknowledged(granted.to_owned()));
        }
    }

    fn subscription_sender(&self, id: i64) -> Option<mpsc::Sender<SubscriptionSignal>> {
        match self.lock().waited_for(id).map(|conversation| &conversation.audience) {
            Some(RequestAudience::Subscription(listener)) => Some(listener.clone()),
            _ => None,
        }
    }

    /// Passes a server message to its recipient. A message that does not fit is dropped.
    fn pass_on(&self, of: Option<i64>, wants: impl Fn(bool) -> bool, server_message: ServerMessage) {
        if let Recipient::Client { sink, .. } = self.recipient(of, wants) {
            let _ = sink.receive(server_message);
        }
    }

    /// Finds the recipient. `wants` decides, from whether a request asked for the server's log, whether that request is a candidate.
    fn recipient(&self, of: Option<i64>, wants: impl Fn(bool) -> bool) -> Recipient {
        let mut under_way = self.lock();
        if let Some(id) = of {
            return match under_way.waited_for(id) {
                Some(RequestConversation { audience: RequestAudience::Caller(_), .. }) => under_way.caller_of(id),
                Some(conversation) => self.attached_recipient(vec![conversation.pausable_deadline.clone()]),
                None => Recipient::Nobody("the request that this belongs to is over"),
            };
        }
        let candidates = under_way.by_id.iter().filter(|(_, conversation)| match &conversation.audience {
            RequestAudience::Caller(caller) => wants(caller.wants_log),
            RequestAudience::Muted { wants_log } => wants(*wants_log),
            RequestAudience::Nobody | RequestAudience::Subscription(_) => false,
        });
        let mut candidates = candidates.map(|(id, conversation)| (*id, &conversation.audience));
        match (candidates.next(), candidates.next()) {
            (Some((id, RequestAudience::Caller(_))), None) if !under_way.overflowed => under_way.caller_of(id),
            // Whichever request the message is about, one of these requests now waits for the client.
            _ => self.attached_recipient(
                under_way.by_id.values().map(|conversation| conversation.pausable_deadline.clone()).collect(),
            ),
        }
    }

    /// The client of the connection, if it takes messages outside a request.
    fn attached_recipient(&self, clocks: Vec<PausableDeadline>) -> Recipient {
        let sink = self.requester.as_ref().and_then(|client| self.context.attached.get(&client.affinity));
        sink.map_or(
            Recipient::Nobody(
                "it is not clear which request this belongs to, and the client takes nothing outside a request",
            ),
            |sink| Recipient::Client { sink, clocks, over: CancellationToken::new() },
        )
    }

    fn lock(&self) -> MutexGuard<'_, OpenRequests> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenRequests {
    /// The request with this id, if a caller waits for it.
    fn waited_for(&self, id: i64) -> Option<&RequestConversation> {
        self.by_id.get(&id).filter(|conversation| !conversation.given_up)
    }

    /// The caller of that request.
    fn caller_of(&mut self, id: i64) -> Recipient {
        match self.by_id.get_mut(&id) {
            Some(RequestConversation {
                audience: RequestAudience::Caller(caller),
                is_over: false,
                over,
                pausable_deadline,
                ..
            }) => {
                let over = over.get_or_insert_with(CancellationToken::new).clone();
                Recipient::Client { sink: Arc::clone(&caller.sink), clocks: vec![pausable_deadline.clone()], over }
            }
            _ => Recipient::Nobody("the request that this belongs to was cancelled"),
        }
    }

    /// Records that no caller waits for the request any more. Returns the token that ends its open questions.
    fn leave(&mut self, id: i64, outstanding: bool) -> Option<CancellationToken> {
        let room = self.given_up < GIVEN_UP_MAX;
        let conversation = self.by_id.get_mut(&id)?;
        let over = conversation.end();
        let counts = matches!(conversation.audience, RequestAudience::Caller(_) | RequestAudience::Muted { .. });
        let haunts = outstanding && counts && !conversation.answered;
        if haunts && room {
            conversation.given_up = true;
            self.given_up += 1;
        } else {
            self.by_id.remove(&id);
            self.overflowed |= haunts;
        }
        over
    }
}

impl RequestConversation {
    /// Records that no client is asked on its behalf any more. Returns the token that ends its open questions.
    fn end(&mut self) -> Option<CancellationToken> {
        self.is_over = true;
        self.over.take()
    }
}

impl RequestGuard<'_> {
    /// Asks no client on the request's behalf any more, and declines its open questions.
    pub(crate) fn end_questions(&self) {
        let over = self.conversations.lock().by_id.get_mut(&self.id).and_then(RequestConversation::end);
        cancel_questions(over);
    }

    /// Records that nothing the server says from now on is about this request.
    pub(crate) fn settle(&mut self) {
        self.settled = true;
    }

    /// Withdraws the request. True means that it is never sent; false that it was, or may have been.
    pub(crate) fn withdraw(&mut self) -> bool {
        let withdrawn = self.parcel.withdraw();
        self.settled |= withdrawn;
        withdrawn
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let outstanding = !self.withdraw() && !self.settled;
        let over = self.conversations.lock().leave(self.id, outstanding);
        cancel_questions(over);
    }
}

/// Ends open questions. Called without the lock, because the code that runs on cancellation may take it.
fn cancel_questions(over: Option<CancellationToken>) {
    if let Some(over) = over {
        over.cancel();
    }
}

/// Checks the shape of parameters before they are passed on.
fn inspect(params: Option<&RawValue>) -> Result<(), ShapeFault> {
    params.map_or(Ok(()), |params| shape::inspect(params.get().as_bytes()))
}

/// The token of a progress notification, if it is one of ours.
fn progress_token(params: &RawValue) -> Option<i64> {
    #[derive(Deserialize)]
    struct ProgressTokenParams<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: &'a RawValue,
    }
    serde_json::from_str::<ProgressTokenParams<'_>>(params.get()).ok()?.token.get().parse().ok()
}
