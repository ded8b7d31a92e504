//! Where a modern guest's request waits while the guest looks for answers that a legacy server wants. The request goes on meanwhile; a
//! guest that comes again with its state is let in and told what happens next.
//!
//! Places are bounded, in all and per principal, and so is the time: a request whose guest stays away goes on alone.

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
    outlet::{Hearer, Outlet},
    seal::{Bearer, Carried, Purpose},
};
use crate::{
    client::{CallAnswer, InquiryAnswer, Remark},
    long_running::Work,
};

/// Remarks that may wait to be looked at.
pub(super) const REMARKS_MAX: usize = 64;
/// Requests that wait for their guests, in all.
const PARKED_MAX: usize = 1_024;
/// And of one principal.
const PARKED_PER_PRINCIPAL_MAX: usize = 64;
/// Guests that come again before the request has looked at the first.
const VISITORS_MAX: usize = 4;

/// What happens next, to whoever waits.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The server wants input: the members of an `input_required` result.
    Input(String),
    /// It is over.
    Done(Final),
    /// This guest is not let in.
    Refused(RpcError),
}

/// The end of a request.
#[derive(Debug)]
pub(crate) enum Final {
    Call(CallAnswer),
    Inquiry(Result<InquiryAnswer, RpcError>),
}

/// Whose request it is, and what a state for it has to say.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) caller: Caller,
    pub(crate) request: Digest,
    pub(crate) first_call: Option<CallId>,
    /// The operation that a tool's state belongs to.
    pub(crate) key: Option<ClientKey>,
}

/// One request that may outlast the message that made it.
#[derive(Debug)]
pub(crate) struct Reception {
    pub(super) id: String,
    claim: Claim,
    /// Cancelled when a guest that waits gives up.
    pub(crate) cancel: CancellationToken,
    visitors: mpsc::Sender<Visitor>,
    pub(super) arrivals: AsyncMutex<mpsc::Receiver<Visitor>>,
    waiting: Mutex<Option<Waiter>>,
    lapses_at: Mutex<Option<Instant>>,
    /// What was said while the guest was away, and how it is put. Bounded by [`REMARKS_MAX`].
    unheard: Mutex<Vec<(Outlet, Remark)>>,
    /// Whether its guest was told that it need not wait any longer, and asks for the end in another way.
    deserted: AtomicBool,
    /// The long work that the request is.
    work: OnceLock<Arc<Work>>,
}

/// A guest that comes again.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(super) answers: Vec<(String, Box<RawValue>)>,
    pub(super) waiter: Waiter,
}

/// A guest that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    turn: oneshot::Sender<Turn>,
    hearer: Hearer,
}

/// All requests that wait for their guests.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    places: Mutex<HashMap<String, Arc<Reception>>>,
}

impl Claim {
    /// The same for a state that belongs to an operation.
    pub(crate) fn for_operation(mut self, key: &ClientKey) -> Self {
        self.key = Some(key.clone());
        self
    }

    pub(crate) fn bearer(&self) -> Bearer<'_> {
        Bearer { caller: &self.caller, request: self.request }
    }

    /// The state of a round of a modern upstream.
    pub(super) fn round(&self, expires_at: Timestamp, upstream: &str, nonce: &str, state: Option<String>) -> Carried {
        let (upstream, nonce, key) = (upstream.to_owned(), nonce.to_owned(), self.key.clone());
        let purpose = Purpose::Round { upstream, nonce, state, key };
        Carried::new(self.bearer(), expires_at, self.first_call.clone(), purpose)
    }
}

impl Reception {
    /// A reception with the first guest waiting.
    pub(crate) fn open(claim: Claim, hearer: Hearer) -> (Arc<Self>, oneshot::Receiver<Turn>) {
        let (visitors, arrivals) = mpsc::channel(VISITORS_MAX);
        let (turn, turns) = oneshot::channel();
        let reception = Self {
            id: uuid::Uuid::new_v4().to_string(),
            claim,
            cancel: CancellationToken::new(),
            visitors,
            arrivals: AsyncMutex::new(arrivals),
            waiting: Mutex::new(Some(Waiter { turn, hearer })),
            lapses_at: Mutex::new(None),
            unheard: Mutex::default(),
            deserted: AtomicBool::new(false),
            work: OnceLock::new(),
        };
        (Arc::new(reception), turns)
    }

    /// The state that lets a guest in again.
    pub(super) fn carried(&self, expires_at: Timestamp) -> Carried {
        let purpose = Purpose::Parked { id: self.id.clone() };
        Carried::new(self.claim.bearer(), expires_at, self.claim.first_call.clone(), purpose)
    }

    /// Nobody comes again: nobody is asked anything any more.
    pub(crate) fn desert(&self) {
        self.deserted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.deserted.load(Ordering::Relaxed)
    }

    /// Says that the request is long work, for which nobody waits for ever.
    pub(crate) fn is_work(&self, work: &Arc<Work>) {
        let _ = self.work.set(Arc::clone(work));
    }

    pub(super) fn work(&self) -> Option<&Arc<Work>> {
        self.work.get()
    }

    /// Until when answers are waited for; also how long an answer is kept that nobody waits for.
    pub(super) fn lapse_at(&self, at: Option<Instant>) {
        *locked(&self.lapses_at) = at;
    }

    pub(super) fn lapses_at(&self) -> Option<Instant> {
        *locked(&self.lapses_at)
    }

    pub(super) fn seat(&self, waiter: Waiter) {
        self.catch_up(&waiter);
        *locked(&self.waiting) = Some(waiter);
    }

    /// Tells whoever waits, if anybody does; gives it back otherwise.
    pub(super) fn tell(&self, turn: Turn) -> Result<(), Turn> {
        match locked(&self.waiting).take() {
            Some(waiter) => waiter.turn.send(turn),
            None => Err(turn),
        }
    }

    /// Passes a remark to the guest that waits. While the guest is away to look for answers, the remark is kept until it comes again.
    pub(super) fn pass(&self, outlet: &Outlet, remark: Remark) {
        let hearer = locked(&self.waiting).as_ref().map(|waiter| waiter.hearer.clone());
        match hearer {
            Some(hearer) => drop(outlet.pass(&hearer, remark)),
            None if self.lapses_at().is_some() => {
                let mut unheard = locked(&self.unheard);
                if unheard.len() < REMARKS_MAX {
                    unheard.push((outlet.clone(), remark));
                }
            }
            None => {}
        }
    }

    /// Tells a guest that came again what was said while it was away.
    pub(super) fn catch_up(&self, waiter: &Waiter) {
        for (outlet, remark) in locked(&self.unheard).drain(..) {
            outlet.pass(&waiter.hearer, remark);
        }
    }

    /// Comes again. An error means that the request cannot take another guest now.
    pub(super) fn visit(
        &self,
        answers: Vec<(String, Box<RawValue>)>,
        hearer: Hearer,
    ) -> Result<oneshot::Receiver<Turn>, RpcError> {
        let (turn, turns) = oneshot::channel();
        let visitor = Visitor { answers, waiter: Waiter { turn, hearer } };
        self.visitors.try_send(visitor).map(|()| turns).map_err(|_| still_waited_for())
    }

    /// Lets nobody in any more. Visitors that came too late learn it by that.
    pub(super) async fn close(&self) {
        let mut arrivals = self.arrivals.lock().await;
        arrivals.close();
        while arrivals.try_recv().is_ok() {}
    }

    fn is_of(&self, caller: &Caller) -> bool {
        (&self.claim.caller.tenant, &self.claim.caller.principal) == (&caller.tenant, &caller.principal)
    }
}

impl Waiter {
    pub(super) fn refuse(self, error: RpcError) {
        let _ = self.turn.send(Turn::Refused(error));
    }

    pub(super) fn tell(self, turn: Turn) {
        let _ = self.turn.send(turn);
    }
}

impl Parked {
    /// Gives a request a place. False if there is none.
    pub(super) fn enter(&self, reception: &Arc<Reception>) -> bool {
        let mut places = locked(&self.places);
        if places.contains_key(&reception.id) {
            return true;
        }
        let of_principal = places.values().filter(|other| other.is_of(&reception.claim.caller)).count();
        if places.len() >= PARKED_MAX || of_principal >= PARKED_PER_PRINCIPAL_MAX {
            return false;
        }
        places.insert(reception.id.clone(), Arc::clone(reception));
        true
    }

    pub(super) fn leave(&self, reception: &Reception) {
        locked(&self.places).remove(&reception.id);
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Reception>> {
        locked(&self.places).get(id).cloned()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        locked(&self.places).len()
    }
}

/// The answer to a guest whose earlier request has not been answered yet.
pub(super) fn still_waited_for() -> RpcError {
    RpcError::new(code::INVALID_PARAMS, "a request with this `requestState` is still waiting for its answer")
        .with_hint("wait for the answer of the other request; each state is for one request at a time")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use servanda_contract::{Caller, Digest, digest::DigestDomain};

    use super::{Claim, Hearer, PARKED_MAX, PARKED_PER_PRINCIPAL_MAX, Parked, Reception};

    fn reception(principal: &str) -> std::sync::Arc<Reception> {
        let caller = Caller { principal: principal.to_owned(), ..Caller::local() };
        let request = Digest::compute(DigestDomain::Request, &[]);
        Reception::open(Claim { caller, request, first_call: None, key: None }, Hearer::default()).0
    }

    #[test]
    fn places_are_bounded_in_all_and_per_principal() {
        let parked = Parked::default();
        let first = reception("one");
        assert!(parked.enter(&first) && parked.enter(&first), "a place is kept");
        let mut entered = (1..PARKED_PER_PRINCIPAL_MAX + 10).filter(|_| parked.enter(&reception("one"))).count() + 1;
        assert_eq!(entered, PARKED_PER_PRINCIPAL_MAX);
        entered += (0..PARKED_MAX).filter(|number| parked.enter(&reception(&number.to_string()))).count();
        assert_eq!((entered, parked.len()), (PARKED_MAX, PARKED_MAX));
        parked.leave(&first);
        assert!(parked.enter(&reception("one")), "a place that was left is free");
    }
}
