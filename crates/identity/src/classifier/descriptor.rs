//! A tool's descriptor as the classifier reads it: what an upstream lists, or a line of a corpus.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::mask;

/// A tool definition, limited to what the classifier reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its own name.
    #[serde(default, deserialize_with = "name")]
    pub name: String,
    /// The title for people.
    #[serde(default, deserialize_with = "text")]
    pub title: Option<String>,
    /// The description for models.
    #[serde(default, deserialize_with = "text")]
    pub description: Option<String>,
    /// The schema of the arguments.
    #[serde(default, alias = "input_schema", deserialize_with = "object")]
    pub input_schema: Option<Map<String, Value>>,
    /// The schema of the structured result.
    #[serde(default, alias = "output_schema", deserialize_with = "object")]
    pub output_schema: Option<Map<String, Value>>,
    /// The author's hints.
    #[serde(default, deserialize_with = "annotations")]
    pub annotations: Option<Annotations>,
}

/// MCP's annotations: the author's claims, never proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// The author says that it changes nothing.
    #[serde(default, deserialize_with = "boolean")]
    pub read_only_hint: Option<bool>,
    /// The author says that it may destroy.
    #[serde(default, deserialize_with = "boolean")]
    pub destructive_hint: Option<bool>,
    /// The author says that calling it twice has the effect of one call.
    #[serde(default, deserialize_with = "boolean")]
    pub idempotent_hint: Option<bool>,
    /// The author says that it reaches outside.
    #[serde(default, deserialize_with = "boolean")]
    pub open_world_hint: Option<bool>,
}

impl Descriptor {
    /// The same tool with its name withheld, as the classifier reads it without names: no name, no title, and the name masked
    /// wherever it occurs as an identifier.
    #[must_use]
    pub fn without_name(&self) -> Self {
        let masked = |schema: &Map<String, Value>| {
            let mut schema = schema.clone();
            schema.values_mut().for_each(|value| mask_all(value, &self.name));
            schema
        };
        Self {
            name: String::new(),
            title: None,
            description: self.description.as_ref().map(|text| mask::masked(text, &self.name)),
            input_schema: self.input_schema.as_ref().map(masked),
            output_schema: self.output_schema.as_ref().map(masked),
            annotations: self.annotations,
        }
    }
}

fn mask_all(value: &mut Value, name: &str) {
    match value {
        Value::String(text) => *text = mask::masked(text, name),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_all(item, name)),
        Value::Object(members) => members.values_mut().for_each(|member| mask_all(member, name)),
        _ => {}
    }
}

/// A name; empty if the value is not a text.
fn name<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    text(source).map(Option::unwrap_or_default)
}

/// A text, or `None`.
fn text<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(source)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// Hints, or `None`.
fn annotations<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Annotations>, D::Error> {
    let value = Value::deserialize(source)?;
    Ok(value.is_object().then(|| Annotations::deserialize(value).ok()).flatten())
}

/// An object, or `None`: a malformed schema counts as absent, so that it does not hide the rest of the descriptor.
fn object<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Map<String, Value>>, D::Error> {
    Ok(match Value::deserialize(source)? {
        Value::Object(object) => Some(object),
        _ => None,
    })
}

/// A boolean, or `None`: a hint that is neither true nor false is no hint.
fn boolean<'de, D: Deserializer<'de>>(source: D) -> Result<Option<bool>, D::Error> {
    Ok(Value::deserialize(source)?.as_bool())
}
