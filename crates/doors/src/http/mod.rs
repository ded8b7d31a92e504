//! The HTTP door: Streamable HTTP at `/mcp`, both eras, `/livez`, `/healthz` and `/readyz`, and where clients find out how to be let in.
//!
//! Responsible for what HTTP adds to the protocol: which requests are let in at all, sessions, headers that repeat the
//! body, and the two forms of an answer. TLS is deliberately not here, and whether a credential is good is the doorkeeper's.

mod admit;
mod answer_body;
mod body;
mod deliver;
mod doorkeeper;
mod headers;
mod health;
mod oauth;
mod options;
mod param_headers;
mod post;
mod serving;
mod sessions;
mod stream;
mod stream_reauth;
mod wrong_credentials;

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use servanda_authority::{Authenticated, challenge::WELL_KNOWN};
use servanda_contract::Caller;
use servanda_engine::Gateway;
use servanda_mcp::{Era, Id, fields};

pub use self::doorkeeper::{Doorkeeper, Exchanged, LocalDoorkeeper, NotAdmitted};
pub use self::health::{Ailment, AlwaysWell, Health, UpstreamsReport};
pub use self::options::{HttpOptions, SESSION_IDLE_MS_MAX};
pub use self::serving::{DRAIN_MS_MAX, Serving, Threads, serve_stream, serve_with};
use self::{
    admit::Admission,
    answer_body::AnswerBody,
    param_headers::ParamHeaders,
    serving::{Draining, Moments},
    sessions::{Lease, Reception, Sessions},
    wrong_credentials::WrongCredentials,
};
use crate::{dispatch::Desk, fault::Fault, limits::DeskLimits, places::Places};

/// The door's state.
struct HttpDoor<G> {
    desk: Desk<G>,
    admission: Admission,
    reception: Reception<G>,
    param_headers: ParamHeaders,
    listen_streams: Arc<Places>,
    large_bodies: Arc<Places>,
    body_bytes_max: usize,
    body_read_max: Duration,
    keep_alive: Duration,
    answer_moment: Duration,
    standing_check: Duration,
    batch_messages_max: usize,
    doorkeeper: Arc<dyn Doorkeeper>,
    health: Arc<dyn Health>,
    wrong_credentials: WrongCredentials,
    local_affinity: Arc<str>,
}

/// The door's routes, to be served with [`serve_with`].
pub struct Router<G>(Arc<HttpDoor<G>>);

/// A request as it arrived, without its body.
struct Arrival {
    parts: Parts,
    peer: IpAddr,
    draining: Arc<Draining>,
    moments: Arc<Moments>,
}

/// A request whose caller was let in, without its body.
struct Visit {
    method: Method,
    headers: HeaderMap,
    /// Who was let in with this request.
    authority: Arc<Authenticated>,
    draining: Arc<Draining>,
    moments: Arc<Moments>,
}

/// Whether the caller of a request was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    LetIn,
    NotLetIn,
}

type Response = http::Response<AnswerBody>;

/// Makes a door. The doorkeeper authenticates every request. A session belongs to the caller that began it.
pub fn router<G: Gateway>(gateway: Arc<G>, options: HttpOptions) -> Router<G> {
    let limits = DeskLimits {
        page_size: options.page_size,
        requests_in_flight_max: options.calls_in_flight_max,
        watches_max: options.watches_per_session_max,
        capabilities_bytes_max: options.capabilities_bytes_max,
        uri_bytes_max: options.uri_bytes_max,
    };
    let sessions = Sessions::new(&options);
    let door = HttpDoor {
        desk: Desk::new(Arc::clone(&gateway), &options.server, limits),
        reception: Reception::new(gateway, sessions, options.clock),
        param_headers: ParamHeaders::default(),
        listen_streams: Places::new(options.listen_streams_max),
        large_bodies: body::places(),
        body_bytes_max: options.body_bytes_max,
        body_read_max: Duration::from_millis(options.body_read_ms_max),
        // Tokio's timers want a duration that is not zero.
        keep_alive: Duration::from_millis(options.keep_alive_ms.max(1)),
        answer_moment: Duration::from_millis(options.answer_moment_ms),
        standing_check: Duration::from_millis(options.standing_check_ms.max(1)),
        batch_messages_max: options.batch_messages_max,
        doorkeeper: options.doorkeeper,
        health: options.health,
        wrong_credentials: WrongCredentials::default(),
        local_affinity: Caller::local().principal.into(),
        admission: Admission::new(options.allowed_hosts, options.allowed_origins),
    };
    Router(Arc::new(door))
}

impl<G> Clone for Router<G> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<G> fmt::Debug for Router<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Router").finish_non_exhaustive()
    }
}

impl<G: Gateway> Router<G> {
    /// Answers a request. If this is dropped because the client went away, a call that has begun goes on.
    async fn answer(&self, arrival: Arrival, body: Incoming) -> (Response, Standing) {
        let door = &*self.0;
        let path = arrival.parts.uri.path();
        let response = match path {
            "/mcp" => return door.handle(arrival, body).await,
            health::ALIVE | health::WELL | health::READY => health::answer(door, &arrival),
            "/oauth/token" if arrival.parts.method == Method::POST => oauth::exchange(door, &arrival, body).await,
            "/oauth/token" => not_for_method("POST"),
            path if is_metadata(path) => oauth::metadata(door, &arrival),
            _ => empty(StatusCode::NOT_FOUND),
        };
        (response, Standing::NotLetIn)
    }
}

/// Whether a path is that of the document about this resource, or about a resource below it.
fn is_metadata(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/').is_some_and(|rest| !rest.is_empty()))
}

impl<G: Gateway> HttpDoor<G> {
    async fn handle(&self, arrival: Arrival, body: Incoming) -> (Response, Standing) {
        match self.let_in(arrival).await {
            Ok(visit) => (attend(self, &visit, body).await, Standing::LetIn),
            Err(response) => (*response, Standing::NotLetIn),
        }
    }

    /// Lets a caller in, or says why not.
    async fn let_in(&self, arrival: Arrival) -> Result<Visit, Box<Response>> {
        let Arrival { parts, peer, draining, moments } = arrival;
        if let Err(fault) = self.admission.check(&parts, self.doorkeeper.hostname().as_deref()) {
            return Err(Box::new(refuse(&fault, None)));
        }
        let mut shown = parts.headers.get_all(header::AUTHORIZATION).iter();
        let authorization = shown.next();
        if shown.next().is_some() {
            // A proxy in between may use the other header.
            let message = "there is more than one `Authorization` header";
            let fault = Fault::invalid_request(StatusCode::BAD_REQUEST, message).hint("send one credential");
            return Err(Box::new(refuse(&fault, None)));
        }
        match self.doorkeeper.admit(authorization).await {
            Ok(authority) => Ok(Visit { method: parts.method, headers: parts.headers, authority, draining, moments }),
            Err(not_admitted) => {
                if let NotAdmitted::Challenged { wrong: Some(why), .. } = &not_admitted {
                    self.wrong_credentials.warn(peer, why);
                }
                Err(Box::new(turn_away(&not_admitted)))
            }
        }
    }
}

/// Answers a caller who was let in.
async fn attend<G: Gateway>(door: &HttpDoor<G>, visit: &Visit, body: Incoming) -> Response {
    let answer = match visit.method {
        Method::POST => return post::post(door, visit, body).await,
        Method::GET => stream::open(door, visit).await,
        Method::DELETE => end_session(door, visit).await,
        _ => return method_not_allowed("GET, POST, DELETE"),
    };
    answer.unwrap_or_else(|fault| refuse(&fault, None))
}

async fn end_session<G: Gateway>(door: &HttpDoor<G>, visit: &Visit) -> Result<Response, Fault> {
    if headers::era(&visit.headers) == Some(Era::Modern) {
        return Ok(method_not_allowed("POST"));
    }
    let lease = leased_session(door, visit).await?;
    door.reception.end(lease.session()).await;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The session a legacy message belongs to.
async fn leased_session<G: Gateway>(door: &HttpDoor<G>, visit: &Visit) -> Result<Lease, Fault> {
    let headers = &visit.headers;
    headers::require_known_version(headers)?;
    let Some(id) = headers::text(headers, fields::header::SESSION_ID) else {
        return Err(Fault::invalid_request(StatusCode::BAD_REQUEST, "the header `Mcp-Session-Id` is missing").hint(
            "send `initialize` first and repeat the session id of its answer, or use 2026-07-28 without a session",
        ));
    };
    let lease = door.reception.lease(id, &visit.authority).await?;
    headers::require_negotiated(headers, lease.session().session.version)?;
    Ok(lease)
}

fn turn_away(not_admitted: &NotAdmitted) -> Response {
    match not_admitted {
        NotAdmitted::Challenged { challenge, told, hint, .. } => {
            let (status, header) = doorkeeper::header_of(challenge);
            let mut response = refuse(&Fault::invalid_request(status, told.clone()).hint(hint), None);
            response.headers_mut().extend(header);
            response
        }
        NotAdmitted::Later { told } => refuse(&Fault::busy(told.clone(), "try again in a moment"), None),
    }
}

fn refuse(fault: &Fault, id: Option<&Id>) -> Response {
    let mut response = json(fault.message(id));
    *response.status_mut() = fault.status;
    if fault.status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn method_not_allowed(allowed: &'static str) -> Response {
    let fault = Fault::invalid_request(StatusCode::METHOD_NOT_ALLOWED, "this method is not served here");
    let mut response = refuse(&fault, None);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Says which method a path is for, where the path has nothing else to say.
fn not_for_method(allowed: &'static str) -> Response {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn json(message: impl Into<Bytes>) -> Response {
    let mut response = Response::new(AnswerBody::Whole(message.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(AnswerBody::empty());
    *response.status_mut() = status;
    response
}
