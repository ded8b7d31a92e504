//! The bytes of everything Servanda sends to an upstream, and nothing about when they are sent.
//!
//! Raw members are spliced in unchanged: the bytes that were decided about are the bytes that are sent. Only line ends between JSON tokens
//! become spaces, because on standard streams a message is one line.

use std::{io::Write as _, sync::LazyLock};

use serde_json::value::RawValue;
use servanda_mcp::{
    ClientCapabilities, Era, Id, ProtocolVersion,
    envelope::{RequestBody, notification, request},
    fields::{meta, method},
    lines::on_one_line,
};

use crate::RequestOptions;

/// How Servanda names itself.
pub(crate) const CLIENT_NAME: &str = "servanda";
/// Its version.
pub(crate) const CLIENT_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The usual length of the `_meta` of a modern request.
const META_BYTES_EXPECTED: usize = 384;

/// Members of `_meta` that only Servanda writes; a caller's are dropped.
const OURS: [&str; 6] = [
    meta::PROGRESS_TOKEN,
    meta::TRACEPARENT,
    meta::PROTOCOL_VERSION,
    meta::CLIENT_CAPABILITIES,
    meta::CLIENT_INFO,
    meta::LOG_LEVEL,
];

/// The `_meta` members every modern request must have, up to the capabilities.
static MODERN_META: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#""{}":"{}","{}":{},"{}":"#,
        meta::PROTOCOL_VERSION,
        ProtocolVersion::NEWEST,
        meta::CLIENT_INFO,
        client(),
        meta::CLIENT_CAPABILITIES
    )
});

/// The `_meta` of a request with these options; none if it would be empty. The request's id is its progress token.
pub(crate) fn meta_of(id: i64, era: Era, options: &RequestOptions) -> Option<String> {
    let mut members = MetaMembers::default();
    if options.server_messages.is_some() && options.wants_progress {
        let _ = write!(members.add(meta::PROGRESS_TOKEN), "{id}");
    }
    if let Some(trace_parent) = &options.trace_parent {
        members.add_text(meta::TRACEPARENT, trace_parent);
    }
    for (name, value) in options.meta.iter().filter(|(name, _)| !OURS.contains(&name.as_str())) {
        members.add(name).extend_from_slice(value.get().as_bytes());
    }
    if era == Era::Modern {
        if let Some(level) = &options.log_level {
            members.add_text(meta::LOG_LEVEL, level);
        }
        members.add_modern(&options.requester.capabilities);
    }
    members.finish()
}

/// The members of a `_meta` under construction.
#[derive(Default)]
struct MetaMembers(Vec<u8>);

impl MetaMembers {
    /// Begins a member. Its value, which must be JSON, is written next.
    fn add(&mut self, name: &str) -> &mut Vec<u8> {
        self.begin();
        let _ = serde_json::to_writer(&mut self.0, name);
        self.0.push(b':');
        &mut self.0
    }

    fn add_text(&mut self, name: &str, text: &str) {
        let _ = serde_json::to_writer(self.add(name), text);
    }

    fn add_modern(&mut self, capabilities: &ClientCapabilities) {
        self.begin();
        self.0.extend_from_slice(MODERN_META.as_bytes());
        self.0.extend_from_slice(capabilities.as_json().as_bytes());
    }

    fn begin(&mut self) {
        if self.0.is_empty() {
            self.0.reserve(META_BYTES_EXPECTED);
        }
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
    }

    /// The object; none if nothing was added.
    fn finish(mut self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push(b'}');
        // It is made of text and JSON only, so it is valid text.
        String::from_utf8(self.0).ok()
    }
}

pub(crate) fn discover(id: i64) -> Vec<u8> {
    let meta = modern_meta(&ClientCapabilities::none());
    request(&Id::Number(id), method::DISCOVER, Some(&format!(r#"{{"_meta":{{{meta}}}}}"#)))
}

pub(crate) fn initialize(id: i64, capabilities: &ClientCapabilities) -> Vec<u8> {
    let params = format!(
        r#"{{"protocolVersion":"{}","capabilities":{},"clientInfo":{}}}"#,
        ProtocolVersion::NEWEST_LEGACY,
        capabilities.as_json(),
        client()
    );
    on_one_line(request(&Id::Number(id), method::INITIALIZE, Some(&params)))
}

pub(crate) fn initialized() -> Vec<u8> {
    notification(method::INITIALIZED, Some("{}"))
}

/// Asks for the announcements that `filter` names, a JSON object.
pub(crate) fn listen(id: i64, filter: &str, capabilities: &ClientCapabilities) -> Vec<u8> {
    let mut body = RequestBody::new(id, method::SUBSCRIPTIONS_LISTEN, filter.len());
    body.add("notifications", filter.as_bytes());
    body.finish(Some(&format!("{{{}}}", modern_meta(capabilities))))
}

/// A notification with the caller's raw parameters.
pub(crate) fn client_notification(method: &str, params: Option<Box<RawValue>>) -> Vec<u8> {
    let params = params.map_or_else(|| "{}".to_owned(), |params| Box::<str>::from(params).into_string());
    on_one_line(notification(method, Some(&params)))
}

fn modern_meta(capabilities: &ClientCapabilities) -> String {
    format!("{}{}", *MODERN_META, capabilities.as_json())
}

fn client() -> String {
    format!(r#"{{"name":"{CLIENT_NAME}","version":"{CLIENT_VERSION}"}}"#)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::UpstreamRequester;

    const MODERN: &str = concat!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"servanda","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""},"io.modelcontextprotocol/clientCapabilities":"#
    );

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(bytes).unwrap(), expected);
        serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    }

    #[tokio::test]
    async fn meta_says_what_the_era_and_the_terms_ask_for() {
        let quiet = RequestOptions::for_gateway(Instant::now());
        assert_eq!(meta_of(7, Era::Legacy, &quiet), None);
        assert_eq!(meta_of(7, Era::Modern, &quiet).unwrap(), format!("{{{MODERN}{{}}}}"));

        let (sink, _server_messages) = tokio::sync::mpsc::channel(1);
        let capabilities = ClientCapabilities::parse(Some(&raw(r#"{"roots":{}}"#)));
        let talkative = RequestOptions {
            server_messages: Some(sink),
            wants_progress: true,
            log_level: Some("info".to_owned()),
            trace_parent: Some("00-a-b-01".to_owned()),
            meta: vec![
                ("acme/x".to_owned(), raw("{ \"y\":1.0}")),
                ("progressToken".to_owned(), raw("\"theirs\"")),
                ("io.modelcontextprotocol/clientCapabilities".to_owned(), raw("{\"sampling\":{}}")),
            ],
            requester: UpstreamRequester { capabilities, affinity: "a".into(), ..UpstreamRequester::gateway() },
            ..quiet
        };
        let common = r#""progressToken":7,"traceparent":"00-a-b-01","acme/x":{ "y":1.0}"#;
        assert_eq!(meta_of(7, Era::Legacy, &talkative).unwrap(), format!("{{{common}}}"));
        assert_eq!(
            meta_of(7, Era::Modern, &talkative).unwrap(),
            format!(r#"{{{common},"io.modelcontextprotocol/logLevel":"info",{MODERN}{{"roots":{{}}}}}}"#)
        );
    }

    #[test]
    fn handshakes_and_notifications() {
        check(
            &discover(1),
            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{{{MODERN}{{}}}}}}}}"#),
        );
        check(&initialized(), r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#);
        check(
            &client_notification("notifications/roots/list_changed", Some(raw("{\n}"))),
            r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{ }}"#,
        );
        let capabilities = ClientCapabilities::parse(Some(&raw(r#"{"elicitation":{}}"#)));
        let initialize: serde_json::Value = serde_json::from_slice(&initialize(2, &capabilities)).unwrap();
        assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
        assert_eq!(initialize["params"]["capabilities"], serde_json::json!({"elicitation": {}}));
        let listen: serde_json::Value =
            serde_json::from_slice(&listen(4, r#"{"toolsListChanged":true}"#, &ClientCapabilities::none())).unwrap();
        assert_eq!(listen["params"]["notifications"]["toolsListChanged"], true);
    }
}
