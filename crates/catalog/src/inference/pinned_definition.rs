//! What a pinned definition gives a contract: its texts, and its schemas as far as they can be enforced. Our own keywords are
//! removed from the author's schema, because only the operator says what arguments mean.

use serde_json::{Map, Value, json};
use servanda_contract::{
    layers::DefinitionLayer,
    schema::{CompiledSchema, SchemaProfile},
    shared::SchemaDocument,
};
use servanda_gates::forget_programs;

use crate::pins::Definition;

/// Texts and enforceable schemas of a definition, and notes on what was changed or left out.
pub fn definition_layer(definition: &Definition) -> (DefinitionLayer, Vec<String>) {
    let mut notes = Vec::new();
    let mut input_schema = input_schema(&definition.input_schema, &mut notes);
    let mut without_programs = (*input_schema).clone();
    forget_programs(&mut without_programs);
    if without_programs != *input_schema {
        input_schema = without_programs.into();
    }
    let offered = DefinitionLayer {
        description: definition.description.clone().unwrap_or_default(),
        title: definition.title.clone(),
        input_schema,
        output_schema: output_schema(definition.output_schema.as_ref(), &mut notes),
    };
    (offered, notes)
}

/// The upstream's schema without the parts that cannot be enforced; the upstream still checks those itself.
fn input_schema(offered: &SchemaDocument, notes: &mut Vec<String>) -> SchemaDocument {
    let mut schema = offered.clone();
    if !schema.contains_key("type") {
        schema.insert("type".to_owned(), json!("object"));
        notes.push("its input schema has no type; `object` was added".to_owned());
    }
    if compiles(&schema, SchemaProfile::Arguments) {
        return schema;
    }
    let mut left_out = 0;
    drop_patterns(&mut schema, &mut left_out);
    if left_out > 0 && compiles(&schema, SchemaProfile::Arguments) {
        notes.push(format!("{left_out} patterns of its input schema need a backtracking regex and were left out"));
        return schema;
    }
    offered.clone()
}

fn output_schema(offered: Option<&SchemaDocument>, notes: &mut Vec<String>) -> SchemaDocument {
    match offered {
        Some(schema) if compiles(schema, SchemaProfile::Results) => schema.clone(),
        Some(_) => {
            notes.push("its output schema cannot be enforced and was left out".to_owned());
            SchemaDocument::default()
        }
        None => SchemaDocument::default(),
    }
}

fn compiles(schema: &SchemaDocument, profile: SchemaProfile) -> bool {
    CompiledSchema::compile_document(schema, profile).is_ok()
}

/// Removes string `pattern`s that the linear-time engine does not support.
fn drop_patterns(schema: &mut Map<String, Value>, left_out: &mut usize) {
    if let Some(Value::String(pattern)) = schema.get("pattern") {
        let alone = json!({ "type": "object", "properties": { "x": { "pattern": pattern } } });
        if let Value::Object(alone) = alone
            && !compiles(&alone.into(), SchemaProfile::Arguments)
        {
            schema.remove("pattern");
            *left_out += 1;
        }
    }
    for member in schema.values_mut() {
        match member {
            Value::Object(inner) => drop_patterns(inner, left_out),
            Value::Array(items) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|inner| drop_patterns(inner, left_out));
            }
            _ => {}
        }
    }
}
