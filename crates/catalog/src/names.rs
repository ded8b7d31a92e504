//! Exposed names: `<upstream>__<tool>`, or the tool's own name if there is one upstream and the operator wants it.
//!
//! `servanda_identity` makes the names. A name depends only on its upstream and its tool, so it stays when other tools come and
//! go. It is an alias for people and models: no code ever parses one. [`NameTable`] holds present and earlier names, and
//! `name_store` serialises it.

use servanda_contract::legibility::skeleton;
use servanda_identity::layers::gateway::{self, UpstreamId};
pub use servanda_identity::layers::gateway::{NameLimitProfile, NamePolicy, NameTable, UpstreamTool};

/// How many earlier names are remembered, the latest first.
pub const RETIRED_NAMES_MAX: usize = 4096;

/// The prefix of the gateway's own tools. No other exposed name begins with it.
pub const RESERVED_PREFIX: &str = "servanda__";

/// Whether this exposed name is reserved for the gateway's own tools. Case and look-alike letters are ignored, because people
/// and models may not see the difference.
pub fn is_reserved(name: &str) -> bool {
    skeleton(name).to_ascii_lowercase().starts_with(&skeleton(RESERVED_PREFIX).to_ascii_lowercase())
}

/// How exposed names are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposedNaming {
    /// `<upstream>__<tool>`.
    Prefixed,
    /// The tool's own name; only for a single upstream.
    Bare,
}

impl ExposedNaming {
    /// The exposed name of a prompt, or of a tool without an earlier list, within the limits of every provider.
    pub fn expose(self, upstream: &str, name: &str) -> String {
        NamePolicy::from(self).name(&upstream_tool(upstream, name)).to_string()
    }
}

impl From<ExposedNaming> for NamePolicy {
    fn from(naming: ExposedNaming) -> Self {
        let naming = match naming {
            ExposedNaming::Prefixed => gateway::NamingScheme::Prefixed,
            ExposedNaming::Bare => gateway::NamingScheme::Bare,
        };
        Self { naming, ..Self::default() }
    }
}

/// A tool by its upstream's id and its own name.
pub fn upstream_tool(upstream: &str, tool: &str) -> UpstreamTool {
    // The configuration accepts no other ids. An invalid id is converted, and two ids that become equal are refused as one
    // name.
    let upstream = UpstreamId::new(upstream).unwrap_or_else(|| UpstreamId::from_text(upstream));
    UpstreamTool { upstream, name: tool.to_owned() }
}

/// The prefix of an exposed URI, before the upstream's id.
const URI_SCHEME: &str = "servanda://";

impl ExposedNaming {
    /// The exposed URI of a resource or a template. It contains the original byte for byte.
    pub fn expose_uri(self, upstream: &str, uri: &str) -> String {
        match self {
            Self::Prefixed => format!("{URI_SCHEME}{upstream}/{uri}"),
            Self::Bare => uri.to_owned(),
        }
    }

    /// The upstream and the original URI of an exposed one. A bare URI does not name the upstream.
    pub fn original_uri(self, exposed: &str) -> Option<(Option<&str>, &str)> {
        match self {
            Self::Prefixed => {
                let (upstream, uri) = exposed.strip_prefix(URI_SCHEME)?.split_once('/')?;
                is_upstream_id(upstream).then_some((Some(upstream), uri))
            }
            Self::Bare => Some((None, exposed)),
        }
    }
}

/// Whether this is a valid upstream id. Without `__` inside, prefixed names of different upstreams cannot collide.
pub fn is_upstream_id(id: &str) -> bool {
    UpstreamId::new(id).is_some() && !is_reserved(&format!("{id}__"))
}

/// An upstream id made from any text, such as a key of another program's configuration.
pub fn to_upstream_id(text: &str) -> String {
    let id = UpstreamId::from_text(text).to_string();
    if is_upstream_id(&id) { id } else { format!("{id}-server") }
}

#[cfg(test)]
mod tests {
    use super::{ExposedNaming, NameLimitProfile, is_upstream_id, to_upstream_id};

    #[test]
    fn names_are_portable_and_tell_tools_apart() {
        let long = "a".repeat(200);
        let tools =
            ["read_file", "read.file", "read file", "lire_é", "読む", &long, &format!("{long}b"), "9lives", "-x"];
        let mut seen = std::collections::BTreeSet::new();
        for naming in [ExposedNaming::Prefixed, ExposedNaming::Bare] {
            seen.clear();
            for tool in tools {
                let name = naming.expose("files", tool);
                assert!(NameLimitProfile::Portable.accepts(&name), "{name}");
                assert!(seen.insert(name.clone()), "{name} twice");
            }
        }
        assert_eq!(ExposedNaming::Prefixed.expose("files", "read_file"), "files__read_file");
        assert_eq!(ExposedNaming::Bare.expose("files", "read_file"), "read_file");
    }

    #[test]
    fn uris_come_back_as_they_were() {
        for uri in
            ["test://static-text", "file:///a b/ü", "x", "", "servanda://other/test://y", "t://{id}/{?q*}", "a/b"]
        {
            let exposed = ExposedNaming::Prefixed.expose_uri("files", uri);
            assert_eq!(ExposedNaming::Prefixed.original_uri(&exposed), Some((Some("files"), uri)), "{exposed}");
            let bare = ExposedNaming::Bare.expose_uri("files", uri);
            assert_eq!((bare.as_str(), ExposedNaming::Bare.original_uri(&bare)), (uri, Some((None, uri))));
        }
        assert_eq!(ExposedNaming::Prefixed.expose_uri("files", "test://{id}/x"), "servanda://files/test://{id}/x");
        for foreign in ["test://x", "servanda://", "servanda://files", "servanda:///x", "servanda://a b/x", ""] {
            assert_eq!(ExposedNaming::Prefixed.original_uri(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn upstream_ids_cannot_make_prefixes_meet() {
        for id in ["files", "my-db", "a_b", "X9"] {
            assert!(is_upstream_id(id), "{id}");
        }
        for id in ["", "9x", "a__b", "a_", "_a", "a b", "é", &"a".repeat(33)] {
            assert!(!is_upstream_id(id), "{id}");
        }
        for text in
            ["my server!", "__x__", "日本", "a__b", "9lives", "", &"x".repeat(99), "x_______________________________y"]
        {
            assert!(is_upstream_id(&to_upstream_id(text)), "{text} -> {}", to_upstream_id(text));
        }
    }
}
