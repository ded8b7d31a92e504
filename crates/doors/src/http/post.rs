//! A POST: one message in, its answer out.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, request::Parts},
    response::Response,
};
use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_authority::{Actor, Authenticated, Method};
use servanda_contract::Caller;
use servanda_engine::{Gateway, Guest};
use servanda_mcp::{
    ClientCapabilities, EnvelopeError, Era, Id, Message, RpcError,
    fields::{self, method},
};

use super::{
    HttpDoor, authority, batch,
    body::{self, ReadBody},
    deliver, empty, headers, json, leased_session, refuse,
    sessions::HttpSession,
    stream,
};
use crate::{
    client,
    dispatch::{Peer, Reply, Request, Soon, Welcome},
    era,
    fault::Fault,
    params::{self, Params},
    running::Departure,
    splice,
};

const TRACE_PARENT: &str = "traceparent";

pub(super) async fn post<G: Gateway>(door: &HttpDoor<G>, parts: &Parts, body: Body) -> Response {
    // Held until the answer is there: so long the message is in memory.
    let read = match read(door, parts, body).await {
        Ok(read) => read,
        Err(fault) => return refuse(&fault, None),
    };
    let bytes = &read.bytes;
    if batch::is_batch(bytes) {
        return batch::post(door, parts, bytes).await.unwrap_or_else(|fault| refuse(&fault, None));
    }
    match Message::parse(bytes) {
        Ok(Message::Request { id, method, params }) => {
            let request = Incoming { id: &id, method: &method, params, source: bytes };
            match answer(door, parts, request).await {
                Ok(response) => response,
                Err(fault) => refuse(&fault, Some(&id)),
            }
        }
        Ok(Message::Notification { method, params }) => {
            hear(door, parts, &method, params).await.unwrap_or_else(|fault| refuse(&fault, None))
        }
        Ok(Message::Response { id, result }) => take_answer(door, parts, Some(&id), Ok(result.to_owned())).await,
        Ok(Message::Failure { id, error }) => take_answer(door, parts, id.as_ref(), Err(error)).await,
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
struct Incoming<'a> {
    id: &'a Id,
    method: &'a str,
    params: Option<&'a RawValue>,
    source: &'a Bytes,
}

async fn read<G: Gateway>(door: &HttpDoor<G>, parts: &Parts, body: Body) -> Result<ReadBody, Fault> {
    headers::require_both_answers_accepted(&parts.headers)?;
    headers::require_json(&parts.headers)?;
    let memory = (&door.large_bodies, &**authority(parts)?);
    body::read_of(memory, (&parts.headers, body), door.body_bytes_max, door.body_read_max).await
}

async fn answer<G: Gateway>(door: &HttpDoor<G>, parts: &Parts, incoming: Incoming<'_>) -> Result<Response, Fault> {
    let header_version = headers::text(&parts.headers, fields::header::PROTOCOL_VERSION);
    let malformed = |fault: Fault| match headers::era(&parts.headers) {
        // Without readable `_meta` a modern request lacks what it must have.
        Some(Era::Modern) => fault.status(StatusCode::BAD_REQUEST),
        Some(Era::Legacy) | None => fault,
    };
    let params = Params::parse(incoming.params).map_err(malformed)?;
    let meta = params.meta().map_err(malformed)?;
    let request = Request {
        era: era::era_of(incoming.method, &meta, header_version),
        id: incoming.id,
        method: incoming.method.into(),
        params,
        meta,
        source: incoming.source,
        trace_parent: headers::text(&parts.headers, TRACE_PARENT),
        idempotency_key: headers::idempotency_key(&parts.headers)?,
    };
    match request.era {
        Era::Modern => answer_modern(door, parts, &request).await,
        Era::Legacy => answer_legacy(door, parts, &request).await,
    }
}

async fn answer_modern<G: Gateway>(
    door: &HttpDoor<G>,
    parts: &Parts,
    request: &Request<'_>,
) -> Result<Response, Fault> {
    require_headers(parts, request)?;
    let modest = door.desk.require_modest(request.meta.client_capabilities);
    modest.map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let peer = modern_peer(door, parts, request)?;
    if request.method == method::TOOLS_CALL
        && let Some(tool) = request.params.name.and_then(params::text)
    {
        let called = (&*tool, request.params.arguments);
        door.param_headers.check(&*door.desk.gateway, &peer.guest, &parts.headers, called)?;
    }
    match door.desk.answer(request, peer)? {
        Reply::Result(result) => Ok(json(splice::response(request.id, &result))),
        Reply::Soon(soon) => Ok(json(splice::response(request.id, &soon.work.await?))),
        Reply::Listen(wanted) => stream::subscribe(door, *wanted, parts).await,
        Reply::Running(running) => deliver::modern(door, parts, running).await,
        Reply::Welcome(_) => Err(Fault::method_not_found(Era::Modern, &request.method)),
    }
}

/// Checks what the modern era demands of a request's headers. The version comes first: what else a request of an unknown
/// version must look like, nobody here knows.
fn require_headers(parts: &Parts, request: &Request<'_>) -> Result<(), Fault> {
    let version = era::requested_version(&request.meta)?;
    headers::require_version(&parts.headers, &version)?;
    era::require_modern(&version)?;
    headers::require_method(&parts.headers, &request.method)?;
    let params = &request.params;
    let name = match &*request.method {
        method::TOOLS_CALL | method::PROMPTS_GET => params.name,
        method::RESOURCES_READ => params.uri,
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => params.task_id,
        _ => None,
    };
    match name.and_then(params::text) {
        Some(name) => headers::require_name(&parts.headers, &name),
        None => Ok(()),
    }
}

fn modern_peer<G>(door: &HttpDoor<G>, parts: &Parts, request: &Request<'_>) -> Result<Peer, Fault> {
    let authority = Arc::clone(authority(parts)?);
    let client = client::client_name(request.meta.client_info);
    let caller = Caller { client, ..authority.caller() };
    let affinity = affinity(door, &authority);
    let capabilities = ClientCapabilities::parse(request.meta.client_capabilities);
    let guest = Guest { caller, authority, era: Era::Modern, capabilities, affinity };
    Ok(Peer { guest, session: None, in_flight: None, departure: Departure::Cancels })
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
    parts: &Parts,
    request: &Request<'_>,
) -> Result<Response, Fault> {
    if request.method == method::INITIALIZE {
        headers::require_known_version(&parts.headers)?;
        let authority = Arc::clone(authority(parts)?);
        let guest = Guest { caller: authority.caller(), authority, era: Era::Legacy, ..Guest::local() };
        let peer = Peer { guest, session: None, in_flight: None, departure: Departure::MeansNothing };
        return match door.desk.answer(request, peer)? {
            Reply::Welcome(welcome) => begin(door, parts, request.id, *welcome).await,
            _ => Err(Fault::method_not_found(Era::Legacy, &request.method)),
        };
    }
    let lease = leased_session(door, parts).await?;
    match door.desk.answer(request, lease.session().peer(authority(parts)?))? {
        Reply::Result(result) => Ok(json(splice::response(request.id, &result))),
        Reply::Soon(soon) => {
            let result = wait_for(door, lease.session(), soon).await?;
            Ok(json(splice::response(request.id, &result)))
        }
        Reply::Running(running) => deliver::legacy(door, parts, lease, running).await,
        Reply::Welcome(_) | Reply::Listen(_) => Err(Fault::method_not_found(Era::Legacy, &request.method)),
    }
}

async fn begin<G: Gateway>(
    door: &HttpDoor<G>,
    parts: &Parts,
    id: &Id,
    mut welcome: Welcome,
) -> Result<Response, Fault> {
    let result = std::mem::take(&mut welcome.result);
    let session = door.reception.begin(authority(parts)?, welcome).await?;
    let mut response = json(splice::response(id, &result));
    if let Ok(value) = HeaderValue::try_from(session) {
        response.headers_mut().insert(HeaderName::from_static(fields::header::SESSION_ID), value);
    }
    Ok(response)
}

/// Waits for an answer of a session; what it changed is written down before the client hears of it.
pub(super) async fn wait_for<G: Gateway>(
    door: &HttpDoor<G>,
    session: &HttpSession,
    soon: Soon,
) -> Result<String, Fault> {
    let result = soon.work.await?;
    if soon.changes_session {
        door.reception.note(session).await;
    }
    Ok(result)
}

async fn hear<G: Gateway>(
    door: &HttpDoor<G>,
    parts: &Parts,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Response, Fault> {
    let params = Params::parse(params).map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let meta = params.meta().map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let header_version = headers::text(&parts.headers, fields::header::PROTOCOL_VERSION);
    // The modern era has nothing to notify a server of: a client that goes away cancels.
    if era::era_of(method, &meta, header_version) == Era::Legacy {
        let lease = leased_session(door, parts).await?;
        note(door, lease.session(), method, &params);
    }
    Ok(empty(StatusCode::ACCEPTED))
}

/// Takes note of what a session says. What nobody here understands is no reason to say anything back.
pub(super) fn note<G: Gateway>(door: &HttpDoor<G>, session: &HttpSession, method: &str, params: &Params<'_>) {
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
    parts: &Parts,
    id: Option<&Id>,
    reply: Result<Box<RawValue>, RpcError>,
) -> Response {
    if headers::era(&parts.headers) == Some(Era::Modern) {
        let fault = Fault::invalid_request(StatusCode::BAD_REQUEST, "nothing was asked, so there is nothing to answer");
        return refuse(&fault, None);
    }
    match leased_session(door, parts).await {
        Ok(lease) => {
            if let Some(id) = id {
                lease.session().session.questions.answer(id, reply);
            }
            empty(StatusCode::ACCEPTED)
        }
        Err(fault) => refuse(&fault, None),
    }
}
