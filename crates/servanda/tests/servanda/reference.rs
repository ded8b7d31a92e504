//! What the binary says about itself: help, version and the published schemas.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::{snapshot::Page, world::World};

#[test]
fn help_and_version() {
    let world = World::empty();
    let mut page = Page::new(&world);
    page.run(&["--help"]).ended(0);
    page.run(&["--version"]).ended(0);
    for command in [
        "init",
        "check",
        "serve",
        "stdio",
        "connect",
        "disconnect",
        "tools",
        "call",
        "explain",
        "identity",
        "schema",
        "doctor",
        "demo",
        "sample",
    ] {
        page.run(&[command, "--help"]).ended(0);
    }
    page.compare("help");
    assert_eq!(world.run(&["help"]).ended(0).stdout, world.run(&["--help"]).ended(0).stdout);
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_right() {
    let world = World::empty();
    let mut page = Page::new(&world);
    for args in [
        &[] as &[&str],
        &["frobnicate"],
        &["serve", "--port", "1"],
        &["call"],
        &["schema", "everything"],
        &["explain", "call_1", "--last"],
        &["call", "tool", "{}", "--timeout-ms", "soon"],
        &["call", "tool", "--jsn"],
        &["check", "--config", "nope.yaml"],
    ] {
        let ran = page.run(args).ended(2);
        assert_eq!(ran.stdout, "", "{args:?}");
    }
    page.compare("wrong_usage");
}

/// Every published schema is also a file, so that a change to it is visible in review.
#[test]
fn schemas_are_the_golden_ones() {
    let world = World::empty();
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for name in ["contract", "server-contracts", "observation", "preview", "feedback", "refusal", "config"] {
        let file = golden.join(format!("{name}.schema.json"));
        let ran = world.run(&["schema", name]).ended(0);
        assert_eq!(ran.stderr, "");
        let schema: Value = ran.json();
        jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{name} is no schema: {error}"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &ran.stdout).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == ran.stdout,
            "`servanda schema {name}` is not {}\nif the change is wanted, and compatible with what is written against \
             it: UPDATE_GOLDEN=1 cargo nextest run -p servanda --test servanda schemas_are_the_golden_ones",
            file.display()
        );
    }
}

/// The files that `init` and the tests write conform to the published schemas.
#[test]
fn a_configuration_and_a_contract_keep_their_schemas() {
    let world = World::company([crate::contract::pay_invoice()]);
    for (schema, file) in [("config", "servanda.yaml"), ("contract", "contracts/company.pay_invoice.json")] {
        let schema = jsonschema::validator_for(&world.run(&["schema", schema]).ended(0).json()).unwrap();
        let document: Value = serde_json::from_str(&world.read(file)).unwrap();
        schema.validate(&document).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}
