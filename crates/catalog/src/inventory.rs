//! What an upstream offers, read definition by definition. A definition that cannot be used hides no other, and its reason is
//! kept.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::Serialize;
use servanda_contract::{legibility::skeleton, shared::Shared};

use crate::pins::{Definition, ListedKind};

/// Everything an upstream says it offers.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Definitions that can be used, in the upstream's order. Names are unique and do not look alike.
    pub definitions: Vec<Shared<Definition>>,
    /// Definitions that cannot be used.
    pub rejected: Vec<RejectedDefinition>,
    /// Its prompts, resources and templates, if it was asked for them.
    pub listed: BTreeMap<ListedKind, Vec<Definition>>,
}

/// A definition that cannot be used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RejectedDefinition {
    /// The tool's own name, if it could be read.
    pub name: Option<String>,
    /// Its place in the upstream's list, from 0.
    pub position: usize,
    /// The reason.
    pub reason: String,
    /// The definition, if it could be read: for display only, never for use.
    #[serde(skip)]
    pub definition: Option<Box<Definition>>,
}

impl Inventory {
    /// Reads definitions as an upstream wrote them, each with its name.
    pub fn read<'a>(listed: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::read_each(listed, |_| {})
    }

    /// The same, and passes each definition to `share` as soon as it is read, so that memory that equals a kept definition is
    /// freed at once.
    pub fn read_each<'a>(
        listed: impl IntoIterator<Item = (&'a str, &'a str)>,
        mut share: impl FnMut(&mut Shared<Definition>),
    ) -> Self {
        let mut inventory = Self::default();
        let mut looks: BTreeMap<String, String> = BTreeMap::new();
        for (position, (name, text)) in listed.into_iter().enumerate() {
            let read = Definition::read(text).and_then(|definition| match looks.entry(skeleton(name)) {
                // Which of the two is the impostor cannot be known, so the first one stays.
                Entry::Occupied(other) => Err(format!("its name looks like `{}`, which stands before it", other.get())),
                Entry::Vacant(free) => {
                    free.insert(name.to_owned());
                    Ok(definition)
                }
            });
            match read {
                Ok(definition) => {
                    let mut definition = definition.into();
                    share(&mut definition);
                    inventory.definitions.push(definition);
                }
                Err(reason) => {
                    let (name, definition) =
                        (Some(name.to_owned()), Definition::read_unchecked(text).ok().map(Box::new));
                    inventory.rejected.push(RejectedDefinition { name, position, reason, definition });
                }
            }
        }
        inventory
    }

    /// The definition of that name.
    pub fn definition(&self, name: &str) -> Option<&Definition> {
        self.definitions.iter().find(|definition| definition.name == name).map(|definition| &**definition)
    }

    /// Why the definition of that name cannot be used.
    pub fn rejection(&self, name: &str) -> Option<&RejectedDefinition> {
        self.rejected.iter().find(|rejected| rejected.name.as_deref() == Some(name))
    }
}
