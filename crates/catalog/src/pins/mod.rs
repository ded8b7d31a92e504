//! Pins: the definition of every admitted tool at the time when a person last agreed to it, and how a different definition is
//! judged. A model sees the contract's text, but a tool that changed its own text is not the tool that the contract was written
//! for.
//!
//! Pure: this module does no file I/O, asks no upstreams and holds no tools; its callers do.

mod bare_resources;
mod comparison;
mod definition;
mod difference;
mod listed_items;
mod policy;
mod schema;
#[cfg(test)]
mod tests;
pub mod text_diff;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use servanda_contract::{
    Digest, Timestamp,
    document::{self, DocumentError},
    shared::{SchemaDocument, Shared},
};

pub use bare_resources::bare_resource;
pub use comparison::compare;
pub use definition::{Definition, TaskSupport, ToolExecution};
pub use difference::{Difference, DifferenceSeverity};
pub use listed_items::{ItemVisibility, ListedKind};
pub use policy::{AdditiveChangePolicy, MissingPinPolicy, PinPolicy, PinVerdict, Pins};

/// The version of the lock file's format.
pub const LOCK_VERSION: u32 = 1;

/// The comment at the head of the file, for its readers.
const HEAD: &str = "\
# What every tool's definition was when a person agreed to it. A tool that changes is held until a person agrees again:
# `servanda diff` shows what changed, `servanda pin` agrees. Keep this file under version control and review it like code.
";

/// Every pin, by upstream and tool: the content of `servanda.lock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    /// The version of the format.
    pub servanda_lock: u32,
    /// Pins by upstream, then by the tool's own name.
    pub upstreams: BTreeMap<String, BTreeMap<String, Pin>>,
    /// Pins of prompts, resources and templates, by upstream, list, and name or URI.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub listed: BTreeMap<String, BTreeMap<ListedKind, BTreeMap<String, Pin>>>,
}

/// One tool's definition as it was pinned. The whole definition is kept, because a digest alone cannot say what changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The digest of the definition.
    pub digest: Digest,
    /// When a person agreed to it, in RFC 3339.
    pub pinned_at: String,
    /// The definition that a model or a person read.
    pub definition: Shared<Definition>,
}

impl Default for LockFile {
    fn default() -> Self {
        Self { servanda_lock: LOCK_VERSION, upstreams: BTreeMap::new(), listed: BTreeMap::new() }
    }
}

impl LockFile {
    /// Reads the text of a lock file; `file` is only named in errors. A pin whose digest does not match its definition was
    /// edited by hand, so no person agreed to it with `servanda pin`.
    pub fn read(file: &str, text: &str) -> Result<Self, DocumentError> {
        let mut lock: Self = document::read_long(file, text)?;
        if lock.servanda_lock != LOCK_VERSION {
            let reason = format!("this servanda reads version {LOCK_VERSION} of the file, not {}", lock.servanda_lock);
            return Err(DocumentError::new(file, "servanda_lock", reason));
        }
        let listed = lock.listed_pins().map(|(upstream, _, name, pin)| (upstream, name, pin));
        for (upstream, tool, pin) in lock.pins().chain(listed) {
            let wrong = if pin.definition.name != *tool {
                Some("is about another name")
            } else if pin.digest != pin.definition.digest() {
                Some("its digest is not its definition's: it was edited by hand, or cut off")
            } else {
                None
            };
            if let Some(wrong) = wrong {
                return Err(DocumentError::new(file, &format!("upstreams.{upstream}.{tool}"), wrong));
            }
        }
        lock.unify();
        Ok(lock)
    }

    /// Keeps equal schemas once: the tools of a server often take the same arguments.
    fn unify(&mut self) {
        let mut seen: HashMap<String, SchemaDocument> = HashMap::new();
        for pin in self.upstreams.values_mut().flat_map(BTreeMap::values_mut) {
            let definition = &mut *pin.definition;
            for schema in [Some(&mut definition.input_schema), definition.output_schema.as_mut()].into_iter().flatten()
            {
                // In the written order, because agents see it.
                let Ok(text) = serde_json::to_string(schema) else { continue };
                match seen.get(&text) {
                    Some(known) => schema.clone_from(known),
                    None => {
                        seen.insert(text, schema.clone());
                    }
                }
            }
        }
    }

    /// The text of a lock file. The same pins give the same text. Text that could not be read again is not written.
    pub fn write(&self) -> Result<String, DocumentError> {
        let text = document::write(self).map(|text| format!("{HEAD}{text}"))?;
        Self::read("servanda.lock", &text).map(|_| text)
    }

    /// The pin of a tool.
    pub fn pin(&self, upstream: &str, tool: &str) -> Option<&Pin> {
        self.upstreams.get(upstream)?.get(tool)
    }

    /// Every pin with its upstream and its tool's own name, in order.
    pub fn pins(&self) -> impl Iterator<Item = (&String, &String, &Pin)> {
        let of = |(upstream, tools)| BTreeMap::iter(tools).map(move |(tool, pin)| (upstream, tool, pin));
        self.upstreams.iter().flat_map(of)
    }

    /// Every pin of prompts, resources and templates, in order.
    pub fn listed_pins(&self) -> impl Iterator<Item = (&String, ListedKind, &String, &Pin)> {
        self.listed.iter().flat_map(|(upstream, lists)| {
            lists.iter().flat_map(move |(kind, pins)| pins.iter().map(move |(name, pin)| (upstream, *kind, name, pin)))
        })
    }

    /// Pins an item of a list; returns whether that changed anything.
    pub fn set_listed(&mut self, upstream: &str, kind: ListedKind, definition: &Definition, now: Timestamp) -> bool {
        let pins = self.listed.entry(upstream.to_owned()).or_default().entry(kind).or_default();
        set_pin(pins, definition, now)
    }

    /// Records that a person agreed to an upstream's lists, even if they are empty.
    pub fn agree_to_lists(&mut self, upstream: &str) {
        self.listed.entry(upstream.to_owned()).or_default();
    }

    /// Pins a definition; returns whether that changed anything. A definition that is already pinned keeps its date.
    pub fn set(&mut self, upstream: &str, definition: &Definition, now: Timestamp) -> bool {
        set_pin(self.upstreams.entry(upstream.to_owned()).or_default(), definition, now)
    }
}

fn set_pin(pins: &mut BTreeMap<String, Pin>, definition: &Definition, now: Timestamp) -> bool {
    let digest = definition.digest();
    if pins.get(&definition.name).is_some_and(|pin| pin.digest == digest) {
        return false;
    }
    let pin = Pin { digest, pinned_at: now.to_string(), definition: definition.in_order().into() };
    pins.insert(definition.name.clone(), pin);
    true
}
