//! What an upstream offers, read definition by definition: one that cannot be used hides no other, and says why.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::Serialize;
use servanda_contract::{legibility::skeleton, shared::Shared};

use crate::pins::{Definition, ListedKind};

/// Everything an upstream says it offers.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Definitions that can be used, in the upstream's order. Names are unique and do not look alike.
    pub definitions: Vec<Shared<Definition>>,
    /// Those that cannot.
    pub rejected: Vec<RejectedDefinition>,
    /// What it lists beside its tools, if it was asked for that.
    pub listed: BTreeMap<ListedKind, Vec<Definition>>,
}

/// A definition that cannot be used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RejectedDefinition {
    /// The tool's own name, where that could be read.
    pub name: Option<String>,
    /// Its place in the upstream's list, from 0.
    pub position: usize,
    /// Why.
    pub reason: String,
    /// What it says, where that could be read: to be looked at, never to be used.
    #[serde(skip)]
    pub definition: Option<Box<Definition>>,
}

impl Inventory {
    /// Reads definitions as an upstream wrote them, each with its name.
    pub fn read<'a>(listed: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::read_each(listed, |_| {})
    }

    /// The same, and has `share` have each definition as soon as it is read, so that what is kept already is not kept twice in between.
    pub fn read_each<'a>(
        listed: impl IntoIterator<Item = (&'a str, &'a str)>,
        mut share: impl FnMut(&mut Shared<Definition>),
    ) -> Self {
        let mut inventory = Self::default();
        let mut looks: BTreeMap<String, String> = BTreeMap::new();
        for (position, (name, text)) in listed.into_iter().enumerate() {
            let read = Definition::read(text).and_then(|definition| match looks.entry(skeleton(name)) {
                // Which of the two is the impostor nobody knows; the one that was there first is no surprise.
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
