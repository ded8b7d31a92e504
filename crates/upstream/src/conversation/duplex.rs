//! A connection on which both sides speak whenever they like: one writer, one reader, and the table of requests between
//! them. What carries the bytes, a child's pipes or a stream of events, is not known here.
//!
//! The reader never waits for anybody: what cannot be passed on at once is dropped. The writer may be stuck for as long as
//! the server does not read; requests behind it keep their deadlines, because they can be withdrawn.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{sync::mpsc, time::Instant};

use super::{
    Conversations,
    departure::Departure,
    in_flight::InFlight,
    inbound::{Inbound, Oddities},
    outbox::Mouth,
    pending::{Closed, PendingRequests},
    waiting::Waiting,
};
use crate::{
    Counterpart, PerformFailure,
    request::{Ended, Outgoing, Terms, parcel::Parcel},
    shared::Setting,
};

/// Why a request was not sent before its deadline.
const NOT_TAKEN: &str = "the server did not take the request before the deadline, so nothing was sent";

/// The caller's side of such a connection.
#[derive(Debug)]
pub(crate) struct Duplex {
    in_flight: InFlight,
    pub(crate) pending: Arc<PendingRequests>,
    conversations: Arc<Conversations>,
    outbox: mpsc::Sender<Parcel>,
    oddities: Arc<Oddities>,
    departure: Departure,
}

impl Duplex {
    /// The caller's side, and what the reader and the writer need.
    pub(crate) fn new(
        setting: &Arc<Setting>,
        counterpart: Option<Counterpart>,
    ) -> (Self, Inbound, mpsc::Receiver<Parcel>) {
        let in_flight_max = setting.spec.limits.in_flight_max;
        let (outbox, parcels) = mpsc::channel(in_flight_max.max(1));
        let departure = Departure::default();
        let mouth = Mouth { outbox: outbox.downgrade(), departure: departure.clone() };
        let duplex = Self {
            in_flight: InFlight::new(in_flight_max, counterpart.as_ref().is_none_or(Counterpart::is_anybodys)),
            pending: Arc::default(),
            conversations: Arc::new(Conversations::new(setting, counterpart, mouth)),
            outbox,
            oddities: Arc::new(Oddities::default()),
            departure,
        };
        let inbound = Inbound::new(
            Arc::clone(setting),
            Arc::clone(&duplex.pending),
            Arc::clone(&duplex.conversations),
            Arc::clone(&duplex.oddities),
        );
        (duplex, inbound, parcels)
    }

    pub(crate) fn departure(&self) -> &Departure {
        &self.departure
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` would keep what it is given twice")]
    pub(crate) fn exchange<'a>(
        &'a self,
        request: Outgoing<'a>,
        terms: Terms,
    ) -> impl Future<Output = Ended> + Send + 'a {
        async move {
            let Outgoing { id, mut body, .. } = request;
            body.push(b'\n');
            let mut place = match self.pending.admit(id) {
                Ok(place) => place,
                Err(Closed { why }) => return Ended::NeverLeft { why },
            };
            let mut in_flight = match self.in_flight.of(&terms) {
                Ok(in_flight) => in_flight,
                Err(busy) => return Ended::Failed(busy),
            };
            let parcel = Parcel::new(body).under(terms.lease.clone());
            if parcel.is_too_late() {
                return Ended::Failed(PerformFailure::lease_ended());
            }
            let mut under_way = self.conversations.join(id, &terms, &parcel);
            if let Err(ended) = self.post(parcel.clone(), &terms).await {
                return ended;
            }
            let waiting = Waiting {
                id,
                terms: &terms,
                outbox: terms.tell_server.then(|| self.conversations.mouth()),
                not_sent: NOT_TAKEN,
                oddities: Some(&self.oddities),
            };
            let told = std::pin::pin!(&mut place.told);
            match waiting.wait(told, &mut under_way, &mut in_flight).await {
                Ok(told) => {
                    under_way.settle();
                    ended(told.ok(), &parcel)
                }
                Err(failure) => Ended::Failed(failure),
            }
        }
    }

    /// Sends a notification, or says that it could not be sent in time.
    pub(crate) async fn notify(&self, mut body: Vec<u8>, deadline: Instant) -> Result<(), String> {
        body.push(b'\n');
        match self.post(Parcel::new(body), &Terms::until(deadline)).await {
            Ok(()) => Ok(()),
            Err(Ended::NeverLeft { why }) => Err(why),
            Err(_) => Err("the server does not read its input".to_owned()),
        }
    }

    /// Queues a message. The queue is full when the server does not read.
    async fn post(&self, parcel: Parcel, terms: &Terms) -> Result<(), Ended> {
        tokio::select! {
            biased;
            () = terms.cancel.cancelled() => Err(Ended::Failed(PerformFailure::Cancelled { sent: false })),
            () = terms.patience.over() => Err(Ended::Failed(not_taken())),
            permit = self.outbox.reserve() => match permit {
                Ok(permit) => {
                    permit.send(parcel);
                    Ok(())
                }
                // The writer has ended, and the connection is about to.
                Err(_) => Err(Ended::NeverLeft { why: "the server closed its input".to_owned() }),
            },
        }
    }
}

/// What a waiter was told, seen together with whether its request left.
fn ended(told: Option<Result<Bytes, PerformFailure>>, parcel: &Parcel) -> Ended {
    match told {
        Some(Ok(result)) => Ended::Answered(result),
        Some(Err(PerformFailure::Died { why })) if parcel.withdraw() => Ended::NeverLeft { why },
        Some(Err(failure)) => Ended::Failed(failure),
        None => Ended::Failed(PerformFailure::Died { why: "the connection was closed".to_owned() }),
    }
}

fn not_taken() -> PerformFailure {
    PerformFailure::unavailable(NOT_TAKEN)
}
