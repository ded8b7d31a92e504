//! Merging of layers: objects member by member, every other value as a whole. Records for each value which layer it comes from.

use std::{collections::BTreeMap, ops::Bound};

use serde_json::{Map, Value};

use super::{EffectiveContract, Layer, LayerError};
use crate::{ToolContract, document};

/// How deep layers are merged. A file that was read is never nested deeper.
const DEPTH_MAX: usize = 64;

/// Which layer each value of a contract comes from, by JSON Pointer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValueOrigins(BTreeMap<String, Layer>);

impl ValueOrigins {
    /// The layer of the value at a pointer. An object that several layers wrote has no layer.
    pub fn at(&self, pointer: &str) -> Option<Layer> {
        self.0.get(pointer).copied()
    }

    /// Every value, except objects with members, and its layer.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Layer)> {
        self.0.iter().map(|(pointer, layer)| (pointer.as_str(), *layer))
    }

    /// The layer that wrote everything at and below a pointer, if it was a single one.
    pub fn sole(&self, pointer: &str) -> Option<Layer> {
        let below = format!("{pointer}/");
        let mut layers =
            self.0.iter().filter(|(at, _)| *at == pointer || at.starts_with(&below)).map(|(_, layer)| *layer);
        let first = layers.next()?;
        layers.all(|layer| layer == first).then_some(first)
    }
}

/// A contract while its layers are merged.
#[derive(Debug, Default)]
pub(super) struct MergedLayers {
    members: Map<String, Value>,
    origins: ValueOrigins,
}

impl MergedLayers {
    /// Adds a layer on top of the others.
    pub(super) fn put(&mut self, layer_members: Map<String, Value>, layer: Layer) {
        put(&mut self.members, layer_members, layer, "", &mut self.origins, DEPTH_MAX);
    }

    /// The contract that results from the layers.
    pub(super) fn into_contract(self) -> Result<EffectiveContract, LayerError> {
        let Self { members, origins } = self;
        match serde_path_to_error::deserialize::<_, ToolContract>(Value::Object(members)) {
            Ok(contract) => Ok(EffectiveContract { contract, origins }),
            Err(error) => {
                let field = error.path().to_string().trim_end_matches(['?', '.']).to_owned();
                let pointer = format!("/{}", field.replace('.', "/"));
                let reason = document::plain_reason(&error.into_inner().to_string());
                Err(LayerError { layer: origins.at(&pointer).or_else(|| origins.last_below(&pointer)), field, reason })
            }
        }
    }
}

impl ValueOrigins {
    /// The last layer that wrote anything below a pointer. An unknown member is that layer's mistake.
    fn last_below(&self, pointer: &str) -> Option<Layer> {
        let below = format!("{pointer}/");
        self.0.iter().filter(|(at, _)| at.starts_with(&below)).map(|(_, layer)| *layer).max()
    }
}

fn put(
    into: &mut Map<String, Value>,
    members: Map<String, Value>,
    layer: Layer,
    above: &str,
    origins: &mut ValueOrigins,
    depth_left: usize,
) {
    for (name, value) in members {
        let pointer = format!("{above}/{}", name.replace('~', "~0").replace('/', "~1"));
        match (into.get_mut(&name), value) {
            (Some(Value::Object(below)), Value::Object(over)) if depth_left > 0 => {
                origins.0.remove(&pointer);
                put(below, over, layer, &pointer, origins, depth_left - 1);
                note_empty(below, layer, &pointer, origins);
            }
            (_, value) => {
                forget(&pointer, origins);
                note(&value, layer, &pointer, origins);
                into.insert(name, value);
            }
        }
    }
}

/// An object without members counts as a value.
fn note_empty(object: &Map<String, Value>, layer: Layer, pointer: &str, origins: &mut ValueOrigins) {
    if object.is_empty() {
        origins.0.insert(pointer.to_owned(), layer);
    }
}

fn note(value: &Value, layer: Layer, pointer: &str, origins: &mut ValueOrigins) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                note(member, layer, &pointer, origins);
            }
        }
        _ => {
            origins.0.insert(pointer.to_owned(), layer);
        }
    }
}

fn forget(pointer: &str, origins: &mut ValueOrigins) {
    origins.0.remove(pointer);
    // The map sorts all pointers below this one together: `0` is the character after `/`.
    let below = (Bound::Included(format!("{pointer}/")), Bound::Excluded(format!("{pointer}0")));
    let forgotten: Vec<String> = origins.0.range(below).map(|(at, _)| at.clone()).collect();
    for at in forgotten {
        origins.0.remove(&at);
    }
}
