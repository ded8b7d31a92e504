//! Headers of the protocol: what a POST must accept and contain, and the modern era's headers that repeat the body.
//!
//! A proxy in front of the door may have routed by those headers, so they must match the body.

use std::borrow::Cow;

use http::{
    HeaderMap, HeaderName, StatusCode,
    header::{self, AsHeaderName},
};
use servanda_mcp::{Era, ProtocolVersion, fields, header_text};

use crate::fault::ProtocolFault;

/// The protocol's header names, parsed once: a header map compares them faster than text.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(fields::header::PROTOCOL_VERSION);
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static(fields::header::SESSION_ID);
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static(fields::header::LAST_EVENT_ID);
pub(super) const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const METHOD: HeaderName = HeaderName::from_static(fields::header::METHOD);
const NAME: HeaderName = HeaderName::from_static(fields::header::NAME);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(fields::header::IDEMPOTENCY_KEY);

/// A header as text, trimmed. `None` if it is missing, sent twice or not ASCII.
pub(super) fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then(|| value.trim_matches([' ', '\t']))
}

/// The era the version header names, if it names a version.
pub(super) fn era(headers: &HeaderMap) -> Option<Era> {
    let version = text(headers, &PROTOCOL_VERSION)?;
    ProtocolVersion::from_wire(version).map(ProtocolVersion::era)
}

/// A legacy message need not name its version, but must not name a version that does not exist.
pub(super) fn require_known_version(headers: &HeaderMap) -> Result<(), ProtocolFault> {
    if !headers.contains_key(&PROTOCOL_VERSION) || era(headers).is_some() {
        return Ok(());
    }
    Err(ProtocolFault::unsupported_version(text(headers, &PROTOCOL_VERSION).unwrap_or_default()))
}

/// A POST is answered in either form, so the client must accept both.
pub(super) fn require_both_answers_accepted(headers: &HeaderMap) -> Result<(), ProtocolFault> {
    if accepts(headers, "application/json") && accepts(headers, "text/event-stream") {
        return Ok(());
    }
    Err(not_acceptable("`Accept` must list application/json and text/event-stream"))
}

/// A GET is answered with a stream only.
pub(super) fn require_stream_accepted(headers: &HeaderMap) -> Result<(), ProtocolFault> {
    if accepts(headers, "text/event-stream") {
        return Ok(());
    }
    Err(not_acceptable("`Accept` must list text/event-stream"))
}

/// Browsers send other content types across origins without a preflight; JSON needs one.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), ProtocolFault> {
    let content_type = text(headers, &header::CONTENT_TYPE).unwrap_or_default();
    if media_type(content_type).eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ProtocolFault::invalid_request(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type` must be application/json"))
}

/// The version header of a modern request must equal the body's version.
pub(super) fn require_version(headers: &HeaderMap, version: &str) -> Result<(), ProtocolFault> {
    require_equal("MCP-Protocol-Version", text(headers, &PROTOCOL_VERSION).map(Cow::Borrowed), version)
}

/// The method header of a modern request must equal the body's method.
pub(super) fn require_method(headers: &HeaderMap, method: &str) -> Result<(), ProtocolFault> {
    require_equal("Mcp-Method", text(headers, &METHOD).map(Cow::Borrowed), method)
}

/// The name header of a modern request must equal the body's name, once decoded.
pub(super) fn require_name(headers: &HeaderMap, name: &str) -> Result<(), ProtocolFault> {
    require_equal("Mcp-Name", decoded_text(headers, &NAME), name)
}

/// A header that may be encoded, decoded. `None` if it cannot be read.
pub(super) fn decoded_text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<Cow<'_, str>> {
    text(headers, name).and_then(header_text::decode)
}

/// The idempotency key: bare, or quoted as the header's own specification wants it. An unreadable key is refused,
/// because the client relies on it.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ProtocolFault> {
    if !headers.contains_key(&IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    let written = text(headers, &IDEMPOTENCY_KEY);
    let key = written.and_then(|written| match written.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').and_then(unquoted),
        None => Some(written.to_owned()),
    });
    key.map(Some).ok_or_else(|| {
        let message = "the header `Idempotency-Key` is sent twice or cannot be read";
        ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, message).hint("send one key of ASCII characters")
    })
}

/// The inside of a quoted string of a structured header.
fn unquoted(inside: &str) -> Option<String> {
    let mut text = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next().filter(|escaped| matches!(escaped, '\\' | '"'))?),
            '"' => return None,
            other => text.push(other),
        }
    }
    Some(text)
}

/// Messages of a session must name the negotiated version, or none.
pub(super) fn require_negotiated(headers: &HeaderMap, version: ProtocolVersion) -> Result<(), ProtocolFault> {
    match text(headers, &PROTOCOL_VERSION) {
        Some(written) if written != version.as_str() => Err(ProtocolFault::invalid_request(
            StatusCode::BAD_REQUEST,
            format!("the session uses {version}, but `MCP-Protocol-Version` names another version"),
        )
        .hint("repeat the version of the answer to `initialize`, or start a new session")),
        Some(_) | None => Ok(()),
    }
}

fn require_equal(header: &str, written: Option<Cow<'_, str>>, body: &str) -> Result<(), ProtocolFault> {
    match written {
        Some(written) if written == body => Ok(()),
        Some(_) => Err(ProtocolFault::header_mismatch(format!("the header `{header}` does not match the body"))),
        None => Err(ProtocolFault::header_mismatch(format!("the header `{header}` is missing or cannot be read"))),
    }
}

fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let family = wanted.split_once('/').map_or(wanted, |(family, _)| family);
    list(headers, &header::ACCEPT).map(media_type).any(|offered| {
        offered == "*/*"
            || offered.eq_ignore_ascii_case(wanted)
            || offered.strip_suffix("/*").is_some_and(|name| name.eq_ignore_ascii_case(family))
    })
}

fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','))
}

fn media_type(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}

fn not_acceptable(message: &str) -> ProtocolFault {
    ProtocolFault::invalid_request(StatusCode::NOT_ACCEPTABLE, message)
}
