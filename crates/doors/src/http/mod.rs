//! The HTTP door: Streamable HTTP at `/mcp`, both eras, `/livez`, `/healthz`, `/readyz` and `/metrics`, and the OAuth
//! endpoints that tell clients how to authenticate. Every other path is passed to the pages for people, if there are any.
//!
//! Responsible for what HTTP adds to the protocol: which requests are accepted at all, sessions, headers that repeat
//! the body, and the two forms of an answer. Deliberately not here: TLS, and the check of a credential, which is the
//! authenticator's.

mod answer_body;
mod authenticator;
mod body;
mod deliver;
mod headers;
mod health;
mod metrics;
mod oauth;
mod options;
mod origin_guard;
mod page_answer;
mod pages;
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
use servanda_authority::{AuthenticatedCaller, challenge::WELL_KNOWN};
use servanda_contract::Caller;
use servanda_engine::Gateway;
use servanda_mcp::{Era, Id};

pub use self::authenticator::{AuthRejection, Authenticator, LocalAuthenticator, TokenExchangeResponse};
pub use self::health::{AlwaysHealthy, Health, HealthProblem, UpstreamsReport};
pub use self::metrics::{MetricsFormat, MetricsSource};
pub use self::options::{HttpOptions, SESSION_IDLE_MS_MAX};
pub use self::pages::{PAGE_BODY_BYTES_MAX, PageBody, PageEvents, PageRequest, PageResponse, Pages};
pub use self::serving::{DRAIN_MS_MAX, DoorThreads, ServingOptions, serve_stream, serve_with};
use self::{
    answer_body::AnswerBody,
    origin_guard::OriginGuard,
    page_answer::PageStreams,
    param_headers::ParamHeaders,
    serving::{DrainSignals, SharedTimer},
    sessions::{HttpSessionLease, HttpSessionRegistry, HttpSessionTable},
    wrong_credentials::WrongCredentialLog,
};
use crate::{dispatch::MethodDispatcher, fault::ProtocolFault, limits::DispatchLimits, slots::CallerSlots};

/// The door's state.
struct HttpDoor<G> {
    dispatcher: MethodDispatcher<G>,
    origin_guard: OriginGuard,
    session_registry: HttpSessionRegistry<G>,
    param_headers: ParamHeaders,
    listen_streams: Arc<CallerSlots>,
    large_bodies: Arc<CallerSlots>,
    body_bytes_max: usize,
    body_read_max: Duration,
    keep_alive: Duration,
    stream_after: Duration,
    reauth_interval: Duration,
    batch_messages_max: usize,
    authenticator: Arc<dyn Authenticator>,
    health: Arc<dyn Health>,
    metrics: Option<Arc<dyn MetricsSource>>,
    pages: Option<Arc<dyn Pages>>,
    page_streams: Arc<PageStreams>,
    wrong_credentials: WrongCredentialLog,
    local_affinity: Arc<str>,
}

/// The door's routes, to be served with [`serve_with`].
pub struct Router<G>(Arc<HttpDoor<G>>);

/// A request as it arrived, without its body.
struct DoorRequestHead {
    parts: Parts,
    peer: IpAddr,
    draining: Arc<DrainSignals>,
    shared_timer: Arc<SharedTimer>,
}

/// A request whose caller is authenticated, without its body.
struct AuthenticatedRequest {
    method: Method,
    headers: HeaderMap,
    /// The caller that this request's credential authenticated.
    authority: Arc<AuthenticatedCaller>,
    draining: Arc<DrainSignals>,
    shared_timer: Arc<SharedTimer>,
}

/// Whether the caller of a request was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthOutcome {
    Authenticated,
    Rejected,
}

type DoorResponse = http::Response<AnswerBody>;

/// Creates a door. The authenticator authenticates every request. A session belongs to the caller that began it.
pub fn router<G: Gateway>(gateway: Arc<G>, options: HttpOptions) -> Router<G> {
    let limits = DispatchLimits {
        page_size: options.page_size,
        requests_in_flight_max: options.calls_in_flight_max,
        watches_max: options.watches_per_session_max,
        capabilities_bytes_max: options.capabilities_bytes_max,
        uri_bytes_max: options.uri_bytes_max,
    };
    let sessions = HttpSessionTable::new(&options);
    let door = HttpDoor {
        dispatcher: MethodDispatcher::new(Arc::clone(&gateway), &options.server, limits),
        session_registry: HttpSessionRegistry::new(gateway, sessions, options.clock),
        param_headers: ParamHeaders::default(),
        listen_streams: CallerSlots::new(options.listen_streams_max),
        large_bodies: body::body_slots(),
        body_bytes_max: options.body_bytes_max,
        body_read_max: Duration::from_millis(options.body_read_ms_max),
        // Tokio's timers reject a duration of zero.
        keep_alive: Duration::from_millis(options.keep_alive_ms.max(1)),
        stream_after: Duration::from_millis(options.stream_after_ms),
        reauth_interval: Duration::from_millis(options.reauth_interval_ms.max(1)),
        batch_messages_max: options.batch_messages_max,
        authenticator: options.authenticator,
        health: options.health,
        metrics: options.metrics,
        pages: options.pages,
        page_streams: Arc::default(),
        wrong_credentials: WrongCredentialLog::default(),
        local_affinity: Caller::local().principal.into(),
        origin_guard: OriginGuard::new(options.allowed_hosts, options.allowed_origins),
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
    /// Answers a request. If this is dropped because the client went away, a call that has begun still runs to its end.
    async fn answer(&self, request_head: DoorRequestHead, body: Incoming) -> (DoorResponse, AuthOutcome) {
        let door = &*self.0;
        let path = request_head.parts.uri.path();
        let response = match path {
            "/mcp" => return door.handle(request_head, body).await,
            health::ALIVE | health::WELL | health::READY => health::answer(door, &request_head),
            metrics::PATH if door.metrics.is_some() => metrics::answer(door, &request_head).await,
            "/oauth/token" if request_head.parts.method == Method::POST => {
                oauth::exchange(door, &request_head, body).await
            }
            "/oauth/token" => not_for_method("POST"),
            path if is_metadata(path) => oauth::metadata(door, &request_head),
            _ if door.pages.is_none() => empty(StatusCode::NOT_FOUND),
            // Boxed, so that a call's future has no room for it. A page keeps no place for its connection: calls have
            // precedence.
            _ => return (Box::pin(page_answer::answer(door, request_head, body)).await, AuthOutcome::Rejected),
        };
        (response, AuthOutcome::Rejected)
    }
}

/// Whether a path names the document about this resource, or about a resource below it.
fn is_metadata(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/').is_some_and(|rest| !rest.is_empty()))
}

impl<G: Gateway> HttpDoor<G> {
    async fn handle(&self, request_head: DoorRequestHead, body: Incoming) -> (DoorResponse, AuthOutcome) {
        match self.authenticate(request_head).await {
            Ok(http_request) => {
                let response = answer_authenticated(self, &http_request, body).await;
                if let Some(reason) = metrics::rejection(response.status()) {
                    self.count_rejection(reason);
                }
                (response, AuthOutcome::Authenticated)
            }
            Err(response) => (*response, AuthOutcome::Rejected),
        }
    }

    /// Authenticates the caller, or answers why it is not accepted.
    async fn authenticate(&self, request_head: DoorRequestHead) -> Result<AuthenticatedRequest, Box<DoorResponse>> {
        let DoorRequestHead { parts, peer, draining, shared_timer } = request_head;
        if let Err(fault) = self.origin_guard.check(&parts, self.authenticator.hostname().as_deref()) {
            self.count_rejection(metrics::BAD_ORIGIN);
            return Err(Box::new(refuse(&fault, None)));
        }
        let mut shown = parts.headers.get_all(header::AUTHORIZATION).iter();
        let authorization = shown.next();
        if shown.next().is_some() {
            // A proxy in between may use the other header.
            self.count_rejection(metrics::MALFORMED);
            let message = "the request has more than one `Authorization` header";
            let fault =
                ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, message).hint("send exactly one credential");
            return Err(Box::new(refuse(&fault, None)));
        }
        match self.authenticator.admit(authorization).await {
            Ok(authority) => Ok(AuthenticatedRequest {
                method: parts.method,
                headers: parts.headers,
                authority,
                draining,
                shared_timer,
            }),
            Err(not_admitted) => {
                self.note_rejection(peer, &not_admitted);
                Err(Box::new(rejection_response(&not_admitted)))
            }
        }
    }
}

impl<G> HttpDoor<G> {
    /// Counts a request whose caller was not accepted, and logs a credential that is not valid.
    fn note_rejection(&self, peer: IpAddr, rejection: &AuthRejection) {
        match rejection {
            AuthRejection::Challenged { wrong: Some(why), .. } => self.note_wrong_credential(peer, why),
            AuthRejection::Challenged { wrong: None, .. } => self.count_rejection(metrics::NO_CREDENTIAL),
            AuthRejection::Unavailable { .. } => self.count_rejection(metrics::CREDENTIAL_UNCHECKED),
        }
    }

    /// Counts and logs a credential that was not accepted.
    fn note_wrong_credential(&self, peer: IpAddr, why: &str) {
        self.count_rejection(metrics::BAD_CREDENTIAL);
        self.wrong_credentials.warn(peer, why);
    }

    /// Counts a request that did not become a call.
    fn count_rejection(&self, reason: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.count_rejection(reason);
        }
    }
}

/// Answers a request whose caller is authenticated.
async fn answer_authenticated<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    body: Incoming,
) -> DoorResponse {
    let answer = match http_request.method {
        Method::POST => return post::post(door, http_request, body).await,
        Method::GET => stream::open(door, http_request).await,
        Method::DELETE => end_session(door, http_request).await,
        _ => return method_not_allowed("GET, POST, DELETE"),
    };
    answer.unwrap_or_else(|fault| refuse(&fault, None))
}

async fn end_session<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
) -> Result<DoorResponse, ProtocolFault> {
    if headers::era(&http_request.headers) == Some(Era::Modern) {
        return Ok(method_not_allowed("POST"));
    }
    let lease = leased_session(door, http_request).await?;
    door.session_registry.end(lease.session()).await;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The session a legacy message belongs to.
async fn leased_session<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
) -> Result<HttpSessionLease, ProtocolFault> {
    let headers = &http_request.headers;
    headers::require_known_version(headers)?;
    let Some(id) = headers::text(headers, &headers::SESSION_ID) else {
        return Err(ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, "the header `Mcp-Session-Id` is missing")
            .hint(
                "send `initialize` first and repeat the session id of its answer, or use 2026-07-28 without a session",
            ));
    };
    let lease = door.session_registry.lease(id, &http_request.authority).await?;
    headers::require_negotiated(headers, lease.session().session.version)?;
    Ok(lease)
}

fn rejection_response(not_admitted: &AuthRejection) -> DoorResponse {
    match not_admitted {
        AuthRejection::Challenged { challenge, message: told, hint, .. } => {
            let (status, header) = authenticator::challenge_header(challenge);
            let mut response = refuse(&ProtocolFault::invalid_request(status, told.clone()).hint(hint), None);
            response.headers_mut().extend(header);
            response
        }
        AuthRejection::Unavailable { message: told } => {
            refuse(&ProtocolFault::busy(told.clone(), "try again in a moment"), None)
        }
    }
}

fn refuse(fault: &ProtocolFault, id: Option<&Id>) -> DoorResponse {
    let mut response = json(fault.message(id));
    *response.status_mut() = fault.status;
    if fault.status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn method_not_allowed(allowed: &'static str) -> DoorResponse {
    let fault =
        ProtocolFault::invalid_request(StatusCode::METHOD_NOT_ALLOWED, "this HTTP method is not supported here");
    let mut response = refuse(&fault, None);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Names the method that a path supports, without a body.
fn not_for_method(allowed: &'static str) -> DoorResponse {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn json(message: impl Into<Bytes>) -> DoorResponse {
    let mut response = DoorResponse::new(AnswerBody::Whole(message.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> DoorResponse {
    let mut response = DoorResponse::new(AnswerBody::empty());
    *response.status_mut() = status;
    response
}
