//! A connection on which both sides speak at any time: one writer, one reader, and the table of requests between them. It does not know
//! what carries the bytes, a child's pipes or a stream of events.
//!
//! The reader never waits: a message that cannot be passed on at once is dropped. The writer may be stuck for as long as the server does
//! not read. Requests behind it keep their deadlines, because they can be withdrawn.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{sync::mpsc, time::Instant};

use super::{
    Conversations,
    in_flight::InFlightLimit,
    inbound::{InboundRouter, UnroutedMessages},
    loss::ConnectionLoss,
    outbox::Outbox,
    pending::{ConnectionClosed, PendingRequests},
    waiting::ResponseWait,
};
use crate::{
    PerformFailure, UpstreamRequester,
    request::{ExchangeEnd, WireRequest, WireRequestTerms, parcel::Parcel},
    shared::SharedContext,
};

/// Why a request was not sent before its deadline.
const NOT_TAKEN: &str = "the server did not take the request before the deadline, so nothing was sent";

/// The caller's side of such a connection.
#[derive(Debug)]
pub(crate) struct Duplex {
    in_flight: InFlightLimit,
    pub(crate) pending: Arc<PendingRequests>,
    conversations: Arc<Conversations>,
    outbox: mpsc::Sender<Parcel>,
    unrouted_messages: Arc<UnroutedMessages>,
    loss: ConnectionLoss,
}

impl Duplex {
    /// Creates the caller's side, and what the reader and the writer need.
    pub(crate) fn new(
        context: &Arc<SharedContext>,
        requester: Option<UpstreamRequester>,
    ) -> (Self, InboundRouter, mpsc::Receiver<Parcel>) {
        let in_flight_max = context.spec.limits.in_flight_max;
        let (outbox, parcels) = mpsc::channel(in_flight_max.max(1));
        let loss = ConnectionLoss::default();
        let server_outbox = Outbox { outbox: outbox.downgrade(), loss: loss.clone() };
        let duplex = Self {
            in_flight: InFlightLimit::new(in_flight_max, requester.as_ref().is_none_or(UpstreamRequester::is_shared)),
            pending: Arc::default(),
            conversations: Arc::new(Conversations::new(context, requester, server_outbox)),
            outbox,
            unrouted_messages: Arc::new(UnroutedMessages::default()),
            loss,
        };
        let inbound = InboundRouter::new(
            Arc::clone(context),
            Arc::clone(&duplex.pending),
            Arc::clone(&duplex.conversations),
            Arc::clone(&duplex.unrouted_messages),
        );
        (duplex, inbound, parcels)
    }

    pub(crate) fn loss(&self) -> &ConnectionLoss {
        &self.loss
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` would store its arguments twice")]
    pub(crate) fn exchange<'a>(
        &'a self,
        request: WireRequest<'a>,
        terms: WireRequestTerms,
    ) -> impl Future<Output = ExchangeEnd> + Send + 'a {
        async move {
            let WireRequest { id, mut body, .. } = request;
            body.push(b'\n');
            let mut place = match self.pending.register(id) {
                Ok(place) => place,
                Err(ConnectionClosed { why }) => return ExchangeEnd::NeverLeft { why },
            };
            let mut in_flight = match self.in_flight.slot_for(&terms) {
                Ok(in_flight) => in_flight,
                Err(busy) => return ExchangeEnd::Failed(busy),
            };
            let parcel = Parcel::new(body).with_lease(terms.lease.clone());
            if parcel.is_lease_over() {
                return ExchangeEnd::Failed(PerformFailure::lease_ended());
            }
            let mut under_way = self.conversations.register(id, &terms, &parcel);
            if let Err(ended) = self.enqueue(parcel.clone(), &terms).await {
                return ended;
            }
            let waiting = ResponseWait {
                id,
                terms: &terms,
                outbox: terms.tell_server.then(|| self.conversations.server_outbox()),
                not_sent: NOT_TAKEN,
                unrouted_messages: Some(&self.unrouted_messages),
            };
            let told = std::pin::pin!(&mut place.outcome);
            match waiting.wait(told, &mut under_way, &mut in_flight).await {
                Ok(told) => {
                    under_way.settle();
                    ended(told.ok(), &parcel)
                }
                Err(failure) => ExchangeEnd::Failed(failure),
            }
        }
    }

    /// Sends a notification, or reports that it could not be sent in time.
    pub(crate) async fn notify(&self, mut body: Vec<u8>, deadline: Instant) -> Result<(), String> {
        body.push(b'\n');
        match self.enqueue(Parcel::new(body), &WireRequestTerms::until(deadline)).await {
            Ok(()) => Ok(()),
            Err(ExchangeEnd::NeverLeft { why }) => Err(why),
            Err(_) => Err("the server does not read its input".to_owned()),
        }
    }

    /// Queues a message. The queue is full when the server does not read.
    async fn enqueue(&self, parcel: Parcel, terms: &WireRequestTerms) -> Result<(), ExchangeEnd> {
        tokio::select! {
            biased;
            () = terms.cancel.cancelled() => Err(ExchangeEnd::Failed(PerformFailure::Cancelled { sent: false })),
            () = terms.pausable_deadline.over() => Err(ExchangeEnd::Failed(not_taken())),
            permit = self.outbox.reserve() => match permit {
                Ok(permit) => {
                    permit.send(parcel);
                    Ok(())
                }
                // The writer has ended, and the connection is about to end.
                Err(_) => Err(ExchangeEnd::NeverLeft { why: "the server closed its input".to_owned() }),
            },
        }
    }
}

/// Combines the outcome that a request got with whether its bytes were sent.
fn ended(told: Option<Result<Bytes, PerformFailure>>, parcel: &Parcel) -> ExchangeEnd {
    match told {
        Some(Ok(result)) => ExchangeEnd::Answered(result),
        Some(Err(PerformFailure::Died { why })) if parcel.withdraw() => ExchangeEnd::NeverLeft { why },
        Some(Err(failure)) => ExchangeEnd::Failed(failure),
        None => ExchangeEnd::Failed(PerformFailure::Died { why: "the connection was closed".to_owned() }),
    }
}

fn not_taken() -> PerformFailure {
    PerformFailure::unavailable(NOT_TAKEN)
}
