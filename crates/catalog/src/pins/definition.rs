//! The part of a tool's definition that is pinned: everything that a model or a person reads, and nothing that changes without
//! meaning.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use servanda_contract::{
    Digest,
    digest::DigestDomain,
    json::{self, JsonLimits, StrictError},
    legibility,
    schema::{CompiledSchema, SchemaError, SchemaProfile},
    shared::SchemaDocument,
};
use servanda_identity::classifier::{Annotations, Descriptor};

/// Name, title, description, schemas and annotations of a tool, as its upstream serves them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its own name.
    pub name: String,
    /// The title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of the arguments.
    #[serde(default)]
    pub input_schema: SchemaDocument,
    /// The schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<SchemaDocument>,
    /// The author's hints.
    #[serde(default, deserialize_with = "or_none", skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// How it may be run, in the last legacy revision. Only client software reads it, so it is not pinned.
    #[serde(default, deserialize_with = "or_unknown", skip_serializing)]
    pub execution: Option<ToolExecution>,
}

/// How a tool may be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// Whether it may be run as a task.
    pub task_support: TaskSupport,
}

/// Whether a tool may be run as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskSupport {
    /// It may not.
    Forbidden,
    /// It may.
    Optional,
    /// It must.
    Required,
}

/// The limits of reading a definition. The upstream connection bounds its length. A lock file could not store deeper nesting or
/// longer member names.
const LIMITS: JsonLimits = JsonLimits { bytes_max: usize::MAX, depth_max: 48 };
const NAME_CHARS_MAX: usize = 256;

impl Definition {
    /// Reads a definition as an upstream wrote it. The error gives the reason without quoting the definition.
    pub fn read(text: &str) -> Result<Self, String> {
        let definition = Self::read_unchecked(text)?;
        definition.faults()?;
        Ok(definition)
    }

    /// Reads a definition for display, whatever is wrong with its content.
    pub fn read_unchecked(text: &str) -> Result<Self, String> {
        let document: Value = match json::decode(text.as_bytes(), LIMITS) {
            Ok(document) => document,
            // Limits such as the largest 64-bit integer are common in schemas, and never sent.
            Err(StrictError::IntegerTooLarge { .. } | StrictError::NumberOutOfRange { .. }) => {
                serde_json::from_str(text).map_err(|error| error.to_string())?
            }
            Err(error) => return Err(error.to_string()),
        };
        serde_json::from_value(document).map_err(|error| error.to_string())
    }

    /// The digest of what is pinned: the same for any order of members and any white space.
    pub fn digest(&self) -> Digest {
        // A definition that was read as JSON can be written as JSON; an empty one would match no pin.
        let value = serde_json::to_value(self).unwrap_or_default();
        let canonical = json::canonicalize(&value);
        Digest::compute(DigestDomain::Definition, &[canonical.as_ref().map_or(&[], |canonical| canonical.bytes())])
    }

    /// The same definition with sorted members, so that one definition has one text.
    #[must_use]
    pub fn in_order(&self) -> Self {
        let ordered = |map: &Map<String, Value>| {
            let mut map = map.clone();
            map.sort_keys();
            map.values_mut().for_each(Value::sort_all_objects);
            map
        };
        Self {
            input_schema: ordered(&self.input_schema).into(),
            output_schema: self.output_schema.as_ref().map(|schema| ordered(schema).into()),
            annotations: ordered(&self.annotations),
            ..self.clone()
        }
    }

    /// The descriptor for the classifier.
    pub fn descriptor(&self) -> Descriptor {
        let annotations = Annotations {
            read_only_hint: self.hint("readOnlyHint"),
            destructive_hint: self.hint("destructiveHint"),
            idempotent_hint: self.hint("idempotentHint"),
            open_world_hint: self.hint("openWorldHint"),
        };
        Descriptor {
            name: self.name.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            input_schema: Some((*self.input_schema).clone()),
            output_schema: self.output_schema.as_deref().cloned(),
            annotations: Some(annotations),
        }
    }
    /// The author's hint of that name, if there is one.
    /// Whether the author says that the tool changes nothing.
    pub(crate) fn hint(&self, name: &str) -> Option<bool> {
        self.annotations.get(name).and_then(Value::as_bool)
    }

    fn faults(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("its name is empty".to_owned());
        }
        if let Some(fault) = legibility::name_fault(&self.name) {
            return Err(format!("its name {fault}"));
        }
        let document = serde_json::to_value(self).map_err(|error| error.to_string())?;
        if !can_be_kept(&document, LIMITS.depth_max) {
            return Err("it is nested too deeply, or has names that are too long, to be pinned".to_owned());
        }
        if let Some(first) = legibility::faults(&document).first() {
            return Err(first.to_string());
        }
        // A root without a type is compiled as an object.
        match CompiledSchema::compile_document(&self.input_schema, SchemaProfile::Arguments) {
            // The server itself checks a pattern that we do not enforce.
            Ok(_) | Err(SchemaError::Pattern { .. }) => Ok(()),
            Err(error) => Err(format!("its input schema cannot be used: {error}")),
        }
    }
}

fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// An unknown form counts as absent.
fn or_unknown<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ToolExecution>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

fn can_be_kept(value: &Value, depth_max: usize) -> bool {
    let Some(depth_left) = depth_max.checked_sub(1) else { return false };
    match value {
        Value::Object(members) => members
            .iter()
            .all(|(name, member)| name.chars().nth(NAME_CHARS_MAX).is_none() && can_be_kept(member, depth_left)),
        Value::Array(items) => items.iter().all(|item| can_be_kept(item, depth_left)),
        _ => true,
    }
}
