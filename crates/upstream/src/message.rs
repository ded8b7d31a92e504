//! The bytes of everything Servanda says to an upstream, and nothing about when it is said.
//!
//! Arguments are spliced in as they are: the bytes that were decided about are the bytes that leave.

use std::sync::LazyLock;

use servanda_mcp::{
    Era, Id, ProtocolVersion,
    envelope::{notification, request, to_json},
    fields::{meta, method},
};

/// How Servanda names itself.
pub(crate) const CLIENT_NAME: &str = "servanda";
/// Its version.
pub(crate) const CLIENT_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The `_meta` members every modern request must have.
static MODERN_META: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#""{}":"{}","{}":{{}},"{}":{}"#,
        meta::PROTOCOL_VERSION,
        ProtocolVersion::NEWEST,
        meta::CLIENT_CAPABILITIES,
        meta::CLIENT_INFO,
        client()
    )
});

/// What a request says about itself besides its parameters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallMeta<'a> {
    /// Under which token progress is wanted.
    pub(crate) progress_token: Option<i64>,
    /// W3C trace context.
    pub(crate) trace_parent: Option<&'a str>,
}

pub(crate) fn discover(id: i64) -> Vec<u8> {
    request(&Id::Number(id), method::DISCOVER, &format!(r#"{{"_meta":{{{}}}}}"#, *MODERN_META))
}

pub(crate) fn initialize(id: i64) -> Vec<u8> {
    let params = format!(
        r#"{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{}}}"#,
        ProtocolVersion::NEWEST_LEGACY,
        client()
    );
    request(&Id::Number(id), method::INITIALIZE, &params)
}

pub(crate) fn initialized() -> Vec<u8> {
    notification(method::INITIALIZED, "{}")
}

/// Asks to be told when the tool list changes.
pub(crate) fn listen(id: i64) -> Vec<u8> {
    let params = format!(r#"{{"notifications":{{"toolsListChanged":true}},"_meta":{{{}}}}}"#, *MODERN_META);
    request(&Id::Number(id), method::SUBSCRIPTIONS_LISTEN, &params)
}

pub(crate) fn cancelled(id: i64, reason: &str) -> Vec<u8> {
    notification(method::CANCELLED, &format!(r#"{{"requestId":{id},"reason":{}}}"#, to_json(reason)))
}

pub(crate) fn tools_list(id: i64, era: Era, cursor: Option<&str>) -> Vec<u8> {
    let cursor = cursor.map(|cursor| format!(r#""cursor":{}"#, to_json(cursor)));
    let meta = meta_member(era, CallMeta::default());
    let params = cursor.into_iter().chain(meta).collect::<Vec<_>>().join(",");
    request(&Id::Number(id), method::TOOLS_LIST, &format!("{{{params}}}"))
}

/// `arguments` must be canonical JSON, which has no line ends.
pub(crate) fn tools_call(id: i64, era: Era, tool: &str, arguments: &[u8], call: CallMeta<'_>) -> Vec<u8> {
    debug_assert!(!arguments.contains(&b'\n'), "canonical JSON has no line ends");
    let head =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":{{"name":{}"#, method::TOOLS_CALL, to_json(tool));
    let meta = meta_member(era, call);
    let meta_bytes = meta.as_ref().map_or(0, String::len);
    // Room for the separators and for the line end that stdio adds.
    let mut bytes = Vec::with_capacity(head.len() + arguments.len() + meta_bytes + 24);
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(br#","arguments":"#);
    bytes.extend_from_slice(if arguments.is_empty() { b"{}" } else { arguments });
    if let Some(meta) = meta {
        bytes.push(b',');
        bytes.extend_from_slice(meta.as_bytes());
    }
    bytes.extend_from_slice(b"}}");
    bytes
}

fn meta_member(era: Era, call: CallMeta<'_>) -> Option<String> {
    let mut members = Vec::with_capacity(3);
    if let Some(token) = call.progress_token {
        members.push(format!(r#""{}":{token}"#, meta::PROGRESS_TOKEN));
    }
    if let Some(trace_parent) = call.trace_parent {
        members.push(format!(r#""{}":{}"#, meta::TRACEPARENT, to_json(trace_parent)));
    }
    if era == Era::Modern {
        members.push(MODERN_META.clone());
    }
    (!members.is_empty()).then(|| format!(r#""_meta":{{{}}}"#, members.join(",")))
}

fn client() -> String {
    format!(r#"{{"name":"{CLIENT_NAME}","version":"{CLIENT_VERSION}"}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODERN: &str = concat!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientCapabilities":{},"#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"servanda","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""}"#
    );

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(bytes).unwrap(), expected);
        serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    }

    #[test]
    fn calls_carry_the_arguments_as_they_are() {
        let arguments = br#"{"a":12345678901234567890123,"b":1.0}"#;
        check(
            &tools_call(7, Era::Legacy, "a \"b\"", arguments, CallMeta::default()),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a \"b\"","arguments":{"a":12345678901234567890123,"b":1.0}}}"#,
        );
        check(
            &tools_call(
                7,
                Era::Legacy,
                "t",
                b"",
                CallMeta { progress_token: Some(7), trace_parent: Some("00-a-b-01") },
            ),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":7,"traceparent":"00-a-b-01"}}}"#,
        );
        check(
            &tools_call(7, Era::Modern, "t", b"{}", CallMeta { progress_token: Some(7), trace_parent: None }),
            &format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t","arguments":{{}},"_meta":{{"progressToken":7,{MODERN}}}}}}}"#
            ),
        );
    }

    #[test]
    fn lists_and_handshakes() {
        check(&tools_list(1, Era::Legacy, None), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
        check(
            &tools_list(1, Era::Legacy, Some("")),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":""}}"#,
        );
        check(
            &tools_list(1, Era::Modern, Some("n\"")),
            &format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"cursor":"n\"","_meta":{{{MODERN}}}}}}}"#
            ),
        );
        check(
            &discover(1),
            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{{{MODERN}}}}}}}"#),
        );
        check(
            &cancelled(3, "the deadline passed"),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"the deadline passed"}}"#,
        );
        check(&initialized(), r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#);
        let initialize: serde_json::Value = serde_json::from_slice(&initialize(2)).unwrap();
        assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
        assert_eq!(initialize["params"]["capabilities"], serde_json::json!({}));
        let listen: serde_json::Value = serde_json::from_slice(&listen(4)).unwrap();
        assert_eq!(listen["params"]["notifications"]["toolsListChanged"], true);
    }
}
