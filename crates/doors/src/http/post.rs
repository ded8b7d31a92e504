//! A POST: one message in, its answer out.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, request::Parts},
    response::Response,
};
use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_engine::Gateway;
use servanda_mcp::{
    EnvelopeError, Era, Id, Message,
    fields::{self, method},
};

use super::{Draining, HttpDoor, Lease, body, draining, empty, headers, json, leased_session, refuse, stream};
use crate::{
    call::RunningCall,
    client,
    dispatch::{Peer, Reply, Request},
    era,
    fault::Fault,
    params::{self, Params},
    splice,
};

const TRACE_PARENT: &str = "traceparent";

pub(super) async fn post<G: Gateway>(door: &HttpDoor<G>, parts: &Parts, body: Body) -> Response {
    let bytes = match read(door, parts, body).await {
        Ok(bytes) => bytes,
        Err(fault) => return refuse(&fault, None),
    };
    match Message::parse(&bytes) {
        Ok(Message::Request { id, method, params }) => {
            let request = Incoming { id: &id, method: &method, params, source: &bytes };
            match answer(door, parts, request).await {
                Ok(response) => response,
                Err(fault) => refuse(&fault, Some(&id)),
            }
        }
        Ok(Message::Notification { method, params }) => {
            hear(door, parts, &method, params).unwrap_or_else(|fault| refuse(&fault, None))
        }
        // The door asks its clients nothing, so whatever they answer is taken and forgotten.
        Ok(Message::Response { .. } | Message::Failure { .. }) => empty(StatusCode::ACCEPTED),
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

async fn read<G: Gateway>(door: &HttpDoor<G>, parts: &Parts, body: Body) -> Result<Bytes, Fault> {
    headers::require_both_answers_accepted(&parts.headers)?;
    headers::require_json(&parts.headers)?;
    body::read(&parts.headers, body, door.body_bytes_max, door.body_read_max).await
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
    };
    let (peer, lease) = match request.era {
        Era::Modern => (modern_peer(parts, &request)?, None),
        Era::Legacy if request.method == method::INITIALIZE => {
            headers::require_known_version(&parts.headers)?;
            (Peer::default(), None)
        }
        Era::Legacy => {
            let lease = leased_session(door, &parts.headers)?;
            (lease.session().peer(), Some(lease))
        }
    };
    match door.desk.answer(&request, &peer).await? {
        Reply::Result(result) => Ok(json(splice::response(request.id, &result))),
        Reply::Welcome { result, client } => welcome(door, request.id, &result, client),
        Reply::Listen(subscription) => stream::subscribe(door, subscription, draining(door, parts)),
        Reply::Call(call) if call.streams() => Ok(stream::call(call, lease, draining(door, parts), door.keep_alive)),
        Reply::Call(call) => finish(*call, lease, draining(door, parts)).await,
    }
}

/// Checks what the modern era demands of a request and its headers. The version comes first: what else a request of an
/// unknown version must look like, nobody here knows.
fn modern_peer(parts: &Parts, request: &Request<'_>) -> Result<Peer, Fault> {
    let version = era::requested_version(&request.meta)?;
    headers::require_version(&parts.headers, &version)?;
    era::require_modern(&version)?;
    headers::require_method(&parts.headers, &request.method)?;
    if request.method == method::TOOLS_CALL
        && let Some(name) = request.params.name.and_then(params::text)
    {
        headers::require_name(&parts.headers, &name)?;
    }
    Ok(Peer { client: client::client_name(request.meta.client_info), session: None, in_flight: None })
}

fn welcome<G: Gateway>(door: &HttpDoor<G>, id: &Id, result: &str, client: Option<String>) -> Result<Response, Fault> {
    let session = door.sessions.begin(client, door.desk.gateway.changes()).map_err(|_| {
        Fault::busy("every session is in use", "end a session with DELETE, or try again when one is idle")
    })?;
    let mut response = json(splice::response(id, result));
    if let Ok(value) = HeaderValue::try_from(session) {
        response.headers_mut().insert(HeaderName::from_static(fields::header::SESSION_ID), value);
    }
    Ok(response)
}

/// Waits for the answer. If hyper drops this because the client went away, the call's token is cancelled with it.
async fn finish(call: RunningCall, lease: Option<Lease>, draining: Draining) -> Result<Response, Fault> {
    let answer = tokio::select! {
        biased;
        answer = call.finish() => answer,
        () = draining.give_up.cancelled() => return Err(Fault::end_unknown()),
    };
    drop(lease);
    // A cancelled request gets no response, but its exchange has to end.
    Ok(answer.map_or_else(|| empty(StatusCode::ACCEPTED), json))
}

fn hear<G: Gateway>(
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
        let lease = leased_session(door, &parts.headers)?;
        if method == method::CANCELLED
            && let Some(id) = params.request_id.and_then(|raw| serde_json::from_str::<Id>(raw.get()).ok())
        {
            lease.session().in_flight().cancel(&id);
        }
    }
    Ok(empty(StatusCode::ACCEPTED))
}
