//! Crate edges: what `cargo metadata` says must be what ARCHITECTURE.md draws, in both directions.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_crates_depend_on_each_other_as_the_architecture_draws() {
    let (drawn, real) = (drawn_edges(), real_edges());
    assert!(!drawn.is_empty(), "ARCHITECTURE.md has no block ```edges");
    assert_eq!(real, drawn, "left: cargo metadata, right: ARCHITECTURE.md; change both in one commit");
}

#[test]
fn nothing_depends_on_the_binary() {
    assert!(real_edges().values().all(|targets| !targets.contains("servanda")));
}

#[test]
fn only_the_ledger_and_the_sample_have_sql() {
    let users: Vec<String> =
        dependencies().into_iter().filter(|(_, of)| of.contains("rusqlite")).map(|(name, _)| name).collect();
    assert_eq!(users, ["ledger", "sample"]);
}

/// The block of ARCHITECTURE.md that reads `crate: crate crate`.
fn drawn_edges() -> Edges {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let block = text.split("```edges").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    block
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(from, to)| (from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect()))
        .collect()
}

fn real_edges() -> Edges {
    let ours = |name: &String| name.strip_prefix("servanda-").map(str::to_owned);
    dependencies()
        .into_iter()
        .filter(|(name, _)| !["tidy", "model", "fuzz", "requirements", "tool-identity"].contains(&name.as_str()))
        .map(|(name, of)| (name, of.iter().filter_map(ours).collect()))
        .collect()
}

/// Every crate of ours with its ordinary dependencies; what tests need is not an edge.
fn dependencies() -> Edges {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().expect("name");
            let ordinary = |dependency: &&Value| dependency["kind"].is_null();
            let of = package["dependencies"].as_array().expect("dependencies").iter().filter(ordinary);
            let of = of.map(|dependency| dependency["name"].as_str().expect("name").to_owned()).collect();
            (name.strip_prefix("servanda-").unwrap_or(name).to_owned(), of)
        })
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "a test asks cargo about the workspace it is part of")]
fn metadata() -> Value {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
