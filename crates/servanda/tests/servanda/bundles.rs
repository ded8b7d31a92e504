//! `servanda init --from BUNDLE`: a bundle from the file to a call through the gateway, and bundles whose content contradicts their claims.

use std::{
    fs,
    io::{Cursor, Write as _},
};

use serde_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    snapshot::Page,
    world::{BINARY, World},
};

fn zip_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The sample company as a bundle: a program of the bundle starts it, with a setting and a default.
fn manifest() -> Value {
    json!({
        "manifest_version": "0.3", "name": "company", "version": "1.0.0", "description": "A company", "author": { "name": "A" },
        "server": { "type": "binary", "entry_point": "bin/start", "mcp_config": {
            "command": "bin/start", "args": ["--database", "${user_config.books}"],
            "env": { "BUNDLE": "${__dirname}", "LICENCE": "${user_config.licence}" } } },
        "user_config": {
            "books": { "type": "file", "title": "Books", "default": "books.db" },
            "licence": { "type": "string", "title": "Licence key", "sensitive": true, "required": true },
        },
    })
}

fn write_bundle(world: &World, name: &str, manifest: &Value) {
    let start = format!("#!/bin/sh\n[ -f \"$BUNDLE/manifest.json\" ] || exit 9\nexec {BINARY} sample \"$@\"\n");
    let bytes = zip_of(&[("manifest.json", &manifest.to_string()), ("bin/start", &start)]);
    fs::write(world.path(name), bytes).unwrap();
}

#[test]
fn a_bundle_becomes_contracts() {
    let world = World::empty();
    write_bundle(&world, "company.mcpb", &manifest());
    let ran = world.run(&["init", "--yes", "--from", "company.mcpb"]).ended(0);
    let notes = &ran.stderr;
    assert!(notes.contains("note: the bundle was unpacked in .servanda/bundles/company-1.0.0\n"), "{notes}");
    assert!(notes.contains("note: its SHA-256 is "), "{notes}");
    assert!(
        notes.contains("note: set COMPANY_LICENCE (Licence key) before `servanda serve`: `company` needs it\n"),
        "{notes}"
    );
    assert!(!ran.stderr.contains("past the gateway"), "no client reads a bundle here: {}", ran.stderr);
    assert!(world.has("contracts/company.yaml"));
    let env = [("COMPANY_LICENCE", "x")];
    let called = world.run_with_env(&["call", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#], &env).ended(0);
    assert!(called.stdout.contains("inv_1001"), "{}", called.stdout);
    assert!(world.has(".servanda/bundles/company-1.0.0/books.db"), "it runs in its folder");
}

#[test]
fn bundles_that_are_not_what_they_say() {
    let world = World::empty();
    let mut page = Page::new(&world);
    let good = manifest().to_string();
    let mut elsewhere = manifest();
    elsewhere["compatibility"] = json!({ "platforms": ["win32"] });
    let mut reaching = manifest();
    reaching["server"]["mcp_config"]["env"]["TOKEN"] = json!("${GITHUB_TOKEN}");
    let cases = [
        ("a way out", zip_of(&[("manifest.json", &good), ("../escaped", "x")])),
        ("no manifest", zip_of(&[("readme", "x")])),
        ("a manifest that is no JSON", zip_of(&[("manifest.json", "{\n  \"name\": }")])),
        ("another system", zip_of(&[("manifest.json", &elsewhere.to_string())])),
        ("a variable of the user's", zip_of(&[("manifest.json", &reaching.to_string()), ("bin/start", "")])),
        ("not a zip at all", b"PK\x03\x04 and nothing else".to_vec()),
    ];
    for (heading, bytes) in cases {
        fs::write(world.path("given.mcpb"), bytes).unwrap();
        page.head(heading);
        page.run(&["init", "--yes", "--from", "given.mcpb"]).ended(2);
        assert!(
            !world.has("servanda.yaml") && !world.has("escaped") && !world.has(".servanda/bundles/company-1.0.0"),
            "{heading}"
        );
    }
    fs::write(world.path("given.mcpb"), zip_of(&[("manifest.json", "x")])).unwrap();
    let ran = world.run(&["init", "--yes", "--from", "given.mcpb", "--sha256", "00ff"]).ended(2);
    assert!(
        ran.stderr.contains("is not the expected file") && ran.stderr.contains("hint: nothing was unpacked"),
        "{}",
        ran.stderr
    );
    page.compare("bad_bundles");
}

/// Without a yes nothing of the bundle stays, so the message that nothing was written is true.
#[test]
fn a_bundle_without_a_yes_leaves_nothing() {
    let world = World::empty();
    write_bundle(&world, "company.mcpb", &manifest());
    let ran = world.run_on_terminal(&["init", "--from", "company.mcpb"], "n\n").ended(1);
    assert!(ran.stderr.contains("nothing was written"), "{}", ran.stderr);
    assert!(!world.has(".servanda"), "nothing of it stays");
}
