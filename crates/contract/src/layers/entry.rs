//! What people write in a layer: parts of a contract, and for a tool also its class, its behaviour in four words, and the
//! reason.
//!
//! This module checks only the outermost names. The contents of a section are checked when the layers are composed.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::tool::{Behaviour, SideEffectClass};

/// Sections that any layer may write parts of.
const SECTIONS: [&str; 14] = [
    "identity",
    "runtime",
    "security",
    "transactional",
    "idempotency",
    "observability",
    "error_contract",
    "execution",
    "effect",
    "probes",
    "verification",
    "questions",
    "approval",
    "affordance",
];
/// Members that describe one tool, so no default may set them.
const OF_ONE_TOOL: [&str; 5] = ["affordance", "binding", "behaviour", "rules", "preconditions"];
/// Members that only a tool's entry has, beside sections.
const ENTRY_ONLY: [&str; 7] = ["class", "behaviour", "why", "doubts", "reviewed", "rules", "preconditions"];
/// Defaults by side-effect class.
const BY_CLASS: &str = "by_class";
const CLASS: &str = "side_effect_class";

/// Parts of a contract for every tool below, and for the tools of one side-effect class.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct Defaults {
    all: Map<String, Value>,
    by_class: BTreeMap<SideEffectClass, Map<String, Value>>,
}

/// The decisions about one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct ToolEntry {
    class: SideEffectClass,
    behaviour: Option<Behaviour>,
    /// Why the tool has this class.
    pub why: Option<String>,
    /// What a person should check before agreeing.
    pub doubts: Vec<String>,
    /// Who agreed to it.
    pub reviewed: Option<EntryReview>,
    sections: Map<String, Value>,
}

/// The person who agreed to an entry, and the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryReview {
    /// The person.
    pub by: String,
    /// The day, or the time in RFC 3339.
    pub at: String,
}

impl Defaults {
    /// Whether there are no defaults.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.by_class.is_empty()
    }

    /// The members for a tool of a class. The defaults of one class override the general ones.
    pub(super) fn members(&self, class: SideEffectClass) -> Map<String, Value> {
        let mut members = self.all.clone();
        if let Some(of_class) = self.by_class.get(&class) {
            overlay(&mut members, of_class);
        }
        members
    }
}

impl ToolEntry {
    /// An entry that has only a side-effect class and a behaviour.
    pub fn new(class: SideEffectClass, behaviour: Behaviour) -> Self {
        let behaviour = Some(behaviour);
        Self { class, behaviour, why: None, doubts: Vec::new(), reviewed: None, sections: Map::new() }
    }

    /// How grave a call of the tool is.
    pub const fn class(&self) -> SideEffectClass {
        self.class
    }

    /// What the tool does.
    pub fn behaviour(&self) -> Option<&Behaviour> {
        self.behaviour.as_ref()
    }

    /// Adds a section, in the words of a contract.
    #[must_use]
    pub fn with(mut self, section: &str, members: Value) -> Self {
        overlay(&mut self.sections, &Map::from_iter([(section.to_owned(), members)]));
        self
    }

    /// Whether the entry has its own schema of the arguments.
    pub(super) fn has_schema(&self) -> bool {
        self.sections.get("affordance").is_some_and(|affordance| affordance.get("input_schema").is_some())
    }

    /// The entry as members of a contract.
    pub(super) fn members(&self) -> Map<String, Value> {
        let mut members = self.sections.clone();
        if let Some(behaviour) = self.behaviour.as_ref().and_then(|it| serde_json::to_value(it).ok()) {
            members.insert("behaviour".to_owned(), behaviour);
        }
        members
    }
}

impl JsonSchema for Defaults {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Defaults".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let parts = SECTIONS.iter().filter(|name| !OF_ONE_TOOL.contains(name));
        let parts: Map<String, Value> = parts.map(|name| ((*name).to_owned(), json!({}))).collect();
        let of_class = json!({ "type": "object", "properties": parts, "additionalProperties": false });
        let classes: Map<String, Value> =
            SideEffectClass::ALL.iter().map(|class| (class.word().to_owned(), of_class.clone())).collect();
        let mut properties = parts;
        properties.insert(
            BY_CLASS.to_owned(),
            json!({ "type": "object", "properties": classes, "additionalProperties": false }),
        );
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}

impl TryFrom<Map<String, Value>> for Defaults {
    type Error = String;

    fn try_from(mut members: Map<String, Value>) -> Result<Self, String> {
        let by_class = members.remove(BY_CLASS);
        let by_class: BTreeMap<SideEffectClass, Map<String, Value>> = match by_class {
            Some(by_class) => serde_json::from_value(by_class).map_err(|error| format!("`{BY_CLASS}`: {error}"))?,
            None => BTreeMap::new(),
        };
        for layer in std::iter::once(&members).chain(by_class.values()) {
            for name in layer.keys() {
                if OF_ONE_TOOL.contains(&name.as_str()) {
                    return Err(format!("`{name}` is about one tool: say it in the tool's entry, not in defaults"));
                }
                if !SECTIONS.contains(&name.as_str()) {
                    return Err(unknown(name, SECTIONS.iter().chain([&BY_CLASS])));
                }
            }
            if let Some(member) = about_one_tool(layer) {
                return Err(format!("`{member}` is about one tool: say it in the tool's entry, not in defaults"));
            }
        }
        Ok(Self { all: members, by_class })
    }
}

impl From<Defaults> for Map<String, Value> {
    fn from(defaults: Defaults) -> Self {
        let mut members = defaults.all;
        if !defaults.by_class.is_empty() {
            let by_class =
                defaults.by_class.into_iter().map(|(class, of_class)| (class.word().to_owned(), of_class.into()));
            members.insert(BY_CLASS.to_owned(), Value::Object(by_class.collect()));
        }
        members
    }
}

impl TryFrom<Map<String, Value>> for ToolEntry {
    type Error = String;

    fn try_from(mut members: Map<String, Value>) -> Result<Self, String> {
        let known = || SECTIONS.iter().chain(&ENTRY_ONLY);
        if let Some(name) = members.keys().find(|name| !known().any(|known| known == name)) {
            return Err(unknown(name, known()));
        }
        let class = take::<SideEffectClass>(&mut members, "class")?;
        let within = members.get("transactional").and_then(|section| section.get(CLASS)).cloned();
        let within: Option<SideEffectClass> = within
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| format!("`transactional.{CLASS}`: {error}"))?;
        let class = match (class, within) {
            (Some(class), Some(within)) if class != within => {
                return Err(format!(
                    "`class` says {} and `transactional.{CLASS}` says {}: leave one of them out",
                    class.word(),
                    within.word()
                ));
            }
            (Some(class), _) | (None, Some(class)) => class,
            (None, None) => return Err("`class` is missing: say how grave a call is, e.g. READ_ONLY".to_owned()),
        };
        let behaviour = members.remove("behaviour").map(behaviour).transpose()?;
        let why = take(&mut members, "why")?;
        let doubts = take(&mut members, "doubts")?.unwrap_or_default();
        let reviewed = take(&mut members, "reviewed")?;
        Ok(Self { class, behaviour, why, doubts, reviewed, sections: members })
    }
}

impl From<ToolEntry> for Map<String, Value> {
    fn from(entry: ToolEntry) -> Self {
        let mut members = Self::new();
        members.insert("class".to_owned(), entry.class.word().into());
        if let Some(behaviour) = &entry.behaviour {
            members.insert("behaviour".to_owned(), written(behaviour));
        }
        if let Some(why) = entry.why {
            members.insert("why".to_owned(), why.into());
        }
        if !entry.doubts.is_empty() {
            members.insert("doubts".to_owned(), entry.doubts.into());
        }
        if let Some(EntryReview { by, at }) = entry.reviewed {
            members.insert("reviewed".to_owned(), serde_json::json!({ "by": by, "at": at }));
        }
        members.extend(entry.sections);
        members
    }
}

fn take<T: serde::de::DeserializeOwned>(members: &mut Map<String, Value>, name: &str) -> Result<Option<T>, String> {
    let value = members.remove(name);
    value.map(serde_json::from_value).transpose().map_err(|error| format!("`{name}`: {error}"))
}

/// Four words in one line, `PURE|READ|DATA|TEXT`, or the whole section.
fn behaviour(value: Value) -> Result<Behaviour, String> {
    let told = |reason: String| format!("`behaviour`: {reason}");
    match value {
        Value::String(words) => Behaviour::from_words(&words).map_err(told),
        section => serde_json::from_value(section).map_err(|error| told(error.to_string())),
    }
}

/// In one line, if that loses nothing.
fn written(behaviour: &Behaviour) -> Value {
    let words = behaviour.extended_words();
    if Behaviour::from_words(&words).as_ref() == Ok(behaviour) {
        return words.into();
    }
    serde_json::to_value(behaviour).unwrap_or_default()
}

/// A member of a section that describes one tool.
fn about_one_tool(layer: &Map<String, Value>) -> Option<String> {
    let has = |section: &str, member: &str| layer.get(section).is_some_and(|section| section.get(member).is_some());
    [("identity", "name"), ("transactional", CLASS)]
        .into_iter()
        .find(|(section, member)| has(section, member))
        .map(|(section, member)| format!("{section}.{member}"))
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a &'static str>) -> String {
    let known: Vec<&str> = known.copied().collect();
    format!("there is no member `{name}`; there are {}", known.join(", "))
}

/// Overrides members like layers do.
fn overlay(into: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (name, value) in over {
        match (into.get_mut(name), value) {
            (Some(Value::Object(below)), Value::Object(above)) => overlay(below, above),
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}
