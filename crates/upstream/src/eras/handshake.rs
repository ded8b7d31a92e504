//! Decides from a server's answers which era it speaks. Pure functions: the transports do the asking.

use std::sync::Arc;

use serde_json::{Value, value::RawValue};
use servanda_mcp::{Era, ProtocolVersion, RawObject, capabilities::TASKS_EXTENSION, envelope::code, fields::meta};

use crate::{PerformFailure, failure::quote};

/// What is known about a server after the handshake. Its name and version are its own claims; no decision depends on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamPeer {
    pub(crate) version: ProtocolVersion,
    pub(crate) server_name: String,
    pub(crate) server_version: String,
    /// As it wrote them.
    pub(crate) capabilities: Arc<str>,
    pub(crate) announces: AnnouncedChanges,
}

/// Which changes a server says it announces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AnnouncedChanges {
    /// Changes of these lists, by their names in a modern subscription.
    pub(crate) lists: Vec<&'static str>,
    /// Changes of tasks.
    pub(crate) tasks: bool,
}

/// The capabilities with a list, and the name of its changes in a modern subscription.
const LISTS: [(&str, &str); 3] =
    [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];

/// The result of the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EraVerdict {
    /// Modern.
    Modern(UpstreamPeer),
    /// Not modern: try the legacy handshake.
    Legacy,
    /// It went away or could not be reached: nothing is known.
    Gone {
        /// What happened.
        why: String,
    },
}

impl UpstreamPeer {
    pub(crate) fn era(&self) -> Era {
        self.version.era()
    }

    fn read(version: ProtocolVersion, answer: &[u8], server: Option<&Value>) -> Self {
        let text = |name: &str| {
            let value = server.and_then(|server| server.get(name)).and_then(Value::as_str);
            quote(value.unwrap_or("unnamed"))
        };
        let capabilities = serde_json::from_slice::<RawObject<'_>>(answer).ok().and_then(|answer| {
            answer.get("capabilities").map(RawValue::get).filter(|capabilities| capabilities.starts_with('{'))
        });
        let capabilities: Arc<str> = Arc::from(capabilities.unwrap_or("{}"));
        let announces = AnnouncedChanges::read(&capabilities);
        Self { version, server_name: text("name"), server_version: text("version"), capabilities, announces }
    }
}

impl AnnouncedChanges {
    fn read(capabilities: &str) -> Self {
        let capabilities: Value = serde_json::from_str(capabilities).unwrap_or_default();
        let says = |name: &str| {
            capabilities.get(name).and_then(|capability| capability.get("listChanged")) == Some(&Value::Bool(true))
        };
        let extensions = capabilities.get("extensions");
        Self {
            lists: LISTS.into_iter().filter(|(name, _)| says(name)).map(|(_, change)| change).collect(),
            tasks: extensions.and_then(|extensions| extensions.get(TASKS_EXTENSION)).is_some_and(Value::is_object),
        }
    }
}

/// The verdict about a stdio server: modern if it says so or uses errors that only modern servers know; legacy after any other error,
/// whatever its code, and after silence.
pub(crate) fn stdio_verdict(answer: &Result<&[u8], &PerformFailure>) -> EraVerdict {
    match answer {
        Ok(result) => discovered(result),
        // Errors that only the modern protocol knows mean a modern server if there is a common version.
        Err(PerformFailure::Rejected { code: code::UNSUPPORTED_PROTOCOL_VERSION, data, .. }) => {
            let common = supported(data.as_deref()).is_some_and(|versions| versions.contains(&ProtocolVersion::NEWEST));
            if common { modern_without_details() } else { EraVerdict::Legacy }
        }
        Err(PerformFailure::Rejected { code: code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY, .. }) => {
            modern_without_details()
        }
        Err(PerformFailure::Died { why } | PerformFailure::Unavailable { why }) => {
            EraVerdict::Gone { why: why.clone() }
        }
        Err(_) => EraVerdict::Legacy,
    }
}

/// The verdict of an HTTP server.
pub(crate) fn http_verdict(answer: &Result<&[u8], &PerformFailure>) -> EraVerdict {
    match answer {
        // A lost connection proves nothing over HTTP, but some legacy servers just hang up on methods they do not know.
        Err(PerformFailure::Died { .. }) => EraVerdict::Legacy,
        other => stdio_verdict(other),
    }
}

/// Reads the answer to `initialize`.
pub(crate) fn initialized(result: &[u8]) -> Result<UpstreamPeer, String> {
    let answer: Value =
        serde_json::from_slice(result).map_err(|error| format!("the answer to `initialize` is not JSON: {error}"))?;
    let version = answer.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    match ProtocolVersion::from_wire(version).filter(|version| version.era() == Era::Legacy) {
        Some(version) => Ok(UpstreamPeer::read(version, result, answer.get("serverInfo"))),
        None => Err(format!("the server speaks protocol version `{}`, which Servanda does not", quote(version))),
    }
}

/// The known versions that an unsupported-version error lists; none if it lists none.
pub(crate) fn supported(data: Option<&RawValue>) -> Option<Vec<ProtocolVersion>> {
    let data: Value = serde_json::from_str(data?.get()).ok()?;
    Some(versions(data.get("supported")?.as_array()?))
}

fn discovered(result: &[u8]) -> EraVerdict {
    let answer: Value = serde_json::from_slice(result).unwrap_or_default();
    let modern = ProtocolVersion::NEWEST;
    let listed = answer.get("supportedVersions").and_then(Value::as_array);
    if !listed.is_some_and(|listed| versions(listed).contains(&modern)) {
        return EraVerdict::Legacy;
    }
    let server = answer.get("_meta").and_then(|members| members.get(meta::SERVER_INFO)).or(answer.get("serverInfo"));
    EraVerdict::Modern(UpstreamPeer::read(modern, result, server))
}

fn versions(listed: &[Value]) -> Vec<ProtocolVersion> {
    listed.iter().filter_map(|version| ProtocolVersion::from_wire(version.as_str()?)).collect()
}

fn modern_without_details() -> EraVerdict {
    EraVerdict::Modern(UpstreamPeer::read(ProtocolVersion::NEWEST, b"{}", None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: i64, data: Option<&str>) -> PerformFailure {
        let data = data.map(|data| RawValue::from_string(data.to_owned()).unwrap());
        PerformFailure::Rejected { code, message: "no".to_owned(), data, era: Era::Legacy }
    }

    #[derive(Debug, PartialEq)]
    enum Kind {
        Modern,
        Legacy,
        Gone,
    }

    fn kind(verdict: &EraVerdict) -> Kind {
        match verdict {
            EraVerdict::Modern(_) => Kind::Modern,
            EraVerdict::Legacy => Kind::Legacy,
            EraVerdict::Gone { .. } => Kind::Gone,
        }
    }

    #[test]
    fn results_of_the_probe() {
        let table = [
            (r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#, Kind::Modern),
            (r#"{"supportedVersions":["2025-11-25","2026-07-28"]}"#, Kind::Modern),
            (r#"{"supportedVersions":["2031-01-01"]}"#, Kind::Legacy),
            (r#"{"supportedVersions":"2026-07-28"}"#, Kind::Legacy),
            ("{}", Kind::Legacy),
            ("7", Kind::Legacy),
        ];
        for (result, expected) in table {
            assert_eq!(kind(&stdio_verdict(&Ok(result.as_bytes()))), expected, "{result}");
            assert_eq!(kind(&http_verdict(&Ok(result.as_bytes()))), expected, "{result}");
        }
    }

    #[test]
    fn failures_of_the_probe() {
        let died = PerformFailure::Died { why: "exit status: 1".to_owned() };
        let table = [
            (rejected(-32601, None), Kind::Legacy, Kind::Legacy),
            (rejected(-32602, None), Kind::Legacy, Kind::Legacy),
            (rejected(-32000, None), Kind::Legacy, Kind::Legacy),
            (rejected(-32022, Some(r#"{"supported":["2026-07-28"]}"#)), Kind::Modern, Kind::Modern),
            (rejected(-32022, Some(r#"{"supported":["2025-11-25"]}"#)), Kind::Legacy, Kind::Legacy),
            (rejected(-32022, None), Kind::Legacy, Kind::Legacy),
            (rejected(-32020, None), Kind::Modern, Kind::Modern),
            (rejected(-32021, None), Kind::Modern, Kind::Modern),
            (PerformFailure::TimedOut { note: None }, Kind::Legacy, Kind::Legacy),
            (
                PerformFailure::HttpStatus { status: 404, excerpt: String::new(), retry_after_ms: None },
                Kind::Legacy,
                Kind::Legacy,
            ),
            (PerformFailure::malformed("x"), Kind::Legacy, Kind::Legacy),
            (died, Kind::Gone, Kind::Legacy),
            (PerformFailure::unavailable("connection refused"), Kind::Gone, Kind::Gone),
        ];
        for (failure, stdio, http) in table {
            assert_eq!(kind(&stdio_verdict(&Err(&failure))), stdio, "stdio: {failure}");
            assert_eq!(kind(&http_verdict(&Err(&failure))), http, "http: {failure}");
        }
    }

    #[test]
    fn a_modern_server_is_described() {
        let result = br#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},
            "resources":{"listChanged":false},"extensions":{"io.modelcontextprotocol/tasks":{}}},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"git","version":"1.2"}}}"#;
        let expected = UpstreamPeer {
            version: ProtocolVersion::V2026_07_28,
            server_name: "git".to_owned(),
            server_version: "1.2".to_owned(),
            capabilities: Arc::from(
                r#"{"tools":{"listChanged":true},
            "resources":{"listChanged":false},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
            ),
            announces: AnnouncedChanges { lists: vec!["toolsListChanged"], tasks: true },
        };
        assert_eq!(stdio_verdict(&Ok(result)), EraVerdict::Modern(expected));
    }

    #[test]
    fn legacy_versions_are_accepted_and_others_are_not() {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let result = format!(r#"{{"protocolVersion":"{version}","serverInfo":{{"name":"x"}}}}"#);
            let peer = initialized(result.as_bytes()).unwrap();
            assert_eq!((peer.version.as_str(), peer.server_name.as_str()), (version, "x"));
            assert_eq!(peer.server_version, "unnamed");
        }
        for result in [r#"{"protocolVersion":"2026-07-28"}"#, r#"{"protocolVersion":"1.0"}"#, "{}", "null"] {
            assert!(initialized(result.as_bytes()).is_err(), "{result}");
        }
    }
}
