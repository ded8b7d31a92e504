//! A tool of an upstream: the server, and the tool's name there.

use std::fmt;

use crate::layers::{ExplicitNamespace, PublicName, ToolAddress};

/// The longest id of an upstream.
const UPSTREAM_CHARS_MAX: usize = 32;
/// The separator between an upstream's id and a tool's name in exposed names.
pub(super) const SEPARATOR: &str = "__";

/// The id that the operator gave an upstream. Neither its address nor the name that it gives itself.
///
/// Without `__` inside and `_` at the end, names that begin with different ids and `__` are different.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(String);

/// A tool of an upstream. The name is the upstream's, byte for byte, because calls to the upstream use it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamTool {
    /// The upstream.
    pub upstream: UpstreamId,
    /// The tool's name there.
    pub name: String,
}

impl UpstreamId {
    /// The id, if it is valid: a letter, then letters, digits, `-` and single `_`.
    pub fn new(id: &str) -> Option<Self> {
        let starts_with_letter = id.chars().next().is_some_and(|first| first.is_ascii_alphabetic());
        let plain = id.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character));
        let told_apart = !id.contains(SEPARATOR) && !id.ends_with('_');
        (starts_with_letter && plain && told_apart && id.len() <= UPSTREAM_CHARS_MAX).then(|| Self(id.to_owned()))
    }

    /// An id made from any text, such as a key of another program's configuration. Different texts can give the same id.
    pub fn from_text(text: &str) -> Self {
        let mut id = String::new();
        for character in text.chars() {
            let character = if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' };
            if !(character == '_' && id.ends_with('_')) {
                id.push(character);
            }
        }
        let begins_with_letter = |id: &str| id.chars().next().is_some_and(|first| first.is_ascii_alphabetic());
        let mut id = id.trim_matches(['_', '-']).to_owned();
        if !begins_with_letter(&id) {
            id.insert_str(0, "server-");
        }
        id.truncate(UPSTREAM_CHARS_MAX);
        Self(id.trim_end_matches('_').to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl UpstreamTool {
    /// The address of this tool on a wire with namespaces: its upstream's id and its name.
    ///
    /// If the two are equal, that wire would read a deferred tool. The namespace of such a tool, and of no other, ends with an
    /// `_`, which no id does. `None` for a tool without a name.
    pub fn address(&self) -> Option<ToolAddress> {
        let name = PublicName::new(self.name.as_str())?;
        let namespace =
            if self.name == self.upstream.0 { format!("{}_", self.upstream) } else { self.upstream.0.clone() };
        Some(ToolAddress { name, namespace: ExplicitNamespace::new(namespace) })
    }
}

impl fmt::Display for UpstreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for UpstreamTool {
    /// For people: a slash, because neither part may be mistaken for an exposed name.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.upstream, self.name)
    }
}
