//! The published JSON Schemas: what a contract, a refusal and an observation look like, for people and for tools.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{CallPreview, Feedback, Refusal, ToolContract, layers::Defaults, observation, tool::SideEffectClass};

/// The schema of a contract file.
pub fn contract() -> Value {
    published::<ToolContract>("contract", "ToolContract")
}

/// The schema of a file of one server's contracts: parts of contracts, so no member of a section is required.
pub fn server_contracts() -> Value {
    let mut parts = published::<ToolContract>("contract-parts", "ToolContract");
    forget_required(&mut parts);
    let sections = parts.get("properties").cloned().unwrap_or_default();
    let defaults = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Defaults>().to_value();
    let mut entry = sections.as_object().cloned().unwrap_or_default();
    entry.remove("binding");
    entry.insert("class".to_owned(), json!({ "enum": SideEffectClass::ALL.map(SideEffectClass::word) }));
    entry.insert("why".to_owned(), json!({ "type": "string" }));
    entry.insert("doubts".to_owned(), json!({ "type": "array", "items": { "type": "string" } }));
    let by = json!({ "by": { "type": "string" }, "at": { "type": "string" } });
    let reviewed =
        json!({ "type": "object", "properties": by, "required": ["by", "at"], "additionalProperties": false });
    entry.insert("reviewed".to_owned(), reviewed);
    let behaviour = entry.remove("behaviour").unwrap_or_default();
    entry.insert("behaviour".to_owned(), json!({ "anyOf": [{ "type": "string" }, behaviour] }));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://servanda.dev/schema/server-contracts.schema.json",
        "title": "ServerContracts",
        "description": "The decisions about the tools of one server: `contracts/SERVER.yaml`.",
        "type": "object",
        "properties": {
            "server": { "type": "string", "description": "The server's id in the configuration." },
            "defaults": defaults,
            "tools": {
                "type": "object",
                "additionalProperties": { "type": "object", "properties": entry, "additionalProperties": false },
            },
        },
        "required": ["server", "tools"],
        "additionalProperties": false,
        "$defs": parts.get("$defs").cloned().unwrap_or_default(),
    })
}

fn forget_required(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("required").is_some_and(Value::is_array) {
                members.remove("required");
            }
            members.values_mut().for_each(forget_required);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_required),
        _ => {}
    }
}

/// The schema of the feedback that an agent gets for a refused call.
pub fn feedback() -> Value {
    published::<Feedback>("feedback", "Feedback")
}

/// The schema of a full refusal, as the record keeps it and as a client gets it on request.
pub fn refusal() -> Value {
    published::<Refusal>("refusal", "Refusal")
}

/// The schema of a preview, which a dry run answers.
pub fn preview() -> Value {
    published::<CallPreview>("preview", "CallPreview")
}

/// The schema of an observation: the specification's own, with our `$id`.
pub fn observation() -> Value {
    // The text is part of the program, and a test parses it. `Null` would only appear in a broken build.
    serde_json::from_str(observation::SCHEMA).unwrap_or_default()
}

/// The 2020-12 schema of a type that other programs write, under our `$id`.
pub fn published<T: JsonSchema>(name: &str, title: &str) -> Value {
    let generated = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("$id".to_owned(), format!("https://servanda.dev/schema/{name}.schema.json").into());
    schema.insert("title".to_owned(), title.into());
    if let Value::Object(generated) = generated {
        for (keyword, value) in generated {
            schema.entry(keyword).or_insert(value);
        }
    }
    Value::Object(schema)
}
