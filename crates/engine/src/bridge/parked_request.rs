//! Holds a modern requester's request while the requester looks for answers that a legacy server wants. The request continues meanwhile; a
//! requester that comes back with its state is let in and told what happens next.
//!
//! Places are bounded, in all and per principal, and so is the time: a request whose requester stays away continues without it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::value::RawValue;
use servanda_contract::{CallId, Caller, Digest, Timestamp};
use servanda_effects::effect::ClientKey;
use servanda_mcp::{RpcError, envelope::code};
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    message_translator::{MessageSubscriber, MessageTranslator},
    seal::{RequestStatePayload, StateAudience, StatePurpose},
};
use crate::{
    client::{CallAnswer, ClientMessage, InquiryAnswer},
    long_running::LongWork,
};

/// The most messages that are kept for a requester.
pub(super) const UNSENT_MESSAGES_MAX: usize = 64;
/// The most requests that are parked, in all.
const PARKED_MAX: usize = 1_024;
/// The most requests that are parked for one principal.
const PARKED_PER_PRINCIPAL_MAX: usize = 64;
/// The most requesters that may come back before the request has handled the first.
const RETURNING_REQUESTS_MAX: usize = 4;

/// What the requester that waits is told next.
#[derive(Debug)]
pub(crate) enum ParkedReply {
    /// The server wants input: the members of an `input_required` result.
    Input(String),
    /// The request is over.
    Done(RequestAnswer),
    /// This requester is not let in.
    Refused(RpcError),
}

/// The end of a request.
#[derive(Debug)]
pub(crate) enum RequestAnswer {
    Call(CallAnswer),
    Inquiry(Result<InquiryAnswer, RpcError>),
}

/// Whose request it is, and what its state is bound to.
#[derive(Debug, Clone)]
pub(crate) struct RequestBinding {
    pub(crate) caller: Arc<Caller>,
    pub(crate) request: Digest,
    pub(crate) first_call: Option<CallId>,
    /// The operation that a tool's state belongs to.
    pub(crate) key: Option<ClientKey>,
}

/// One request that may outlast the message that made it.
#[derive(Debug)]
pub(crate) struct ParkedRequest {
    pub(super) id: String,
    binding: RequestBinding,
    /// Cancelled when a requester that waits gives up.
    pub(crate) cancel: CancellationToken,
    returning_requests: mpsc::Sender<ReturningRequest>,
    pub(super) arrivals: AsyncMutex<mpsc::Receiver<ReturningRequest>>,
    waiting: Mutex<Option<WaitingRequester>>,
    lapses_at: Mutex<Option<Instant>>,
    /// Messages that came while the requester was away, and how to translate them. Bounded by [`UNSENT_MESSAGES_MAX`].
    unsent: Mutex<Vec<(MessageTranslator, ClientMessage)>>,
    /// Whether the requester was told that it need not wait any longer and can ask for the end in another way.
    abandoned: AtomicBool,
    /// The request as long work, if it is.
    work: OnceLock<Arc<LongWork>>,
}

/// A requester that comes back.
#[derive(Debug)]
pub(crate) struct ReturningRequest {
    pub(super) answers: Vec<(String, Box<RawValue>)>,
    pub(super) waiting_requester: WaitingRequester,
}

/// A requester that waits.
#[derive(Debug)]
pub(crate) struct WaitingRequester {
    reply: oneshot::Sender<ParkedReply>,
    subscriber: MessageSubscriber,
}

/// All parked requests.
#[derive(Debug, Default)]
pub(crate) struct ParkedRequestTable {
    places: Mutex<HashMap<String, Arc<ParkedRequest>>>,
}

impl RequestBinding {
    /// The same binding for a state that belongs to an operation.
    pub(crate) fn for_operation(mut self, key: &ClientKey) -> Self {
        self.key = Some(key.clone());
        self
    }

    pub(crate) fn audience(&self) -> StateAudience<'_> {
        StateAudience { caller: &self.caller, request: self.request }
    }

    /// The state of a round of a modern upstream.
    pub(super) fn round_state(
        &self,
        expires_at: Timestamp,
        upstream: &str,
        nonce: &str,
        state: Option<String>,
    ) -> RequestStatePayload {
        let (upstream, nonce, key) = (upstream.to_owned(), nonce.to_owned(), self.key.clone());
        let purpose = StatePurpose::Round { upstream, nonce, state, key };
        RequestStatePayload::new(self.audience(), expires_at, self.first_call.clone(), purpose)
    }
}

impl ParkedRequest {
    /// A parked request with the first requester waiting.
    pub(crate) fn open(
        claim: RequestBinding,
        subscriber: MessageSubscriber,
    ) -> (Arc<Self>, oneshot::Receiver<ParkedReply>) {
        let (returning_requests, arrivals) = mpsc::channel(RETURNING_REQUESTS_MAX);
        let (turn, turns) = oneshot::channel();
        let parked_request = Self {
            id: uuid::Uuid::new_v4().to_string(),
            binding: claim,
            cancel: CancellationToken::new(),
            returning_requests,
            arrivals: AsyncMutex::new(arrivals),
            waiting: Mutex::new(Some(WaitingRequester { reply: turn, subscriber })),
            lapses_at: Mutex::new(None),
            unsent: Mutex::default(),
            abandoned: AtomicBool::new(false),
            work: OnceLock::new(),
        };
        (Arc::new(parked_request), turns)
    }

    /// The state with which a requester can come back.
    pub(super) fn parked_state(&self, expires_at: Timestamp) -> RequestStatePayload {
        let purpose = StatePurpose::Parked { id: self.id.clone() };
        RequestStatePayload::new(self.binding.audience(), expires_at, self.binding.first_call.clone(), purpose)
    }

    /// Marks that the requester will not come back, so that it is asked nothing any more.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Marks the request as long work, whose requester need not wait for the end.
    pub(crate) fn set_work(&self, work: &Arc<LongWork>) {
        let _ = self.work.set(Arc::clone(work));
    }

    pub(super) fn work(&self) -> Option<&Arc<LongWork>> {
        self.work.get()
    }

    /// Sets until when the request waits for answers, which is also how long an answer is kept for a requester that is away.
    pub(super) fn set_lapse(&self, at: Option<Instant>) {
        *locked(&self.lapses_at) = at;
    }

    pub(super) fn lapses_at(&self) -> Option<Instant> {
        *locked(&self.lapses_at)
    }

    pub(super) fn set_waiting(&self, waiting_requester: WaitingRequester) {
        self.send_unsent(&waiting_requester);
        *locked(&self.waiting) = Some(waiting_requester);
    }

    /// Replies to the requester that waits; gives the reply back if none does.
    pub(super) fn reply(&self, turn: ParkedReply) -> Result<(), ParkedReply> {
        match locked(&self.waiting).take() {
            Some(waiting_requester) => waiting_requester.reply.send(turn),
            None => Err(turn),
        }
    }

    /// Passes a message to the requester that waits. While the requester is away to look for answers, the message is kept until it comes
    /// back.
    pub(super) fn send(&self, message_translator: &MessageTranslator, message: ClientMessage) {
        let subscriber = locked(&self.waiting).as_ref().map(|waiting_requester| waiting_requester.subscriber.clone());
        match subscriber {
            Some(subscriber) => drop(message_translator.send(&subscriber, message)),
            None if self.lapses_at().is_some() => {
                let mut unheard = locked(&self.unsent);
                if unheard.len() < UNSENT_MESSAGES_MAX {
                    unheard.push((message_translator.clone(), message));
                }
            }
            None => {}
        }
    }

    /// Tells a requester that came back what was said while it was away.
    pub(super) fn send_unsent(&self, waiting_requester: &WaitingRequester) {
        for (message_translator, message) in locked(&self.unsent).drain(..) {
            message_translator.send(&waiting_requester.subscriber, message);
        }
    }

    /// Lets a requester come back. An error means that the request cannot take another requester now.
    pub(super) fn rejoin(
        &self,
        answers: Vec<(String, Box<RawValue>)>,
        subscriber: MessageSubscriber,
    ) -> Result<oneshot::Receiver<ParkedReply>, RpcError> {
        let (turn, turns) = oneshot::channel();
        let returning_request =
            ReturningRequest { answers, waiting_requester: WaitingRequester { reply: turn, subscriber } };
        self.returning_requests.try_send(returning_request).map(|()| turns).map_err(|_| already_waiting())
    }

    /// Lets no requester in any more. Requesters that came too late learn it by their closed channels.
    pub(super) async fn close(&self) {
        let mut arrivals = self.arrivals.lock().await;
        arrivals.close();
        while arrivals.try_recv().is_ok() {}
    }

    fn is_from(&self, caller: &Caller) -> bool {
        (&self.binding.caller.tenant, &self.binding.caller.principal) == (&caller.tenant, &caller.principal)
    }
}

impl WaitingRequester {
    pub(super) fn refuse(self, error: RpcError) {
        let _ = self.reply.send(ParkedReply::Refused(error));
    }

    pub(super) fn reply(self, turn: ParkedReply) {
        let _ = self.reply.send(turn);
    }
}

impl ParkedRequestTable {
    /// Gives a request a place. False if there is none.
    pub(super) fn enter(&self, parked_request: &Arc<ParkedRequest>) -> bool {
        let mut places = locked(&self.places);
        if places.contains_key(&parked_request.id) {
            return true;
        }
        let of_principal = places.values().filter(|other| other.is_from(&parked_request.binding.caller)).count();
        if places.len() >= PARKED_MAX || of_principal >= PARKED_PER_PRINCIPAL_MAX {
            return false;
        }
        places.insert(parked_request.id.clone(), Arc::clone(parked_request));
        true
    }

    pub(super) fn leave(&self, parked_request: &ParkedRequest) {
        locked(&self.places).remove(&parked_request.id);
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<ParkedRequest>> {
        locked(&self.places).get(id).cloned()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        locked(&self.places).len()
    }
}

/// The answer to a requester whose earlier request has not been answered yet.
pub(super) fn already_waiting() -> RpcError {
    RpcError::new(code::INVALID_PARAMS, "a request with this `requestState` is still waiting for its answer")
        .with_hint("wait for the answer of the other request; each state is for one request at a time")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use servanda_contract::{Caller, Digest, digest::DigestDomain};

    use super::{
        MessageSubscriber, PARKED_MAX, PARKED_PER_PRINCIPAL_MAX, ParkedRequest, ParkedRequestTable, RequestBinding,
    };

    fn parked_request(principal: &str) -> std::sync::Arc<ParkedRequest> {
        let caller = Caller { principal: principal.to_owned(), ..Caller::local() };
        let request = Digest::compute(DigestDomain::Request, &[]);
        ParkedRequest::open(
            RequestBinding { caller: caller.into(), request, first_call: None, key: None },
            MessageSubscriber::default(),
        )
        .0
    }

    #[test]
    fn places_are_bounded_in_all_and_per_principal() {
        let parked = ParkedRequestTable::default();
        let first = parked_request("one");
        assert!(parked.enter(&first) && parked.enter(&first), "a place is kept");
        let mut entered =
            (1..PARKED_PER_PRINCIPAL_MAX + 10).filter(|_| parked.enter(&parked_request("one"))).count() + 1;
        assert_eq!(entered, PARKED_PER_PRINCIPAL_MAX);
        entered += (0..PARKED_MAX).filter(|number| parked.enter(&parked_request(&number.to_string()))).count();
        assert_eq!((entered, parked.len()), (PARKED_MAX, PARKED_MAX));
        parked.leave(&first);
        assert!(parked.enter(&parked_request("one")), "a place that was left is free");
    }
}
