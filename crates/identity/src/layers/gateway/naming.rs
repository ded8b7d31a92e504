//! The name under which a tool is exposed. It depends on the tool and on the gateway's own settings, never on which other tools
//! there are.

use std::{collections::BTreeSet, fmt};

use sha2::{Digest as _, Sha256};

use super::{NameLimitProfile, UpstreamTool, tool::SEPARATOR};

/// How much of a hash is written.
const HASH_CHARS: usize = 8;

/// A name that agents see and say. An alias: which tool it means is in a table, never in the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExposedName(String);

/// What names are made of.
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
    /// What they are made of.
    pub naming: NamingScheme,
    /// Whose limits they keep to.
    pub profile: NameLimitProfile,
    /// The names of the gateway's own tools, which no other tool gets.
    pub reserved: BTreeSet<String>,
}

impl NamePolicy {
    /// The name of a tool: what it is made of, if that can be taken as it is; otherwise what of it can, and a hash of the pair.
    ///
    /// A name that ends like a hashed one is hashed too, so that no tool can be named like another's hashed name.
    pub fn name(&self, tool: &UpstreamTool) -> ExposedName {
        let plain = self.plain(tool);
        if self.profile.accepts(&plain) && !ends_like_hashed(&plain) && !self.reserved.contains(&plain) {
            return ExposedName(plain);
        }
        self.hashed_name(tool)
    }

    /// The name of a tool with the hash of the pair, for where the plain one is another's.
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
    /// A name that was written down: some policy made it, perhaps not the present one.
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
