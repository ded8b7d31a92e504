mod closing;
mod corpus;
mod defaults;
mod errors;
mod lazy_validator;
mod references;
mod refused;
mod repetition;
mod suite;
mod validation_cost;

use serde_json::{Map, Value};

use super::{CompiledSchema, Findings, SchemaError, SchemaProfile};

fn object(schema: Value) -> Map<String, Value> {
    match schema {
        Value::Object(schema) => schema,
        other => panic!("not an object: {other}"),
    }
}

fn compile(schema: Value) -> Result<CompiledSchema, SchemaError> {
    CompiledSchema::compile(&object(schema), SchemaProfile::Arguments)
}

fn compiled(schema: Value) -> CompiledSchema {
    compile(schema).unwrap()
}

/// Every error as `gate pointer: expected / actual`.
fn told(findings: Findings) -> Vec<String> {
    let Findings { structure, types, bounds } = findings;
    let gates = [("structure", structure), ("types", types), ("bounds", bounds)];
    let lines = gates.into_iter().flat_map(|(gate, errors)| {
        errors.into_iter().map(move |error| format!("{gate} {}: {} / {}", error.pointer, error.expected, error.actual))
    });
    lines.collect()
}
