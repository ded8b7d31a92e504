//! The endpoints where clients learn how to authenticate (RFC 9728), and where a credential is exchanged for an agent's
//! (RFC 8693). The authenticator supplies the content. This module bounds the requests, forbids caching, and decides
//! which origins may read the answers.

use http::{HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use servanda_authority::{challenge::WELL_KNOWN, exchange::FORM_BYTES_MAX};
use servanda_engine::Gateway;

use super::{DoorRequestHead, DoorResponse, HttpDoor, body, empty, json, method_not_allowed, refuse};
use crate::fault::ProtocolFault;

/// How long clients may cache the document: short, because the configuration may change.
const METADATA_CACHE: HeaderValue = HeaderValue::from_static("max-age=60");
const EVERY_PAGE: [(HeaderName, HeaderValue); 3] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
    (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET")),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("mcp-protocol-version")),
];
const FORM: &str = "application/x-www-form-urlencoded";

/// The document about this resource. Pages of every origin may read it, because it contains no secret and a client in a
/// browser has no other way to learn where tokens are issued.
pub(super) fn metadata<G: Gateway>(door: &HttpDoor<G>, request_head: &DoorRequestHead) -> DoorResponse {
    let parts = &request_head.parts;
    if let Err(fault) = door.origin_guard.check_host(parts, door.authenticator.hostname().as_deref()) {
        return refuse(&fault, None);
    }
    let mut response = match parts.method {
        Method::GET | Method::HEAD => document(door, parts),
        Method::OPTIONS => empty(StatusCode::NO_CONTENT),
        _ => method_not_allowed("GET"),
    };
    response.headers_mut().extend(EVERY_PAGE);
    response
}

fn document<G>(door: &HttpDoor<G>, parts: &Parts) -> DoorResponse {
    let path = parts.uri.path().strip_prefix(WELL_KNOWN).unwrap_or_default();
    match door.authenticator.metadata(path.strip_suffix('/').unwrap_or(path)) {
        Some(document) => {
            let mut response = json(document);
            response.headers_mut().insert(header::CACHE_CONTROL, METADATA_CACHE);
            response
        }
        None => refuse(&not_here(), None),
    }
}

/// Token exchange. The request and its answer contain credentials, so pages of other origins are refused and caches
/// must not keep the answer.
pub(super) async fn exchange<G: Gateway>(
    door: &HttpDoor<G>,
    request_head: &DoorRequestHead,
    body: Incoming,
) -> DoorResponse {
    let parts = &request_head.parts;
    if let Err(fault) = door.origin_guard.check(parts, door.authenticator.hostname().as_deref()) {
        return refuse(&fault, None);
    }
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(FORM) {
        let message = format!("the body must be `{FORM}`");
        return refuse(&ProtocolFault::invalid_request(StatusCode::UNSUPPORTED_MEDIA_TYPE, message), None);
    }
    let form = match body::read(&parts.headers, body, FORM_BYTES_MAX, door.body_read_max).await {
        Ok(form) => form,
        Err(fault) => return refuse(&fault, None),
    };
    let Some(exchanged) = door.authenticator.exchange(form).await else { return refuse(&not_here(), None) };
    if let Some(why) = &exchanged.wrong_credential {
        let why = format!("in a token exchange: {why}");
        door.note_wrong_credential(request_head.peer, &why);
    }
    let mut response = json(exchanged.body);
    *response.status_mut() = StatusCode::from_u16(exchanged.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

fn not_here() -> ProtocolFault {
    ProtocolFault::invalid_request(
        StatusCode::NOT_FOUND,
        "this endpoint does not exist: the gateway does not ask for credentials",
    )
}
