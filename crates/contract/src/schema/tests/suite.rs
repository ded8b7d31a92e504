//! The public JSON Schema test suite, read in place. Nothing is fetched: its remote documents are registered in memory.

use std::{fs, path::Path};

use jsonschema::Registry;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    schema::{CompiledSchema, SchemaProfile},
    testing::{files, shared},
};

#[derive(Deserialize)]
struct Case {
    description: String,
    schema: Value,
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    description: String,
    data: Value,
    valid: bool,
}

/// Every document of `remotes/` by the address the suite gives it.
fn remotes(folder: &Path, address: &str, found: &mut Vec<(String, Value)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let address = format!("{address}/{name}");
        if entry.path().is_dir() {
            remotes(&entry.path(), &address, found);
        } else {
            found.push((address, serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap()));
        }
    }
}

/// Runs the required set of a draft; returns how many tests ran and what failed.
fn run(suite: &Path, draft: &str, dialect: Option<&str>) -> (usize, Vec<String>) {
    let mut documents = Vec::new();
    remotes(&suite.join("remotes"), "http://localhost:1234", &mut documents);
    // This draft may not be able to read a document of another draft, and none of its tests refers to one.
    let other = |address: &str| address.contains("/draft") && !address.contains(&format!("/{draft}/"));
    documents.retain(|(address, _)| !other(address));
    let default = if draft == "draft7" { jsonschema::Draft::Draft7 } else { jsonschema::Draft::Draft202012 };
    let known = Registry::new().draft(default).extend(documents).unwrap().prepare().unwrap();
    let (mut ran, mut failed) = (0, Vec::new());
    for (file, text) in files(&suite.join("tests").join(draft)) {
        for mut case in serde_json::from_slice::<Vec<Case>>(&text).unwrap() {
            if let (Some(dialect), Value::Object(schema)) = (dialect, &mut case.schema) {
                schema.entry("$schema").or_insert_with(|| dialect.into());
            }
            let compiled = CompiledSchema::compile_with(&case.schema, SchemaProfile::Dialect, &known);
            for test in case.tests {
                ran += 1;
                let name = format!("{file}: {}: {}", case.description, test.description);
                match &compiled {
                    Ok(schema) if schema.is_valid(&test.data) == test.valid => {
                        assert_eq!(schema.judge(&test.data).is_empty(), test.valid, "findings disagree: {name}");
                    }
                    Ok(_) => failed.push(name),
                    Err(error) => failed.push(format!("{name}: {error}")),
                }
            }
        }
    }
    (ran, failed)
}

/// Closing, formats and the rest of our profile only add constraints: the dialect accepts every value that they accept.
#[test]
fn the_argument_profile_only_ever_refuses_more() {
    let Some(suite) = shared("corpora/JSON-Schema-Test-Suite") else { return };
    let (mut accepted, mut refused_too) = (0, 0);
    for draft in ["draft2020-12", "draft7"] {
        for (file, text) in files(&suite.join("tests").join(draft)) {
            for case in serde_json::from_slice::<Vec<Case>>(&text).unwrap() {
                let Value::Object(mut schema) = case.schema else { continue };
                if draft == "draft7" {
                    schema.entry("$schema").or_insert_with(|| "http://json-schema.org/draft-07/schema#".into());
                }
                // Refers to a remote document, or describes something that is not an object.
                let Ok(compiled) = CompiledSchema::compile(&schema, SchemaProfile::Arguments) else { continue };
                for test in case.tests.into_iter().filter(|test| test.data.is_object()) {
                    let ours = compiled.is_valid(&test.data);
                    accepted += usize::from(ours);
                    refused_too += usize::from(!ours && !test.valid);
                    assert!(!ours || test.valid, "{draft}/{file}: {}: {}", case.description, test.description);
                }
            }
        }
    }
    println!("argument profile on the suites: {accepted} accepted, {refused_too} refused like the dialect");
    assert!(accepted > 100 && refused_too > 100, "{accepted} {refused_too}");
}

#[test]
fn required_set_of_2020_12() {
    let Some(suite) = shared("corpora/JSON-Schema-Test-Suite") else { return };
    let (ran, failed) = run(&suite, "draft2020-12", None);
    println!("JSON-Schema-Test-Suite draft2020-12, required: {}/{ran} pass", ran - failed.len());
    assert_eq!(failed, Vec::<String>::new());
    assert!(ran > 1_200, "{ran}");
}

#[test]
fn required_set_of_draft_07() {
    let Some(suite) = shared("corpora/JSON-Schema-Test-Suite") else { return };
    let (ran, failed) = run(&suite, "draft7", Some("http://json-schema.org/draft-07/schema#"));
    println!("JSON-Schema-Test-Suite draft7, required: {}/{ran} pass", ran - failed.len());
    assert_eq!(failed, Vec::<String>::new());
    assert!(ran > 900, "{ran}");
}
