//! What the door reports about itself: the answers to `initialize` and `server/discover`, and the `_meta` of modern
//! results. Rendered once, because identity and capabilities do not change while a door is open.

use servanda_mcp::{ProtocolVersion, envelope::to_json, fields::meta};

use crate::fault::supported_versions;

/// The capabilities reported to every revision, whatever the servers behind the gateway can do.
const CAPABILITIES: &str = r#""tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}"#;
/// What only 2025-11-25 has in its core.
const LEGACY_TASKS: &str = r#","tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#;
/// What the modern era has as an extension instead.
const EXTENSIONS: &str = r#","extensions":{"io.modelcontextprotocol/tasks":{}}"#;

/// How modern clients may cache lists. A client that listens is told of changes at once; five seconds bound how long
/// one that does not listen works with a withdrawn tool, and still spare an agent's loop most of its repeated listings.
/// Private, because a list may depend on the requester.
pub(crate) const CACHING: &str = r#""ttlMs":5000,"cacheScope":"private""#;
/// The same as a number.
pub(crate) const LIST_TTL_MS: u64 = 5000;

/// The server's name for itself. Clients show it; it proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The name of the software.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What a model should know before it uses the tools.
    pub instructions: Option<String>,
}

/// The rendered parts.
#[derive(Debug)]
pub(crate) struct RenderedServerInfo {
    server_info: String,
    instructions_member: String,
    /// The one member that every modern result's `_meta` has, without braces.
    pub(crate) meta_member: String,
    /// The result of `server/discover`.
    pub(crate) discover: String,
}

impl RenderedServerInfo {
    pub(crate) fn new(identity: &ServerIdentity) -> Self {
        let server_info = format!(r#"{{"name":{},"version":{}}}"#, to_json(&identity.name), to_json(&identity.version));
        let instructions_member = identity
            .instructions
            .as_ref()
            .map_or_else(String::new, |instructions| format!(r#","instructions":{}"#, to_json(instructions)));
        let meta_member = format!("{}:{server_info}", to_json(meta::SERVER_INFO));
        let discover = format!(
            r#"{{"resultType":"complete","supportedVersions":{},"capabilities":{{{CAPABILITIES}{EXTENSIONS}}}{instructions_member},{CACHING},"_meta":{{{meta_member}}}}}"#,
            to_json(&supported_versions()),
        );
        Self { server_info, instructions_member, meta_member, discover }
    }

    /// The result of `initialize`.
    pub(crate) fn initialize(&self, version: ProtocolVersion) -> String {
        let tasks = if version == ProtocolVersion::V2025_11_25 { LEGACY_TASKS } else { "" };
        format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{{CAPABILITIES}{tasks}}},"serverInfo":{}{}}}"#,
            self.server_info, self.instructions_member
        )
    }
}

/// The version that a handshake settles on: the requested one if it is legacy, else the newest legacy version.
pub(crate) fn negotiated_version(requested: &str) -> ProtocolVersion {
    ProtocolVersion::from_wire(requested)
        .filter(|version| *version <= ProtocolVersion::NEWEST_LEGACY)
        .unwrap_or(ProtocolVersion::NEWEST_LEGACY)
}

#[cfg(test)]
mod tests {
    use super::{CACHING, LIST_TTL_MS};

    #[test]
    fn the_time_is_written_once() {
        assert!(CACHING.starts_with(&format!(r#""ttlMs":{LIST_TTL_MS},"#)));
    }
}
