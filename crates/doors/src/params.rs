//! The members of `params` that some method needs, each still raw.
//!
//! One struct for every method, so that one parse finds both the era and the parameters. A member that stands twice is
//! refused: what is judged and what is handed on must be the same bytes. Members not named here are not looked at.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use servanda_mcp::Id;

use crate::fault::Fault;

/// The longest chain name, which ends up as a key.
const CHAIN_BYTES_MAX: usize = 256;
/// A W3C `traceparent` has 55; later versions may have more.
const TRACE_PARENT_BYTES_MAX: usize = 128;

/// What stands in `params`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Params<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) notifications: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "requestId")]
    pub(crate) request_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "protocolVersion")]
    pub(crate) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "clientInfo")]
    pub(crate) client_info: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// What stands in `params._meta`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(crate) client_capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/clientInfo")]
    pub(crate) client_info: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "servanda/timeout-ms")]
    caller_wait_ms: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "servanda/chain")]
    chain: Option<&'a RawValue>,
}

/// Keeps `null` apart from absence, which `Option` alone would not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Params<'a> {
    pub(crate) fn parse(params: Option<&'a RawValue>) -> Result<Self, Fault> {
        params.map_or_else(|| Ok(Self::default()), |raw| object(raw, "params"))
    }

    pub(crate) fn meta(&self) -> Result<Meta<'a>, Fault> {
        self.meta.map_or_else(|| Ok(Meta::default()), |raw| object(raw, "_meta"))
    }
}

impl<'a> Meta<'a> {
    /// The token as it was written, to be sent back the same.
    pub(crate) fn progress_token(&self) -> Result<Option<&'a str>, Fault> {
        let Some(raw) = self.progress_token else { return Ok(None) };
        if serde_json::from_str::<Id>(raw.get()).is_err() {
            return Err(Fault::invalid_params("`_meta.progressToken` must be a string or an integer"));
        }
        Ok(Some(raw.get()))
    }

    pub(crate) fn caller_wait_ms(&self) -> Result<Option<u64>, Fault> {
        let Some(raw) = self.caller_wait_ms else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|_| {
            Fault::invalid_params("`_meta[\"servanda/timeout-ms\"]` must be a whole number of milliseconds")
        })
    }

    pub(crate) fn chain(&self) -> Result<Option<String>, Fault> {
        let Some(raw) = self.chain else { return Ok(None) };
        text(raw).filter(|chain| chain.len() <= CHAIN_BYTES_MAX).map(|chain| Some(chain.into_owned())).ok_or_else(
            || {
                Fault::invalid_params(format!(
                    "`_meta[\"servanda/chain\"]` must be a string of at most {CHAIN_BYTES_MAX} bytes"
                ))
            },
        )
    }

    /// Trace context that is no use is dropped, as W3C wants it: it must never fail a call.
    pub(crate) fn trace_parent(&self) -> Option<String> {
        self.traceparent.and_then(text).and_then(|written| trace_parent(&written))
    }
}

/// A usable `traceparent`.
pub(crate) fn trace_parent(written: &str) -> Option<String> {
    let usable = written.len() <= TRACE_PARENT_BYTES_MAX && written.bytes().all(|byte| byte.is_ascii_graphic());
    (usable && !written.is_empty()).then(|| written.to_owned())
}

/// The string that raw JSON is, if it is one.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    // `Cow` borrows only through a field with `serde(borrow)`.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|Text(text)| text)
}

fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue, name: &str) -> Result<T, Fault> {
    // A derived struct would also read an array, member by member.
    if !raw.get().starts_with('{') {
        return Err(Fault::invalid_params(format!("`{name}` must be an object")));
    }
    serde_json::from_str(raw.get()).map_err(|error| Fault::invalid_params(format!("`{name}`: {error}")))
}

#[cfg(test)]
mod tests {
    use servanda_mcp::fields::meta;

    use super::*;

    /// Attributes want literals; the names are written once in `servanda_mcp::fields`, and these must be the same.
    #[test]
    fn meta_members_have_the_protocols_names() {
        let names = [
            meta::PROTOCOL_VERSION,
            meta::CLIENT_CAPABILITIES,
            meta::CLIENT_INFO,
            meta::PROGRESS_TOKEN,
            meta::TRACEPARENT,
            meta::CALLER_WAIT_MS,
            meta::CHAIN,
        ];
        for (place, name) in names.into_iter().enumerate() {
            let text = format!("{{{name:?}:{place}}}");
            let read: Meta<'_> = serde_json::from_str(&text).unwrap();
            let members = [
                read.protocol_version,
                read.client_capabilities,
                read.client_info,
                read.progress_token,
                read.traceparent,
                read.caller_wait_ms,
                read.chain,
            ];
            assert_eq!(members[place].map(RawValue::get), Some(place.to_string().as_str()), "{name}");
        }
    }

    #[test]
    fn null_is_not_absence() {
        let params: Params<'_> = serde_json::from_str(r#"{"arguments":null}"#).unwrap();
        assert_eq!(params.arguments.map(RawValue::get), Some("null"));
        assert!(params.name.is_none());
    }
}
