//! Pins: what every admitted tool's definition was when somebody last looked at it, and what a definition that differs
//! means. A model sees the contract's text, but a tool that changed its own is not the tool the contract was written for.
//!
//! Pure: reading and writing the lock file, asking upstreams and holding tools back are others' business.

mod definition;
mod difference;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use servanda_contract::Digest;

pub use definition::Definition;
pub use difference::{Difference, Severity, compare};

/// The version of the lock file's format.
pub const LOCK_VERSION: u32 = 1;

/// Every pin, by upstream and tool: the content of `servanda.lock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The version of the format.
    pub servanda_lock: u32,
    /// Pins by upstream, then by the tool's own name.
    pub upstreams: BTreeMap<String, BTreeMap<String, Pin>>,
}

/// One tool's definition as it was pinned. The whole definition is kept, because a digest alone cannot say what changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Of the definition.
    pub digest: Digest,
    /// What a model or a person would have read.
    pub definition: Definition,
}

impl Default for Lock {
    fn default() -> Self {
        Self { servanda_lock: LOCK_VERSION, upstreams: BTreeMap::new() }
    }
}

impl Lock {
    /// The pin of a tool.
    pub fn pin(&self, upstream: &str, tool: &str) -> Option<&Pin> {
        self.upstreams.get(upstream)?.get(tool)
    }

    /// Pins a definition; says whether that changed anything.
    pub fn set(&mut self, upstream: &str, tool: &str, definition: Definition) -> bool {
        let pin = Pin { digest: definition.digest(), definition };
        let before = self.upstreams.entry(upstream.to_owned()).or_default().insert(tool.to_owned(), pin.clone());
        before != Some(pin)
    }
}
