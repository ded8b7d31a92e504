//! A POST: one message in, its answer out.

mod batch;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use hyper::body::Incoming;
use serde_json::value::RawValue;
use servanda_authority::{Actor, Authenticated, Method};
use servanda_contract::Caller;
use servanda_engine::{Gateway, Guest};
use servanda_mcp::{
    ClientCapabilities, EnvelopeError, Era, Id, Message, RpcError, envelope,
    fields::{self, method},
};

use super::{
    HttpDoor, Response, Visit,
    body::{self, ReadBody},
    deliver, empty, headers, json, leased_session, refuse,
    sessions::HttpSession,
    stream,
};
use crate::{
    client,
    dispatch::{Reply, Soon, Welcome},
    era,
    fault::Fault,
    params::{self, CallMessage, Meta, Params},
    request::{Departure, Peer, Request},
};

const TRACE_PARENT: &str = "traceparent";

pub(super) async fn post<G: Gateway>(door: &HttpDoor<G>, visit: &Visit, body: Incoming) -> Response {
    // Held until the answer is there: so long the message is in memory.
    let read = match read(door, visit, body).await {
        Ok(read) => read,
        Err(fault) => return refuse(&fault, None),
    };
    let bytes = &read.bytes;
    if let Some(CallMessage { id, params, meta }) = CallMessage::read(bytes) {
        let request = Posted { id: &id, method: method::TOOLS_CALL, params, meta, source: bytes };
        return answer(door, visit, request).await.unwrap_or_else(|fault| refuse(&fault, Some(&id)));
    }
    if batch::is_batch(bytes) {
        return batch::post(door, visit, bytes).await.unwrap_or_else(|fault| refuse(&fault, None));
    }
    match Message::parse(bytes) {
        Ok(Message::Request { id, method, params }) => {
            let answered = match Posted::read(visit, &id, (&method, params), bytes) {
                Ok(request) => answer(door, visit, request).await,
                Err(fault) => Err(fault),
            };
            answered.unwrap_or_else(|fault| refuse(&fault, Some(&id)))
        }
        Ok(Message::Notification { method, params }) => {
            hear(door, visit, &method, params).await.unwrap_or_else(|fault| refuse(&fault, None))
        }
        Ok(Message::Response { id, result }) => take_answer(door, visit, Some(&id), Ok(result.to_owned())).await,
        Ok(Message::Failure { id, error }) => take_answer(door, visit, id.as_ref(), Err(error)).await,
        Err(error) => {
            let id = match &error {
                EnvelopeError::NotAMessage { id, .. } => id.as_ref(),
                EnvelopeError::NotJson(_) => None,
            };
            refuse(&Fault::envelope(&error), id)
        }
    }
}

/// A request as it arrived.
struct Posted<'a> {
    id: &'a Id,
    method: &'a str,
    params: Params<'a>,
    meta: Meta<'a>,
    source: &'a Bytes,
}

impl<'a> Posted<'a> {
    fn read(
        visit: &Visit,
        id: &'a Id,
        (method, params): (&'a str, Option<&'a RawValue>),
        source: &'a Bytes,
    ) -> Result<Self, Fault> {
        let malformed = |fault: Fault| match headers::era(&visit.headers) {
            // Without readable `_meta` a modern request lacks what it must have.
            Some(Era::Modern) => fault.status(StatusCode::BAD_REQUEST),
            Some(Era::Legacy) | None => fault,
        };
        let params = Params::parse(params).map_err(malformed)?;
        let meta = params.meta().map_err(malformed)?;
        Ok(Self { id, method, params, meta, source })
    }
}

async fn read<G: Gateway>(door: &HttpDoor<G>, visit: &Visit, body: Incoming) -> Result<ReadBody, Fault> {
    headers::require_both_answers_accepted(&visit.headers)?;
    headers::require_json(&visit.headers)?;
    let memory = (&door.large_bodies, &*visit.authority);
    body::read_of(memory, (&visit.headers, body), door.body_bytes_max, door.body_read_max).await
}

async fn answer<G: Gateway>(door: &HttpDoor<G>, visit: &Visit, posted: Posted<'_>) -> Result<Response, Fault> {
    let header_version = headers::text(&visit.headers, fields::header::PROTOCOL_VERSION);
    let request = Request {
        era: era::era_of(posted.method, &posted.meta, header_version),
        id: posted.id,
        method: posted.method.into(),
        params: posted.params,
        meta: posted.meta,
        source: posted.source,
        trace_parent: headers::text(&visit.headers, TRACE_PARENT),
        idempotency_key: headers::idempotency_key(&visit.headers)?,
    };
    match request.era {
        Era::Modern => answer_modern(door, visit, &request).await,
        Era::Legacy => answer_legacy(door, visit, &request).await,
    }
}

async fn answer_modern<G: Gateway>(
    door: &HttpDoor<G>,
    visit: &Visit,
    request: &Request<'_>,
) -> Result<Response, Fault> {
    require_headers(visit, request)?;
    let modest = door.desk.require_modest(request.meta.client_capabilities);
    modest.map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let peer = modern_peer(door, visit, request);
    if request.method == method::TOOLS_CALL
        && let Some(tool) = request.params.name.and_then(params::text)
    {
        let called = (&*tool, request.params.arguments);
        door.param_headers.check(&*door.desk.gateway, &peer.guest, &visit.headers, called)?;
    }
    match door.desk.answer(request, peer)? {
        Reply::Result(result) => Ok(json(envelope::response(request.id, &result))),
        Reply::Soon(soon) => Ok(json(envelope::response(request.id, &soon.work.await?))),
        Reply::Listen(wanted) => stream::subscribe(door, *wanted, visit).await,
        Reply::Running(running) => deliver::modern(door, visit, running).await,
        Reply::Welcome(_) => Err(Fault::method_not_found(Era::Modern, &request.method)),
    }
}

/// Checks what the modern era demands of a request's headers. The version comes first: what else a request of an unknown
/// version must look like, nobody here knows.
fn require_headers(visit: &Visit, request: &Request<'_>) -> Result<(), Fault> {
    let version = era::requested_version(&request.meta)?;
    headers::require_version(&visit.headers, &version)?;
    era::require_modern(&version)?;
    headers::require_method(&visit.headers, &request.method)?;
    let params = &request.params;
    let name = match &*request.method {
        method::TOOLS_CALL | method::PROMPTS_GET => params.name,
        method::RESOURCES_READ => params.uri,
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => params.task_id,
        _ => None,
    };
    match name.and_then(params::text) {
        Some(name) => headers::require_name(&visit.headers, &name),
        None => Ok(()),
    }
}

fn modern_peer<G>(door: &HttpDoor<G>, visit: &Visit, request: &Request<'_>) -> Peer {
    let authority = Arc::clone(&visit.authority);
    let client = client::client_name(request.meta.client_info);
    let caller = Caller { client, ..authority.caller() };
    let affinity = affinity(door, &authority);
    let capabilities = ClientCapabilities::parse(request.meta.client_capabilities);
    let guest = Guest { caller, authority, era: Era::Modern, capabilities, affinity };
    Peer { guest, session: None, in_flight: None, departure: Departure::Cancels }
}

/// What holds a modern caller's requests together. Principals of two tenants may have one name and never anything else, and
/// neither have two agents of one user. Names have no control characters.
fn affinity<G>(door: &HttpDoor<G>, authority: &Authenticated) -> Arc<str> {
    // The name of the one local principal is not made for every request.
    if *authority.method() == Method::Local {
        return Arc::clone(&door.local_affinity);
    }
    let names = [authority.tenant(), authority.principal()].into_iter();
    let names: Vec<&str> = names.chain(authority.actors().iter().map(Actor::name)).collect();
    names.join("\n").into()
}

async fn answer_legacy<G: Gateway>(
    door: &HttpDoor<G>,
    visit: &Visit,
    request: &Request<'_>,
) -> Result<Response, Fault> {
    if request.method == method::INITIALIZE {
        headers::require_known_version(&visit.headers)?;
        let authority = Arc::clone(&visit.authority);
        let guest = Guest { caller: authority.caller(), authority, era: Era::Legacy, ..Guest::local() };
        let peer = Peer { guest, session: None, in_flight: None, departure: Departure::MeansNothing };
        return match door.desk.answer(request, peer)? {
            Reply::Welcome(welcome) => begin(door, visit, request.id, *welcome).await,
            _ => Err(Fault::method_not_found(Era::Legacy, &request.method)),
        };
    }
    let lease = leased_session(door, visit).await?;
    match door.desk.answer(request, lease.session().peer(&visit.authority))? {
        Reply::Result(result) => Ok(json(envelope::response(request.id, &result))),
        Reply::Soon(soon) => {
            let result = wait_for(door, lease.session(), soon).await?;
            Ok(json(envelope::response(request.id, &result)))
        }
        Reply::Running(running) => deliver::legacy(door, visit, lease, running).await,
        Reply::Welcome(_) | Reply::Listen(_) => Err(Fault::method_not_found(Era::Legacy, &request.method)),
    }
}

async fn begin<G: Gateway>(
    door: &HttpDoor<G>,
    visit: &Visit,
    id: &Id,
    mut welcome: Welcome,
) -> Result<Response, Fault> {
    let result = std::mem::take(&mut welcome.result);
    let session = door.reception.begin(&visit.authority, welcome).await?;
    let mut response = json(envelope::response(id, &result));
    if let Ok(value) = HeaderValue::try_from(session) {
        response.headers_mut().insert(HeaderName::from_static(fields::header::SESSION_ID), value);
    }
    Ok(response)
}

/// Waits for an answer of a session; what it changed is written down before the client hears of it.
async fn wait_for<G: Gateway>(door: &HttpDoor<G>, session: &HttpSession, soon: Soon) -> Result<String, Fault> {
    let result = soon.work.await?;
    if soon.changes_session {
        door.reception.note(session).await;
    }
    Ok(result)
}

async fn hear<G: Gateway>(
    door: &HttpDoor<G>,
    visit: &Visit,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Response, Fault> {
    let params = Params::parse(params).map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let meta = params.meta().map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let header_version = headers::text(&visit.headers, fields::header::PROTOCOL_VERSION);
    // The modern era has nothing to notify a server of: a client that goes away cancels.
    if era::era_of(method, &meta, header_version) == Era::Legacy {
        let lease = leased_session(door, visit).await?;
        note(door, lease.session(), method, &params);
    }
    Ok(empty(StatusCode::ACCEPTED))
}

/// Takes note of what a session says. What nobody here understands is no reason to say anything back.
fn note<G: Gateway>(door: &HttpDoor<G>, session: &HttpSession, method: &str, params: &Params<'_>) {
    match method {
        method::CANCELLED => {
            if let Some(id) = params.request_id.and_then(|raw| serde_json::from_str::<Id>(raw.get()).ok()) {
                session.session.in_flight.cancel(&id);
            }
        }
        method::ROOTS_LIST_CHANGED => door.desk.gateway.roots_changed(&session.session.guest),
        _ => {}
    }
}

/// An answer to something we asked. One that answers nothing of this session is taken and forgotten: what it answers may
/// have been withdrawn meanwhile.
async fn take_answer<G: Gateway>(
    door: &HttpDoor<G>,
    visit: &Visit,
    id: Option<&Id>,
    reply: Result<Box<RawValue>, RpcError>,
) -> Response {
    if headers::era(&visit.headers) == Some(Era::Modern) {
        let fault = Fault::invalid_request(StatusCode::BAD_REQUEST, "nothing was asked, so there is nothing to answer");
        return refuse(&fault, None);
    }
    match leased_session(door, visit).await {
        Ok(lease) => {
            if let Some(id) = id {
                lease.session().session.questions.answer(id, reply);
            }
            empty(StatusCode::ACCEPTED)
        }
        Err(fault) => refuse(&fault, None),
    }
}
