//! The name under which a tool is exposed. It depends on the tool and on the gateway's own settings, never on other tools.

use std::{collections::BTreeSet, fmt};

use sha2::{Digest as _, Sha256};

use super::{NameLimitProfile, UpstreamTool, tool::SEPARATOR};

/// How many characters of a hash are written.
const HASH_CHARS: usize = 8;

/// A name that agents see and use. An alias: a table, never the text, says which tool it means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExposedName(String);

/// The parts of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamingScheme {
    /// The upstream's id, `__`, the tool's name.
    #[default]
    Prefixed,
    /// The tool's name; for a single upstream.
    Bare,
}

/// How exposed names are made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamePolicy {
    /// The parts that they are made of.
    pub naming: NamingScheme,
    /// The provider whose limits they keep.
    pub profile: NameLimitProfile,
    /// The names of the gateway's own tools, which no other tool gets.
    pub reserved: BTreeSet<String>,
}

impl NamePolicy {
    /// The name of a tool: its parts, if they are acceptable as they are; otherwise their acceptable characters and a hash of
    /// the pair.
    ///
    /// A name that ends like a hashed one is hashed too, so that no tool can have another tool's hashed name.
    pub fn name(&self, tool: &UpstreamTool) -> ExposedName {
        let plain = self.plain(tool);
        if self.profile.accepts(&plain) && !ends_like_hashed(&plain) && !self.reserved.contains(&plain) {
            return ExposedName(plain);
        }
        self.hashed_name(tool)
    }

    /// The name of a tool with the hash of the pair, for the case that the plain name belongs to another tool.
    pub fn hashed_name(&self, tool: &UpstreamTool) -> ExposedName {
        let seed = format!("{}\0{}", tool.upstream, tool.name);
        let hash = servanda_contract::digest::hex(&Sha256::digest(seed.as_bytes()));
        let hash: String = hash.chars().take(HASH_CHARS).collect();
        let plain = self.plain(tool);
        let mut kept = String::new();
        if !plain.chars().next().is_some_and(|first| self.profile.takes_first(first)) {
            kept.push('_');
        }
        kept.extend(plain.chars().map(|character| if self.profile.takes(character) { character } else { '_' }));
        kept.truncate(self.profile.name_chars_max() - HASH_CHARS - 1);
        ExposedName(format!("{}_{hash}", kept.trim_end_matches(['_', '-'])))
    }

    fn plain(&self, tool: &UpstreamTool) -> String {
        match self.naming {
            NamingScheme::Prefixed => format!("{}{SEPARATOR}{}", tool.upstream, tool.name),
            NamingScheme::Bare => tool.name.clone(),
        }
    }
}

impl ExposedName {
    /// A stored name: some policy made it, perhaps not the present one.
    pub(super) const fn from_stored(name: String) -> Self {
        Self(name)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ExposedName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExposedName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn ends_like_hashed(name: &str) -> bool {
    let is_hash = |end: &str| {
        end.len() == HASH_CHARS && end.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    name.rsplit_once('_').is_some_and(|(_, end)| is_hash(end))
}
