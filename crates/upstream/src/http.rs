//! A connection over Streamable HTTP: one POST a request, an answer as JSON or as an event stream.
//!
//! There is no connection to hold: what lasts is the agreed version and, in the legacy era, the session. Nothing is sent
//! twice here; a stale pooled connection is replaced only while the request's body has not been taken.

mod address;
mod answer;
mod asides;
mod events;
mod follow;
mod resume;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::stream;
use reqwest::{
    Client, Method, RequestBuilder, Response, Url,
    header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue},
};
use servanda_contract::faults;
use servanda_mcp::{Era, ProtocolVersion, fields::method};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

pub(crate) use self::events::EventWire;
use self::{address::Address, answer::Reading};
use crate::{
    Counterpart, Limits, PerformFailure,
    conversation::Conversations,
    in_flight::InFlight,
    link::{Departure, Ended, Gone, Outgoing, Terms, WhenCancelled},
    message,
    parcel::Parcel,
    questions::Mouth,
    setting::Setting,
};

/// Idle connections are given up before Node.js servers close them (after 5 s): a request that meets the closing could not
/// be told from one that was executed.
const POOL_IDLE_MS_MAX: u64 = 4_000;
/// How long the end of a session may take.
const END_MS_MAX: u64 = 2_000;

/// Where the server is, and the pool of connections to it. Shared by all sessions with it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

/// One agreement with the server: a legacy session, or the modern protocol.
#[derive(Debug)]
pub(crate) struct HttpWire {
    setting: Arc<Setting>,
    address: Arc<Address>,
    conversations: Arc<Conversations>,
    in_flight: InFlight,
    departure: Departure,
    /// It is closed on purpose: nobody waits any more.
    closed: CancellationToken,
    /// What is said aside goes through here; dropped, it ends the speaking.
    _outbox: mpsc::Sender<Parcel>,
}

impl Endpoint {
    /// Checks the configuration. No connection is made.
    pub(crate) fn new(url: &str, headers: &BTreeMap<String, String>, limits: &Limits) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("its URL is not valid: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("its URL has the scheme `{}`; `http` and `https` are known", url.scheme()));
        }
        let mut map = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
            let (key, mut value) = header.ok_or_else(|| format!("its header `{name}` is not valid"))?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        let client = Client::builder()
            .user_agent(concat!("servanda/", env!("CARGO_PKG_VERSION")))
            .tcp_nodelay(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            // Whether something is sent again is decided by the engine, from the contract.
            .retry(reqwest::retry::never())
            .connect_timeout(Duration::from_millis(limits.connect_ms_max))
            .pool_idle_timeout(Duration::from_millis(POOL_IDLE_MS_MAX))
            .pool_max_idle_per_host(limits.in_flight_max)
            .build()
            .map_err(|error| format!("the HTTP client could not be made: {}", describe(&error)))?;
        Ok(Self { client, url, headers: map })
    }

    fn request(&self, method: Method) -> RequestBuilder {
        self.request_to(method, self.url.clone())
    }

    fn request_to(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url).headers(self.headers.clone())
    }
}

impl HttpWire {
    pub(crate) fn new(setting: &Arc<Setting>, counterpart: Option<Counterpart>, endpoint: Endpoint) -> Self {
        let address = Arc::new(Address::new(setting, counterpart.clone(), endpoint));
        let departure = Departure::default();
        let outbox = asides::speak(setting, &address, &departure);
        let mouth = Mouth { outbox: outbox.downgrade(), departure: departure.clone() };
        let shared = counterpart.as_ref().is_none_or(Counterpart::is_anybodys);
        let in_flight = InFlight::new(setting.spec.limits.in_flight_max, shared);
        Self {
            setting: Arc::clone(setting),
            in_flight,
            address,
            conversations: Arc::new(Conversations::new(setting, counterpart, mouth)),
            departure,
            closed: CancellationToken::new(),
            _outbox: outbox,
        }
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) async fn exchange(&self, mut request: Outgoing<'_>, terms: Terms) -> Ended {
        let mut in_flight = match self.in_flight.of(&terms) {
            Ok(in_flight) => in_flight,
            Err(busy) => return Ended::Failed(busy),
        };
        if terms.cancel.is_cancelled() {
            return Ended::Failed(PerformFailure::Cancelled { sent: false });
        }
        if terms.patience.is_over() {
            return Ended::Failed(not_connected());
        }
        let (id, version) = (request.id, request.version);
        let body = std::mem::take(&mut request.body);
        let body_bytes = body.len();
        let parcel = Parcel::new(body).under(terms.lease.clone());
        if parcel.is_too_late() {
            return Ended::Failed(PerformFailure::lease_ended());
        }
        let mut under_way = self.conversations.join(id, &terms, &parcel);
        let asking = self.ask(&request, body_bytes, parcel.clone());
        tokio::pin!(asking);
        let (mut cancelled, mut patience) = (false, terms.patience.clone());
        let mut overtime = terms.overtime.as_ref();
        loop {
            tokio::select! {
                biased;
                ended = &mut asking => {
                    // A server that was lost on the way may go on.
                    if !matches!(ended, Ended::Failed(PerformFailure::Died { .. })) {
                        under_way.settle();
                    }
                    return ended;
                }
                () = self.closed.cancelled() => return closed(&parcel),
                () = terms.cancel.cancelled(), if !cancelled => {
                    if under_way.withdraw() {
                        return Ended::Failed(PerformFailure::Cancelled { sent: false });
                    }
                    self.say_cancelled(id, version, "the caller cancelled", &terms);
                    if terms.when_cancelled == WhenCancelled::Abandon {
                        return Ended::Failed(PerformFailure::Cancelled { sent: true });
                    }
                    under_way.silence();
                    cancelled = true;
                }
                () = patience.over() => {
                    if under_way.withdraw() {
                        return Ended::Failed(not_connected());
                    }
                    if !std::mem::replace(&mut cancelled, true) {
                        self.say_cancelled(id, version, "the deadline passed", &terms);
                    }
                    let failure = PerformFailure::TimedOut { note: None };
                    // In the modern era the open stream is how an answer comes; the server is told when it closes.
                    let Some(longer) = overtime.take().and_then(|overtime| overtime.begin(&failure)) else {
                        return Ended::Failed(failure);
                    };
                    under_way.silence();
                    // Nobody else waits for a place because of it.
                    drop(in_flight.take());
                    patience = longer;
                }
            }
        }
    }

    /// Sends a notification and waits for its acknowledgement.
    pub(crate) async fn notify(&self, body: Vec<u8>, until: Instant) -> Result<(), String> {
        let sending = async {
            let request = self.address.builder(Method::POST).await?;
            Some(request.body(body).send().await)
        };
        let sent = match tokio::time::timeout_at(until, sending).await {
            Ok(None) => return Err("the server cannot be shown what it asks for".to_owned()),
            Ok(Some(sent)) => Ok(sent),
            Err(late) => Err(late),
        };
        match sent {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => {
                Err(format!("a notification was answered with HTTP status {}", response.status().as_u16()))
            }
            Ok(Err(error)) => Err(self.setting.redaction.quote(&describe(&error))),
            Err(_) => Err("a notification was not acknowledged in time".to_owned()),
        }
    }

    pub(crate) fn departure(&self) -> &Departure {
        &self.departure
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    pub(crate) fn agree(&self, version: ProtocolVersion) {
        self.address.agree(version);
    }

    /// Ends the session, where there is one. After a loss there is none, and requests on their way may still be answered.
    pub(crate) async fn close(&self) {
        if self.departure.is_told() {
            return;
        }
        self.departure.tell(Gone::Broke { why: "it was closed".to_owned() });
        self.closed.cancel();
        if self.address.in_session() {
            let sending = async {
                if let Some(request) = self.address.builder(Method::DELETE).await {
                    let _ = request.send().await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_millis(END_MS_MAX), sending).await;
        }
    }

    async fn ask(&self, request: &Outgoing<'_>, body_bytes: usize, parcel: Parcel) -> Ended {
        let calls = request.method == method::TOOLS_CALL;
        if calls && let Err(fault) = faults::at("upstream.before_write") {
            parcel.withdraw();
            return Ended::Failed(PerformFailure::Unavailable { why: fault.to_string() });
        }
        let taken = parcel.clone();
        let body = stream::once(async move {
            let bytes = taken.take().ok_or(Withdrawn);
            if calls {
                after_write();
            }
            bytes
        });
        // The length is known, so the body is not sent in chunks, which some servers cannot read.
        let builder = self.address.for_request(request).header(CONTENT_LENGTH, body_bytes);
        let response = match builder.body(reqwest::Body::wrap_stream(body)).send().await {
            Ok(response) => response,
            Err(error) => return self.not_sent_or_lost(&error, &parcel),
        };
        if request.method == method::INITIALIZE {
            self.keep_session(&response);
        }
        let reading = Reading {
            id: request.id,
            setting: &self.setting,
            address: &self.address,
            conversations: &self.conversations,
            departure: &self.departure,
            agreed: match request.method {
                method::INITIALIZE | method::DISCOVER => None,
                _ => request.version.map(ProtocolVersion::era),
            },
        };
        let ended = reading.read(response).await;
        if matches!(ended, Ended::Disowned(_)) {
            self.departure.tell(Gone::Disowned);
        }
        ended
    }

    /// Sorts a failed sending: if the body was never taken, the server cannot have executed it.
    fn not_sent_or_lost(&self, error: &reqwest::Error, parcel: &Parcel) -> Ended {
        let why = self.setting.redaction.quote(&describe(error));
        let is_too_late = parcel.is_too_late();
        if parcel.withdraw() {
            if is_too_late {
                return Ended::Failed(PerformFailure::lease_ended());
            }
            self.departure.tell(Gone::Broke { why: why.clone() });
            return Ended::Failed(PerformFailure::Unavailable { why });
        }
        Ended::Failed(PerformFailure::Died { why })
    }

    fn keep_session(&self, response: &Response) {
        if response.status().is_success() {
            self.address.keep_session(response.headers());
        }
    }

    /// In the modern era closing the stream says it.
    fn say_cancelled(&self, id: i64, version: Option<ProtocolVersion>, reason: &str, terms: &Terms) {
        if terms.tell_server && version.is_some_and(|version| version.era() == Era::Legacy) {
            self.conversations.mouth().say_if_room(message::cancelled(id, reason));
        }
    }
}

/// A point for trials, shortly after the bytes were handed over: what writes them to the socket tells nobody.
fn after_write() {
    #[cfg(feature = "faults")]
    tokio::spawn(async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = faults::at("upstream.after_write");
    });
}

fn closed(parcel: &Parcel) -> Ended {
    let why = "the connection was closed".to_owned();
    if parcel.withdraw() { Ended::NeverLeft { why } } else { Ended::Failed(PerformFailure::Died { why }) }
}

fn not_connected() -> PerformFailure {
    PerformFailure::unavailable("the deadline passed before a connection took the request, so nothing was sent")
}

/// The body was withdrawn before it was taken.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn")]
struct Withdrawn;

/// An HTTP error in words, without the address, which may hold secrets.
pub(crate) fn describe(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        parts.push(cause.to_string());
        source = cause.source();
    }
    if parts.is_empty() {
        return if error.is_timeout() { "it timed out".to_owned() } else { "the HTTP request failed".to_owned() };
    }
    parts.dedup();
    parts.join(": ")
}
