//! A connection over Streamable HTTP: one POST a request, an answer as JSON or as an event stream.
//!
//! There is no connection to hold: what lasts is the agreed version and, in the legacy era, the session. Nothing is sent
//! twice here; a stale pooled connection is replaced only while the request's body has not been taken.

mod answer;
mod follow;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::stream;
use reqwest::{
    Client, Method, RequestBuilder, Response, Url,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use servanda_mcp::{
    Era, Id, ProtocolVersion,
    fields::{header, method},
};
use tokio::{sync::Semaphore, time::Instant};

use self::answer::Reading;
use crate::{
    Limits, PerformFailure,
    connect::Setting,
    link::{Departure, Ended, Gone, Outgoing, Terms, WhenCancelled, answer_to_server},
    message,
    name_header::name_header,
    parcel::Parcel,
};

/// Idle connections are given up before Node.js servers close them (after 5 s): a request that meets the closing could not
/// be told from one that was executed.
const POOL_IDLE_MS_MAX: u64 = 4_000;
/// How many messages nobody waits for (cancellations, answers to the server) may be under way.
const ASIDES_MAX: usize = 16;
/// How long one of them, or the end of a session, may take.
const ASIDE_MS_MAX: u64 = 2_000;

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
    endpoint: Endpoint,
    session: OnceLock<HeaderValue>,
    agreed: OnceLock<ProtocolVersion>,
    in_flight: Semaphore,
    asides: Arc<Semaphore>,
    departure: Departure,
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
        self.client.request(method, self.url.clone()).headers(self.headers.clone())
    }
}

impl HttpWire {
    pub(crate) fn new(setting: Arc<Setting>, endpoint: Endpoint) -> Self {
        let in_flight = Semaphore::new(setting.spec.limits.in_flight_max);
        Self {
            setting,
            endpoint,
            session: OnceLock::new(),
            agreed: OnceLock::new(),
            in_flight,
            asides: Arc::new(Semaphore::new(ASIDES_MAX)),
            departure: Departure::default(),
        }
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) async fn exchange(&self, request: Outgoing<'_>, terms: Terms) -> Ended {
        let Ok(_permit) = self.in_flight.try_acquire() else {
            let in_flight_max = self.setting.spec.limits.in_flight_max;
            return Ended::Failed(PerformFailure::Busy { in_flight_max });
        };
        if terms.cancel.is_cancelled() {
            return Ended::Failed(PerformFailure::Cancelled { sent: false });
        }
        if terms.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ended::Failed(not_connected());
        }
        let Outgoing { id, method, name, version, body } = request;
        let body_bytes = body.len();
        let parcel = Parcel::new(body);
        let _withdrawn_when_dropped = parcel.withdrawn_when_dropped();
        let builder = self.builder(Method::POST, version, Some(method), name);
        let asking = self.ask(builder, body_bytes, parcel.clone(), Question { id, method, version, terms: &terms });
        tokio::pin!(asking);
        let mut cancelled = false;
        loop {
            tokio::select! {
                biased;
                ended = &mut asking => return ended,
                () = terms.cancel.cancelled(), if !cancelled => {
                    if parcel.withdraw() {
                        return Ended::Failed(PerformFailure::Cancelled { sent: false });
                    }
                    self.say_cancelled(id, version, "the caller cancelled", &terms);
                    if terms.when_cancelled == WhenCancelled::Abandon {
                        return Ended::Failed(PerformFailure::Cancelled { sent: true });
                    }
                    cancelled = true;
                }
                () = terms.deadline_passed() => {
                    if parcel.withdraw() {
                        return Ended::Failed(not_connected());
                    }
                    self.say_cancelled(id, version, "the deadline passed", &terms);
                    return Ended::Failed(PerformFailure::TimedOut { note: None });
                }
            }
        }
    }

    /// Sends a notification and waits for its acknowledgement.
    pub(crate) async fn notify(&self, body: Vec<u8>, version: ProtocolVersion, until: Instant) -> Result<(), String> {
        let _ = self.agreed.set(version);
        let sending = self.builder(Method::POST, Some(version), None, None).body(body).send();
        match tokio::time::timeout_at(until, sending).await {
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

    /// Ends the session, where there is one.
    pub(crate) async fn close(&self) {
        let broken = self.departure.is_told();
        self.departure.tell(Gone::Broke { why: "it was closed".to_owned() });
        if self.session.get().is_some() && !broken {
            let version = self.agreed.get().copied();
            let sending = self.builder(Method::DELETE, version, None, None).send();
            let _ = tokio::time::timeout(Duration::from_millis(ASIDE_MS_MAX), sending).await;
        }
    }

    /// A request with everything but its body. `method` is the body's, for the modern headers.
    fn builder(
        &self,
        verb: Method,
        version: Option<ProtocolVersion>,
        method: Option<&'static str>,
        name: Option<&str>,
    ) -> RequestBuilder {
        let mut headers = HeaderMap::new();
        if verb == Method::POST {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        if let Some(version) = version {
            headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        if version.is_some_and(|version| version.era() == Era::Modern) {
            if let Some(method) = method {
                headers.insert(header::METHOD, HeaderValue::from_static(method));
            }
            if let Some(name) = name.and_then(name_header) {
                headers.insert(header::NAME, name);
            }
        } else if let Some(session) = self.session.get() {
            headers.insert(header::SESSION_ID, session.clone());
        }
        self.endpoint.request(verb).headers(headers)
    }

    async fn ask(&self, builder: RequestBuilder, body_bytes: usize, parcel: Parcel, question: Question<'_>) -> Ended {
        let taken = parcel.clone();
        let body = stream::once(async move { taken.take().ok_or(Withdrawn) });
        // The length is known, so the body is not sent in chunks, which some servers cannot read.
        let sending = builder.header(CONTENT_LENGTH, body_bytes).body(reqwest::Body::wrap_stream(body)).send();
        let response = match sending.await {
            Ok(response) => response,
            Err(error) => return self.not_sent_or_lost(&error, &parcel),
        };
        if question.method == method::INITIALIZE {
            self.keep_session(&response);
        }
        let reading = Reading {
            id: question.id,
            progress: question.terms.progress.as_ref(),
            setting: &self.setting,
            agreed: match question.method {
                method::INITIALIZE | method::DISCOVER => None,
                _ => question.version.map(ProtocolVersion::era),
            },
            in_session: self.session.get().is_some(),
            on_request: &|id, method| self.answer_server(id, method),
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
        if parcel.withdraw() {
            self.departure.tell(Gone::Broke { why: why.clone() });
            return Ended::Failed(PerformFailure::Unavailable { why });
        }
        Ended::Failed(PerformFailure::Died { why })
    }

    fn keep_session(&self, response: &Response) {
        if response.status().is_success()
            && let Some(session) = response.headers().get(header::SESSION_ID)
        {
            let mut session = session.clone();
            session.set_sensitive(true);
            let _ = self.session.set(session);
        }
    }

    /// In the modern era closing the stream says it.
    fn say_cancelled(&self, id: i64, version: Option<ProtocolVersion>, reason: &str, terms: &Terms) {
        if terms.tell_server && version.is_some_and(|version| version.era() == Era::Legacy) {
            self.say_aside(message::cancelled(id, reason));
        }
    }

    fn answer_server(&self, id: &Id, method: &str) {
        self.say_aside(answer_to_server(id, method));
    }

    /// Sends a message whose acknowledgement nobody waits for; too many of them are dropped.
    fn say_aside(&self, body: Vec<u8>) {
        let Ok(permit) = Arc::clone(&self.asides).try_acquire_owned() else { return };
        let sending = self.builder(Method::POST, self.agreed.get().copied(), None, None).body(body).send();
        self.setting.tasks.spawn(async move {
            let _ = tokio::time::timeout(Duration::from_millis(ASIDE_MS_MAX), sending).await;
            drop(permit);
        });
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
struct Question<'a> {
    id: i64,
    method: &'static str,
    version: Option<ProtocolVersion>,
    terms: &'a Terms,
}

fn not_connected() -> PerformFailure {
    PerformFailure::unavailable("the deadline passed before a connection took the request, so nothing was sent")
}

/// The body was withdrawn before it was taken.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn")]
struct Withdrawn;

/// An HTTP error in words, without the address, which may hold secrets.
fn describe(error: &reqwest::Error) -> String {
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
