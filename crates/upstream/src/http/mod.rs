//! A connection over Streamable HTTP: one POST per request, an answer as JSON or as an event stream.
//!
//! There is no connection to hold. What lasts is the agreed version and, in the legacy era, the session. Nothing is sent twice here; a
//! stale pooled connection is replaced only while the request's body has not been taken.

mod address;
mod answer;
mod content_type;
mod events;
mod follow;
mod one_way;
mod resume;
mod sse;

use std::{sync::Arc, time::Duration};

use hyper::Method;
use servanda_contract::faults;
use servanda_mcp::{Era, ProtocolVersion, fields::method};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

pub(crate) use self::events::EventWire;
use self::{address::HttpAddress, answer::AnswerReader};
use crate::{
    PerformFailure, UpstreamRequester,
    conversation::{
        Conversations,
        in_flight::InFlightLimit,
        loss::{ConnectionLoss, LossReason},
        outbox::Outbox,
        waiting::ResponseWait,
    },
    http_client::{HttpEndpoint, HttpError, HttpRequestBody, UpstreamResponse},
    request::{ExchangeEnd, WireRequest, WireRequestTerms, parcel::Parcel},
    shared::SharedContext,
};

/// Why a request was not sent before its deadline.
const NOT_CONNECTED: &str = "the deadline passed before a connection took the request, so nothing was sent";

/// How long ending a session may take.
const END_MS_MAX: u64 = 2_000;

/// One handshake's result: a legacy session, or the modern protocol.
#[derive(Debug)]
pub(crate) struct HttpWire {
    context: Arc<SharedContext>,
    address: Arc<HttpAddress>,
    conversations: Arc<Conversations>,
    in_flight: InFlightLimit,
    loss: ConnectionLoss,
    /// Cancelled when the gateway closes the connection on purpose; this ends the requests on it.
    closed: CancellationToken,
    /// One-way messages go through here. Dropping it ends the task that sends them.
    _outbox: mpsc::Sender<Parcel>,
}

impl HttpWire {
    pub(crate) fn new(
        context: &Arc<SharedContext>,
        requester: Option<UpstreamRequester>,
        endpoint: HttpEndpoint,
    ) -> Self {
        let address = Arc::new(HttpAddress::new(context, requester.clone(), endpoint));
        let loss = ConnectionLoss::default();
        let outbox = one_way::start_sender(context, &address, &loss);
        let server_outbox = Outbox { outbox: outbox.downgrade(), loss: loss.clone() };
        let shared = requester.as_ref().is_none_or(UpstreamRequester::is_shared);
        let in_flight = InFlightLimit::new(context.spec.limits.in_flight_max, shared);
        Self {
            context: Arc::clone(context),
            in_flight,
            address,
            conversations: Arc::new(Conversations::new(context, requester, server_outbox)),
            loss,
            closed: CancellationToken::new(),
            _outbox: outbox,
        }
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` would store its arguments twice")]
    pub(crate) fn exchange<'a>(
        &'a self,
        mut request: WireRequest<'a>,
        terms: WireRequestTerms,
    ) -> impl Future<Output = ExchangeEnd> + Send + 'a {
        async move {
            let mut in_flight = match self.in_flight.slot_for(&terms) {
                Ok(in_flight) => in_flight,
                Err(busy) => return ExchangeEnd::Failed(busy),
            };
            if let Some(failure) = not_begun(&terms) {
                return ExchangeEnd::Failed(failure);
            }
            let (id, version) = (request.id, request.version);
            let body = std::mem::take(&mut request.body);
            let body_bytes = body.len();
            let parcel = Parcel::new(body).with_lease(terms.lease.clone());
            if parcel.is_lease_over() {
                return ExchangeEnd::Failed(PerformFailure::lease_ended());
            }
            let mut under_way = self.conversations.register(id, &terms, &parcel);
            let end = std::pin::pin!(async {
                tokio::select! {
                    biased;
                    ended = self.ask(&request, body_bytes, parcel.clone()) => ended,
                    () = self.closed.cancelled() => closed(&parcel),
                }
            });
            // In the modern era, closing the stream tells the server that the answer is no longer wanted.
            let is_told = terms.tell_server && version.is_some_and(|version| version.era() == Era::Legacy);
            let waiting = ResponseWait {
                id,
                terms: &terms,
                outbox: is_told.then(|| self.conversations.server_outbox()),
                not_sent: NOT_CONNECTED,
                unrouted_messages: None,
            };
            match waiting.wait(end, &mut under_way, &mut in_flight).await {
                Ok(ended) => {
                    // A server whose connection was lost may still work on the request.
                    if !matches!(
                        ended,
                        ExchangeEnd::NeverLeft { .. } | ExchangeEnd::Failed(PerformFailure::Died { .. })
                    ) {
                        under_way.settle();
                    }
                    ended
                }
                Err(failure) => ExchangeEnd::Failed(failure),
            }
        }
    }

    /// Sends a notification and waits for its acknowledgement.
    pub(crate) async fn notify(&self, body: Vec<u8>, until: Instant) -> Result<(), String> {
        let sending = self.address.send(Method::POST, None, HttpRequestBody::bytes(body));
        let sent = match tokio::time::timeout_at(until, sending).await {
            Ok(None) => return Err("there are no credentials for the server".to_owned()),
            Ok(Some(sent)) => Ok(sent),
            Err(late) => Err(late),
        };
        match sent {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => {
                Err(format!("a notification was answered with HTTP status {}", response.status().as_u16()))
            }
            Ok(Err(error)) => Err(self.context.redaction.quote(&error.to_string())),
            Err(_) => Err("a notification was not acknowledged in time".to_owned()),
        }
    }

    pub(crate) fn loss(&self) -> &ConnectionLoss {
        &self.loss
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    pub(crate) fn agree(&self, version: ProtocolVersion) {
        self.address.agree(version);
    }

    /// Ends the session, if there is one. After a loss there is none, and running requests may still be answered.
    pub(crate) async fn close(&self) {
        if self.loss.is_reported() {
            return;
        }
        self.loss.report(LossReason::Broke { why: "it was closed".to_owned() });
        self.closed.cancel();
        if self.address.in_session() {
            let sending = self.address.send(Method::DELETE, None, HttpRequestBody::none());
            let _ = tokio::time::timeout(Duration::from_millis(END_MS_MAX), sending).await;
        }
    }

    async fn ask(&self, request: &WireRequest<'_>, body_bytes: usize, parcel: Parcel) -> ExchangeEnd {
        let calls = request.method == method::TOOLS_CALL;
        if calls && let Err(fault) = faults::at("upstream.before_write") {
            parcel.withdraw();
            return ExchangeEnd::Failed(PerformFailure::Unavailable { why: fault.to_string() });
        }
        let body = HttpRequestBody::parcel(parcel.clone(), body_bytes);
        let body = if calls { body.on_taken(after_write) } else { body };
        let response = match self.address.send_request(request, body).await {
            Ok(response) => response,
            Err(error) => return self.not_sent_or_lost(&error, &parcel),
        };
        if request.method == method::INITIALIZE {
            self.keep_session(&response);
        }
        let reading = AnswerReader {
            id: request.id,
            context: &self.context,
            address: &self.address,
            conversations: &self.conversations,
            loss: &self.loss,
            agreed: match request.method {
                method::INITIALIZE | method::DISCOVER => None,
                _ => request.version.map(ProtocolVersion::era),
            },
        };
        let ended = reading.read(response).await;
        if matches!(ended, ExchangeEnd::Disowned(_)) {
            self.loss.report(LossReason::Disowned);
        }
        ended
    }

    /// Classifies a failed send: if the body was never taken, the server cannot have executed the request.
    fn not_sent_or_lost(&self, error: &HttpError, parcel: &Parcel) -> ExchangeEnd {
        let why = self.context.redaction.quote(&error.to_string());
        let is_too_late = parcel.is_lease_over();
        if parcel.withdraw() {
            if is_too_late {
                return ExchangeEnd::Failed(PerformFailure::lease_ended());
            }
            self.loss.report(LossReason::Broke { why: why.clone() });
            return ExchangeEnd::Failed(PerformFailure::Unavailable { why });
        }
        ExchangeEnd::Failed(PerformFailure::Died { why })
    }

    fn keep_session(&self, response: &UpstreamResponse) {
        if response.status().is_success() {
            self.address.keep_session(response.headers());
        }
    }
}

/// A fault point for trials, shortly after the bytes were handed over: the code that writes them to the socket has no hook.
fn after_write() {
    #[cfg(feature = "faults")]
    tokio::spawn(async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = faults::at("upstream.after_write");
    });
}

/// Why a request must not begin; none if it may.
fn not_begun(terms: &WireRequestTerms) -> Option<PerformFailure> {
    let cancelled = || PerformFailure::Cancelled { sent: false };
    let late = || terms.pausable_deadline.is_over().then(not_connected);
    terms.cancel.is_cancelled().then(cancelled).or_else(late)
}

fn closed(parcel: &Parcel) -> ExchangeEnd {
    let why = "the connection was closed".to_owned();
    if parcel.withdraw() { ExchangeEnd::NeverLeft { why } } else { ExchangeEnd::Failed(PerformFailure::Died { why }) }
}

fn not_connected() -> PerformFailure {
    PerformFailure::unavailable(NOT_CONNECTED)
}
