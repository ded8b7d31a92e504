//! The HTTP door: Streamable HTTP at `/mcp`, both eras, `/livez`, `/healthz` and `/readyz`, and where clients find out how to be let in.
//!
//! Responsible for what HTTP adds to the protocol: which requests are let in at all, sessions, headers that repeat the
//! body, and the two forms of an answer. TLS is deliberately not here, and whether a credential is good is the doorkeeper's.

mod admit;
mod base64;
mod batch;
mod body;
mod budget;
mod connections;
mod deliver;
mod doorkeeper;
mod headers;
mod health;
mod herald;
mod note;
mod oauth;
mod param_headers;
mod post;
mod queue;
mod reception;
mod reel;
mod serve;
mod sessions;
mod stream;
mod vigil;
mod written;
mod wrong_credentials;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header, request::Parts},
    response::Response,
    routing::{any, get, post as posted},
};
use bytes::Bytes;
use servanda_authority::{Authenticated, challenge::WELL_KNOWN};
use servanda_contract::Caller;
use servanda_engine::Gateway;
use servanda_mcp::{Era, Id, fields};

pub use self::doorkeeper::{Doorkeeper, Exchanged, LocalDoorkeeper, NotAdmitted};
pub use self::health::{Ailment, AlwaysWell, Health, UpstreamsReport};
pub use self::serve::{DRAIN_MS_MAX, serve, serve_draining, serve_with};
use self::{
    admit::Admission,
    connections::LetIn,
    param_headers::ParamHeaders,
    reception::Reception,
    serve::Draining,
    sessions::{Lease, Sessions},
    wrong_credentials::{Peer, WrongCredentials},
};
use crate::{
    dispatch::{Desk, DeskLimits},
    fault::Fault,
    options::HttpOptions,
    places::Places,
};

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
    /// For a router that is served by something else than [`serve`]: nobody ever asks it to drain.
    undisturbed: Draining,
}

/// The routes of the door, to be served with [`serve`] or mounted elsewhere.
///
/// Who calls is the doorkeeper's to say, for every request anew. Sessions belong to whoever began them.
pub fn router<G: Gateway>(gateway: Arc<G>, options: HttpOptions) -> Router {
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
        undisturbed: Draining::default(),
    };
    Router::new()
        .route("/mcp", any(handle::<G>))
        .route(health::ALIVE, get(health::alive::<G>))
        .route(health::WELL, get(health::well::<G>))
        .route(health::READY, get(health::ready::<G>))
        .route(WELL_KNOWN, any(oauth::metadata::<G>))
        .route(&format!("{WELL_KNOWN}/{{*path}}"), any(oauth::metadata::<G>))
        .route("/oauth/token", posted(oauth::exchange::<G>))
        .with_state(Arc::new(door))
}

async fn handle<G: Gateway>(State(door): State<Arc<HttpDoor<G>>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(fault) = door.admission.check(&parts, door.doorkeeper.hostname().as_deref()) {
        return refuse(&fault, None);
    }
    let mut shown = parts.headers.get_all(header::AUTHORIZATION).iter();
    let authorization = shown.next();
    if shown.next().is_some() {
        // Whoever is in between may go by the other.
        let fault = Fault::invalid_request(StatusCode::BAD_REQUEST, "there is more than one `Authorization` header");
        return refuse(&fault.hint("send one credential"), None);
    }
    match door.doorkeeper.admit(authorization).await {
        Ok(authority) => parts.extensions.insert(authority),
        Err(not_admitted) => {
            if let NotAdmitted::Challenged { wrong: Some(why), .. } = &not_admitted {
                door.wrong_credentials.warn(parts.extensions.get::<Peer>().copied(), why);
            }
            return turn_away(&not_admitted);
        }
    };
    let mut response = attend(&door, &parts, body).await;
    response.extensions_mut().insert(LetIn);
    response
}

/// Answers a caller who was let in.
async fn attend<G: Gateway>(door: &HttpDoor<G>, parts: &Parts, body: Body) -> Response {
    let answer = match parts.method {
        Method::POST => return post::post(door, parts, body).await,
        Method::GET => stream::open(door, parts).await,
        Method::DELETE => end_session(door, parts).await,
        _ => return method_not_allowed("GET, POST, DELETE"),
    };
    answer.unwrap_or_else(|fault| refuse(&fault, None))
}

async fn end_session<G: Gateway>(door: &HttpDoor<G>, parts: &Parts) -> Result<Response, Fault> {
    if headers::era(&parts.headers) == Some(Era::Modern) {
        return Ok(method_not_allowed("POST"));
    }
    let lease = leased_session(door, parts).await?;
    door.reception.end(lease.session()).await;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The session a legacy message belongs to.
async fn leased_session<G: Gateway>(door: &HttpDoor<G>, parts: &Parts) -> Result<Lease, Fault> {
    let headers = &parts.headers;
    headers::require_known_version(headers)?;
    let Some(id) = headers::text(headers, fields::header::SESSION_ID) else {
        return Err(Fault::invalid_request(StatusCode::BAD_REQUEST, "the header `Mcp-Session-Id` is missing").hint(
            "send `initialize` first and repeat the session id of its answer, or use 2026-07-28 without a session",
        ));
    };
    let lease = door.reception.lease(id, authority(parts)?).await?;
    headers::require_negotiated(headers, lease.session().session.version)?;
    Ok(lease)
}

/// Who was let in with this request.
fn authority(parts: &Parts) -> Result<&Arc<Authenticated>, Fault> {
    let nobody = || Fault::invalid_request(StatusCode::UNAUTHORIZED, "nobody was let in with this request");
    parts.extensions.get::<Arc<Authenticated>>().ok_or_else(nobody)
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

fn draining<G>(door: &HttpDoor<G>, parts: &Parts) -> Draining {
    parts.extensions.get::<Draining>().unwrap_or(&door.undisturbed).clone()
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

fn json(message: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(message.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
