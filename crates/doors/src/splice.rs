//! Answers made by putting strings together: envelopes around results, members into objects that somebody else rendered.
//!
//! Deliberately no `Value` trees: what is spliced around stays byte for byte what it was.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use servanda_mcp::{
    Id,
    envelope::to_json,
    fields::{meta, method},
};

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

/// A response around a result.
pub(crate) fn response(id: &Id, result: &str) -> Vec<u8> {
    let id = to_json(id);
    [r#"{"jsonrpc":"2.0","id":"#, &id, r#","result":"#, result, "}"].concat().into_bytes()
}

/// A tool result as the modern era wants it: with `resultType`, and with our name in `_meta` instead of the upstream's.
/// None if it is not a JSON object with at most one `_meta`, which is the engine's mistake.
pub(crate) fn complete(result: &str, meta_member: &str) -> Option<String> {
    const OPENING: &str = r#"{"resultType":"complete","#;
    let result = result.trim();
    let members = result.strip_prefix('{')?;
    let parsed: WithMeta<'_> = serde_json::from_str(result).ok()?;
    let Some(meta) = parsed.meta else {
        let separator = if members.trim_start().starts_with('}') { "" } else { "," };
        return Some([OPENING, r#""_meta":{"#, meta_member, "}", separator, members].concat());
    };
    let meta = with_member(meta.get(), meta_member)?;
    let (before, after) = around(members, parsed.meta?.get())?;
    Some([OPENING, before, &meta, after].concat())
}

/// A progress notification: the client's token in front of what the upstream said. None if that was not an object.
pub(crate) fn progress(token: &str, params: &str) -> Option<Vec<u8>> {
    let members = params.trim().strip_prefix('{')?;
    let separator = if members.trim_start().starts_with('}') { "" } else { "," };
    let opening = r#"{"jsonrpc":"2.0","method":""#;
    let text = [opening, method::PROGRESS, r#"","params":{"progressToken":"#, token, separator, members, "}"].concat();
    Some(text.into_bytes())
}

/// One line: on stdio a message is a line, in SSE a line break ends the field. Within JSON a raw line break can only be
/// white space between tokens, so a space says the same.
pub(crate) fn single_line(mut message: Vec<u8>) -> Vec<u8> {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message
}

/// The text before and after a part that was borrowed from it.
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
    let mut others: BTreeMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    others.remove(meta::SERVER_INFO);
    let mut text = format!("{{{member}");
    for (name, value) in others {
        text.extend([",", &to_json(&name), ":", value.get()]);
    }
    text.push('}');
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MEMBER: &str = r#""io.modelcontextprotocol/serverInfo":"us""#;

    /// A result as the engine renders it, and what is left of it beside `resultType` and our name.
    #[test]
    fn completing_changes_nothing_else() {
        for (result, members) in [
            ("{}", r#""_meta":{S}}"#),
            (" { } ", r#""_meta":{S} }"#),
            (r#"{"a":1.0}"#, r#""_meta":{S},"a":1.0}"#),
            (r#"{"_meta":{},"a":1}"#, r#""_meta":{S},"a":1}"#),
            ("{\"a\":1,\"_meta\" : {\n\"x\":[1, 2]} }", "\"a\":1,\"_meta\" : {S,\n\"x\":[1, 2]} }"),
            (r#"{"a":{"_meta":5},"\u005fmeta":{"x":1}}"#, r#""a":{"_meta":5},"\u005fmeta":{S,"x":1}}"#),
            (r#"{"_meta":{"z":1,"io.modelcontextprotocol\/serverInfo":{},"x":2}}"#, r#""_meta":{S,"x":2,"z":1}}"#),
        ] {
            let expected = format!(r#"{{"resultType":"complete",{}"#, members.replace('S', MEMBER));
            let completed = complete(result, MEMBER).unwrap();
            assert_eq!(completed, expected);
            let value: Value = serde_json::from_str(&completed).unwrap();
            assert_eq!(value["_meta"]["io.modelcontextprotocol/serverInfo"], "us");
        }
        for broken in ["", "[]", "{", "null", r#"{"_meta":5}"#, r#"{"_meta":{},"_meta":{}}"#] {
            assert_eq!(complete(broken, MEMBER), None, "{broken}");
        }
    }

    #[test]
    fn progress_gets_the_clients_token() {
        for (params, expected) in [
            ("{}", Some(json!({"progressToken": 7}))),
            (" {\n } ", Some(json!({"progressToken": 7}))),
            (r#"{"progress":1,"total":2.5}"#, Some(json!({"progressToken": 7, "progress": 1, "total": 2.5}))),
            ("[]", None),
        ] {
            let message = progress("7", params).map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap());
            assert_eq!(message.map(|message| message["params"].clone()), expected, "{params}");
        }
    }
}
