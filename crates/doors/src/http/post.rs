//! A POST: one message in, its answer out.

mod batch;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use serde_json::value::RawValue;
use servanda_authority::{Actor, AuthenticatedCaller, CredentialMethod};
use servanda_contract::Caller;
use servanda_engine::{Gateway, Requester};
use servanda_mcp::{ClientCapabilities, EnvelopeError, Era, Id, Message, RpcError, envelope, fields::method};

use super::{
    AuthenticatedRequest, DoorResponse, HttpDoor,
    body::{self, ReadBody},
    deliver, empty, headers, json, leased_session, refuse,
    sessions::HttpSession,
    stream,
};
use crate::{
    client,
    dispatch::{ClientInitialization, DeferredResult, DispatchReply},
    era,
    fault::ProtocolFault,
    params::{self, CallMessage, Meta, Params},
    request::{ClientDisconnectPolicy, DoorRequest, DoorRequestContext},
};

pub(super) async fn post<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    body: Incoming,
) -> DoorResponse {
    // Held until the answer is there, because the message stays in memory that long.
    let read = match read(door, http_request, body).await {
        Ok(read) => read,
        Err(fault) => return refuse(&fault, None),
    };
    let bytes = &read.bytes;
    if let Some(CallMessage { id, params, meta }) = CallMessage::read(bytes) {
        let request = PostedRequest { id: &id, method: method::TOOLS_CALL, params, meta, source: bytes };
        return answer(door, http_request, request).await.unwrap_or_else(|fault| refuse(&fault, Some(&id)));
    }
    if batch::is_batch(bytes) {
        return batch::post(door, http_request, bytes).await.unwrap_or_else(|fault| refuse(&fault, None));
    }
    match Message::parse(bytes) {
        Ok(Message::Request { id, method, params }) => {
            let answered = match PostedRequest::read(http_request, &id, (&method, params), bytes) {
                Ok(request) => answer(door, http_request, request).await,
                Err(fault) => Err(fault),
            };
            answered.unwrap_or_else(|fault| refuse(&fault, Some(&id)))
        }
        Ok(Message::Notification { method, params }) => {
            handle_notification(door, http_request, &method, params).await.unwrap_or_else(|fault| refuse(&fault, None))
        }
        Ok(Message::Response { id, result }) => take_answer(door, http_request, Some(&id), Ok(result.to_owned())).await,
        Ok(Message::Failure { id, error }) => take_answer(door, http_request, id.as_ref(), Err(error)).await,
        Err(error) => {
            let id = match &error {
                EnvelopeError::NotAMessage { id, .. } => id.as_ref(),
                EnvelopeError::NotJson(_) => None,
            };
            refuse(&ProtocolFault::from_envelope_error(&error), id)
        }
    }
}

/// A request as it arrived.
struct PostedRequest<'a> {
    id: &'a Id,
    method: &'a str,
    params: Params<'a>,
    meta: Meta<'a>,
    source: &'a Bytes,
}

impl<'a> PostedRequest<'a> {
    fn read(
        http_request: &AuthenticatedRequest,
        id: &'a Id,
        (method, params): (&'a str, Option<&'a RawValue>),
        source: &'a Bytes,
    ) -> Result<Self, ProtocolFault> {
        let malformed = |fault: ProtocolFault| match headers::era(&http_request.headers) {
            // Without readable `_meta`, a modern request lacks required members.
            Some(Era::Modern) => fault.status(StatusCode::BAD_REQUEST),
            Some(Era::Legacy) | None => fault,
        };
        let params = Params::parse(params).map_err(malformed)?;
        let meta = params.meta().map_err(malformed)?;
        Ok(Self { id, method, params, meta, source })
    }
}

async fn read<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    body: Incoming,
) -> Result<ReadBody, ProtocolFault> {
    headers::require_both_answers_accepted(&http_request.headers)?;
    headers::require_json(&http_request.headers)?;
    let memory = (&door.large_bodies, &*http_request.authority);
    body::read_for_caller(memory, (&http_request.headers, body), door.body_bytes_max, door.body_read_max).await
}

async fn answer<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    posted: PostedRequest<'_>,
) -> Result<DoorResponse, ProtocolFault> {
    let header_version = headers::text(&http_request.headers, &headers::PROTOCOL_VERSION);
    let request = DoorRequest {
        era: era::era_of(posted.method, &posted.meta, header_version),
        id: posted.id,
        method: posted.method.into(),
        params: posted.params,
        meta: posted.meta,
        source: posted.source,
        trace_parent: headers::text(&http_request.headers, &headers::TRACE_PARENT),
        idempotency_key: headers::idempotency_key(&http_request.headers)?,
    };
    match request.era {
        Era::Modern => answer_modern(door, http_request, &request).await,
        Era::Legacy => answer_legacy(door, http_request, &request).await,
    }
}

async fn answer_modern<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    request: &DoorRequest<'_>,
) -> Result<DoorResponse, ProtocolFault> {
    require_headers(http_request, request)?;
    let modest = door.dispatcher.require_bounded_capabilities(request.meta.client_capabilities);
    modest.map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let context = modern_context(door, http_request, request);
    if request.method == method::TOOLS_CALL
        && let Some(tool) = request.params.name.and_then(params::text)
    {
        let called = (&*tool, request.params.arguments);
        door.param_headers.check(&*door.dispatcher.gateway, &context.requester, &http_request.headers, called)?;
    }
    match door.dispatcher.answer(request, context)? {
        DispatchReply::Result(result) => Ok(json(envelope::response(request.id, &result))),
        DispatchReply::Deferred(deferred) => Ok(json(envelope::response(request.id, &deferred.work.await?))),
        DispatchReply::Listen(listen_request) => stream::subscribe(door, *listen_request, http_request).await,
        DispatchReply::Running(running) => deliver::modern(door, http_request, running).await,
        DispatchReply::Initialize(_) => Err(ProtocolFault::method_not_found(Era::Modern, &request.method)),
    }
}

/// Checks the headers that the modern era requires. The version comes first, because the other rules of an unknown
/// version are unknown.
fn require_headers(http_request: &AuthenticatedRequest, request: &DoorRequest<'_>) -> Result<(), ProtocolFault> {
    let version = era::requested_version(&request.meta)?;
    headers::require_version(&http_request.headers, &version)?;
    era::require_modern(&version)?;
    headers::require_method(&http_request.headers, &request.method)?;
    let params = &request.params;
    let name = match &*request.method {
        method::TOOLS_CALL | method::PROMPTS_GET => params.name,
        method::RESOURCES_READ => params.uri,
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => params.task_id,
        _ => None,
    };
    match name.and_then(params::text) {
        Some(name) => headers::require_name(&http_request.headers, &name),
        None => Ok(()),
    }
}

fn modern_context<G>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    request: &DoorRequest<'_>,
) -> DoorRequestContext {
    let authority = Arc::clone(&http_request.authority);
    let client = client::client_name(request.meta.client_info);
    let caller = Arc::new(Caller { client, ..authority.caller() });
    let affinity = affinity(door, &authority);
    let capabilities = ClientCapabilities::parse(request.meta.client_capabilities);
    let requester = Requester { caller, authority, era: Era::Modern, capabilities, affinity };
    DoorRequestContext { requester, session: None, in_flight: None, disconnect_policy: ClientDisconnectPolicy::Cancel }
}

/// The key that groups a modern caller's requests. It contains tenant, principal and agents, because principals of two
/// tenants may have the same name, and two agents of one user are separate. Names have no control characters.
fn affinity<G>(door: &HttpDoor<G>, authority: &AuthenticatedCaller) -> Arc<str> {
    // The key of the one local principal is not built for every request.
    if *authority.method() == CredentialMethod::Local {
        return Arc::clone(&door.local_affinity);
    }
    let names = [authority.tenant(), authority.principal()].into_iter();
    let names: Vec<&str> = names.chain(authority.actors().iter().map(Actor::name)).collect();
    names.join("\n").into()
}

async fn answer_legacy<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    request: &DoorRequest<'_>,
) -> Result<DoorResponse, ProtocolFault> {
    if request.method == method::INITIALIZE {
        headers::require_known_version(&http_request.headers)?;
        let authority = Arc::clone(&http_request.authority);
        let requester =
            Requester { caller: Arc::new(authority.caller()), authority, era: Era::Legacy, ..Requester::local() };
        let context = DoorRequestContext {
            requester,
            session: None,
            in_flight: None,
            disconnect_policy: ClientDisconnectPolicy::KeepRunning,
        };
        return match door.dispatcher.answer(request, context)? {
            DispatchReply::Initialize(initialization) => {
                begin_session(door, http_request, request.id, *initialization).await
            }
            _ => Err(ProtocolFault::method_not_found(Era::Legacy, &request.method)),
        };
    }
    let lease = leased_session(door, http_request).await?;
    match door.dispatcher.answer(request, lease.session().request_context(&http_request.authority))? {
        DispatchReply::Result(result) => Ok(json(envelope::response(request.id, &result))),
        DispatchReply::Deferred(deferred) => {
            let result = await_deferred(door, lease.session(), deferred).await?;
            Ok(json(envelope::response(request.id, &result)))
        }
        DispatchReply::Running(running) => deliver::legacy(door, http_request, lease, running).await,
        DispatchReply::Initialize(_) | DispatchReply::Listen(_) => {
            Err(ProtocolFault::method_not_found(Era::Legacy, &request.method))
        }
    }
}

async fn begin_session<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    id: &Id,
    mut initialization: ClientInitialization,
) -> Result<DoorResponse, ProtocolFault> {
    let result = std::mem::take(&mut initialization.result);
    let session = door.session_registry.begin(&http_request.authority, initialization).await?;
    let mut response = json(envelope::response(id, &result));
    if let Ok(value) = HeaderValue::try_from(session) {
        response.headers_mut().insert(headers::SESSION_ID, value);
    }
    Ok(response)
}

/// Waits for an answer of a session. The session's changes are stored before the client gets the answer.
async fn await_deferred<G: Gateway>(
    door: &HttpDoor<G>,
    session: &HttpSession,
    deferred: DeferredResult,
) -> Result<String, ProtocolFault> {
    let result = deferred.work.await?;
    if deferred.changes_session {
        door.session_registry.write_note(session).await;
    }
    Ok(result)
}

async fn handle_notification<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    method: &str,
    params: Option<&RawValue>,
) -> Result<DoorResponse, ProtocolFault> {
    let params = Params::parse(params).map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let meta = params.meta().map_err(|fault| fault.status(StatusCode::BAD_REQUEST))?;
    let header_version = headers::text(&http_request.headers, &headers::PROTOCOL_VERSION);
    // The modern era has no notifications to the server: a client cancels by going away.
    if era::era_of(method, &meta, header_version) == Era::Legacy {
        let lease = leased_session(door, http_request).await?;
        apply_notification(door, lease.session(), method, &params);
    }
    Ok(empty(StatusCode::ACCEPTED))
}

/// Applies a session's notification. An unknown notification is ignored.
fn apply_notification<G: Gateway>(door: &HttpDoor<G>, session: &HttpSession, method: &str, params: &Params<'_>) {
    match method {
        method::CANCELLED => {
            if let Some(id) = params.request_id.and_then(|raw| serde_json::from_str::<Id>(raw.get()).ok()) {
                session.session.in_flight.cancel(&id);
            }
        }
        method::ROOTS_LIST_CHANGED => door.dispatcher.gateway.roots_changed(&session.session.requester),
        _ => {}
    }
}

/// An answer to a question of ours. An answer that matches no open question of this session is accepted and dropped,
/// because the question may have been withdrawn meanwhile.
async fn take_answer<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    id: Option<&Id>,
    reply: Result<Box<RawValue>, RpcError>,
) -> DoorResponse {
    if headers::era(&http_request.headers) == Some(Era::Modern) {
        let fault = ProtocolFault::invalid_request(
            StatusCode::BAD_REQUEST,
            "this message answers a question, but the gateway asked none",
        );
        return refuse(&fault, None);
    }
    match leased_session(door, http_request).await {
        Ok(lease) => {
            if let Some(id) = id {
                lease.session().session.questions.answer(id, reply);
            }
            empty(StatusCode::ACCEPTED)
        }
        Err(fault) => refuse(&fault, None),
    }
}
