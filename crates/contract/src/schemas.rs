//! The published JSON Schemas: what a contract, a refusal and an observation look like, for people and for tools.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::{Feedback, Refusal, ToolContract, observation};

/// The schema of a contract file.
pub fn contract() -> Value {
    published::<ToolContract>("contract", "ToolContract")
}

/// The schema of the feedback that an agent gets for a refused call.
pub fn feedback() -> Value {
    published::<Feedback>("feedback", "Feedback")
}

/// The schema of a refusal in full: as it is on record, and told on request.
pub fn refusal() -> Value {
    published::<Refusal>("refusal", "Refusal")
}

/// The schema of an observation: the specification's own, with our `$id`.
pub fn observation() -> Value {
    // The text is part of the program and a test reads it; nothing but `Null` could stand for a broken build.
    serde_json::from_str(observation::SCHEMA).unwrap_or_default()
}

/// The 2020-12 schema of any type of ours that others write, under our `$id`.
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
