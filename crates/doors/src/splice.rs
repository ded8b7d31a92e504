//! Inserts members into rendered objects, and removes members from them. [`servanda_mcp::envelope`] writes the
//! envelopes around them.
//!
//! Deliberately no `Value` trees: everything else stays byte for byte what it was.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use servanda_mcp::{
    RawObject,
    envelope::to_json,
    fields::{meta, method},
};

/// Members of results that only the modern era has.
const RESULT_TYPE: &str = "resultType";
const TTL_MS: &str = "ttlMs";
const CACHE_SCOPE: &str = "cacheScope";
const META: &str = "_meta";

/// The one `_meta` of a result.
#[derive(Deserialize)]
struct WithMeta<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Whether a `_meta` already names a server.
#[derive(Deserialize)]
struct WithServerInfo {
    #[serde(default, rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<IgnoredAny>,
}

/// The kind of a modern result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultType {
    Complete,
    InputRequired,
    Task,
}

/// How long a result may be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// That long in milliseconds, unless its server says otherwise.
    Unless(u64),
    /// Not at all, whatever its server says.
    None,
}

/// A tool result in the modern form: with `resultType`, and with our name in `_meta` instead of the upstream's. `None`
/// if it is not a JSON object with at most one `_meta`, which is the engine's mistake.
pub(crate) fn typed(result: &str, kind: ResultType, meta_member: &str) -> Option<String> {
    let opening = kind.opening();
    let result = result.trim();
    let members = result.strip_prefix('{')?;
    let parsed: WithMeta<'_> = serde_json::from_str(result).ok()?;
    let Some(meta) = parsed.meta else {
        let separator = if members.trim_start().starts_with('}') { "" } else { "," };
        return Some([opening, r#""_meta":{"#, meta_member, "}", separator, members].concat());
    };
    let meta = with_member(meta.get(), meta_member)?;
    let (before, after) = around(members, parsed.meta?.get())?;
    Some([opening, before, &meta, after].concat())
}

/// The same for a result that may be cached. The scope is always private, because what a server shows may depend on the
/// requester.
pub(crate) fn cacheable(result: &str, ttl: Ttl, meta_member: &str) -> Option<String> {
    let object: RawObject<'_> = serde_json::from_str(result).ok()?;
    let said = object.get(TTL_MS).and_then(|raw| serde_json::from_str(raw.get()).ok());
    let ttl_ms = match ttl {
        Ttl::Unless(otherwise_ms) => said.unwrap_or(otherwise_ms),
        Ttl::None => 0,
    };
    let meta = match object.get(META) {
        Some(meta) => with_member(meta.get(), meta_member)?.into_owned(),
        None => format!("{{{meta_member}}}"),
    };
    let mut text = String::with_capacity(result.len() + meta.len() + 96);
    text.extend([ResultType::Complete.opening(), r#""_meta":"#, &meta, ","]);
    object.without(&[RESULT_TYPE, META, TTL_MS, CACHE_SCOPE]).write_members(&mut text);
    text.extend([r#""ttlMs":"#, &ttl_ms.to_string(), r#","cacheScope":"private"}"#]);
    Some(text)
}

/// A result in the legacy form: without `resultType` and, if it is of a cacheable kind, without the caching members.
pub(crate) fn untyped(result: String, cacheable: bool) -> Option<String> {
    let strangers: &[&str] = if cacheable { &[RESULT_TYPE, TTL_MS, CACHE_SCOPE] } else { &[RESULT_TYPE] };
    // Usually there are none, and nothing is parsed.
    if !strangers.iter().any(|name| result.contains(name)) && result.trim_start().starts_with('{') {
        return Some(result);
    }
    let object: RawObject<'_> = serde_json::from_str(&result).ok()?;
    Some(object.without(strangers).to_json())
}

/// A progress notification: the client's token in front of the upstream's members. `None` if those are not an object.
pub(crate) fn progress(token: &str, params: &str) -> Option<Vec<u8>> {
    let members = params.trim().strip_prefix('{')?;
    let separator = if members.trim_start().starts_with('}') { "" } else { "," };
    let opening = r#"{"jsonrpc":"2.0","method":""#;
    let text = [opening, method::PROGRESS, r#"","params":{"progressToken":"#, token, separator, members, "}"].concat();
    Some(text.into_bytes())
}

/// Parameters with one more member in their `_meta`, replacing one of that name. `None` if they are not an object.
pub(crate) fn tagged(params: Option<&RawValue>, name: &str, value: &str) -> Option<String> {
    let params: RawObject<'_> = params.map_or_else(|| Some(RawObject::default()), parsed)?;
    let meta: RawObject<'_> = params.get(META).map_or_else(|| Some(RawObject::default()), parsed)?;
    let mut text = String::from(r#"{"_meta":{"#);
    meta.without(&[name]).write_members(&mut text);
    text.extend([&to_json(name), ":", value, "},"]);
    params.without(&[META]).write_members(&mut text);
    text.pop();
    text.push('}');
    Some(text)
}

impl ResultType {
    const fn opening(self) -> &'static str {
        match self {
            Self::Complete => r#"{"resultType":"complete","#,
            Self::InputRequired => r#"{"resultType":"input_required","#,
            Self::Task => r#"{"resultType":"task","#,
        }
    }
}

fn parsed(raw: &RawValue) -> Option<RawObject<'_>> {
    serde_json::from_str(raw.get()).ok()
}

/// The text before and after a part that borrows from it.
fn around<'a>(whole: &'a str, part: &str) -> Option<(&'a str, &'a str)> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    Some((whole.get(..start)?, whole.get(start.checked_add(part.len())?..)?))
}

fn with_member<'a>(object: &'a str, member: &str) -> Option<Cow<'a, str>> {
    let members = object.strip_prefix('{')?;
    let named: WithServerInfo = serde_json::from_str(object).ok()?;
    if named.server_info.is_none() {
        let separator = if members.trim_start().starts_with('}') { "" } else { "," };
        return Some(["{", member, separator, members].concat().into());
    }
    let others: RawObject<'_> = serde_json::from_str(object).ok()?;
    let mut text = format!("{{{member},");
    others.without(&[meta::SERVER_INFO]).write_members(&mut text);
    text.pop();
    text.push('}');
    Some(text.into())
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
