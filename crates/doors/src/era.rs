//! Decides which era a message belongs to, and checks what the modern era requires in every request's `_meta`. The HTTP
//! door checks the headers that HTTP adds to this.

use std::borrow::Cow;

use http::StatusCode;
use servanda_mcp::{Era, ProtocolVersion, fields::method};

use crate::{
    fault::ProtocolFault,
    params::{self, Meta},
};

/// The era of a message. The message's own `_meta` decides. `initialize` without `_meta` is legacy whatever the headers
/// say, because a client of both eras falls back to it.
pub(crate) fn era_of(method: &str, meta: &Meta<'_>, header_version: Option<&str>) -> Era {
    if meta.protocol_version.is_some() {
        return Era::Modern;
    }
    let modern_header = header_version.and_then(ProtocolVersion::from_wire).map(ProtocolVersion::era);
    match method {
        method::INITIALIZE => Era::Legacy,
        method::DISCOVER | method::SUBSCRIPTIONS_LISTEN => Era::Modern,
        _ => modern_header.unwrap_or(Era::Legacy),
    }
}

/// The version that a modern request names, once everything that the era requires in `_meta` is present.
pub(crate) fn requested_version<'a>(meta: &Meta<'a>) -> Result<Cow<'a, str>, ProtocolFault> {
    let version = meta.protocol_version.and_then(params::text);
    let capabilities = meta.client_capabilities.filter(|raw| raw.get().starts_with('{'));
    let missing = match (&version, capabilities) {
        (None, _) => "`_meta[\"io.modelcontextprotocol/protocolVersion\"]` is required and must be a string",
        (_, None) => "`_meta[\"io.modelcontextprotocol/clientCapabilities\"]` is required and must be an object",
        (Some(_), Some(_)) => return Ok(version.unwrap_or_default()),
    };
    Err(ProtocolFault::invalid_params(missing).status(StatusCode::BAD_REQUEST))
}

/// Refuses a version that cannot be served without a handshake.
pub(crate) fn require_modern(version: &str) -> Result<(), ProtocolFault> {
    match ProtocolVersion::from_wire(version).map(ProtocolVersion::era) {
        Some(Era::Modern) => Ok(()),
        Some(Era::Legacy) | None => Err(ProtocolFault::unsupported_version(version)),
    }
}
