//! `servanda init --from FILE` for the formats that are not a client's `mcpServers`.

use serde_json::json;

use crate::{
    snapshot::Page,
    world::{BINARY, Ran, World},
};

/// VS Code's file, with comments, an input and a workspace: the contracts, and what is left to do.
#[test]
fn vs_codes_file_becomes_contracts() {
    let world = World::empty();
    let text = r#"{
  // made by `MCP: Add Server`
  "inputs": [
    { "type": "promptString", "id": "company-key", "description": "Key of the company", "password": true },
  ],
  "servers": {
    "company": {
      "type": "stdio",
      "command": "BINARY",
      "args": ["sample", "--database", "${workspaceFolder}/books.db"],
      "env": { "COMPANY_KEY": "${input:company-key}", "LIMIT": 3 },
      "dev": { "watch": "src/**" },
    },
    "legacy": { "type": "sse", "url": "http://127.0.0.1:1/sse" },
  },
}
"#;
    world.write(".vscode/mcp.json", &text.replace("BINARY", BINARY));
    let mut page = Page::new(&world);
    let ran = world.run(&["init", "--yes", "--from", ".vscode/mcp.json"]).ended(0);
    page.show("init --from .vscode/mcp.json", &Ran { stdout: String::new(), ..ran });
    page.head("servanda.yaml");
    page.show("(the file)", &Ran { code: Some(0), stdout: world.read("servanda.yaml"), stderr: String::new() });
    page.head("without the key the gateway does not start");
    page.run(&["call", "company__count_effects"]).ended(2);
    page.compare("import_vscode");
    world.run_with_env(&["call", "company__count_effects"], &[("COMPANY_KEY", "x")]).ended(0);
    assert!(world.has("books.db"));
}

/// A description from the registry: the package is started, and the bundle among its packages is mentioned.
#[test]
fn a_description_becomes_contracts() {
    let world = World::empty();
    let description = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.somebody/company", "description": "A company", "version": "1.0.0",
        "packages": [
            { "registryType": "mcpb", "identifier": "https://example.com/company.mcpb", "fileSha256": "00ff", "transport": { "type": "stdio" } },
            { "registryType": "cargo", "identifier": BINARY, "version": "0.1.0", "transport": { "type": "stdio" },
              "packageArguments": [{ "type": "positional", "value": "sample" }, { "type": "named", "name": "--database", "value": "{folder}/books.db", "variables": { "folder": { "default": "." } } }],
              "environmentVariables": [{ "name": "COMPANY_MODE", "default": "quiet" }] },
        ],
    });
    world.write("server.json", &format!("{description:#}"));
    let mut page = Page::new(&world);
    let ran = world.run(&["init", "--yes", "--from", "server.json"]).ended(0);
    page.show("init --from server.json", &Ran { stdout: String::new(), ..ran });
    page.head("servanda.yaml");
    page.show("(the file)", &Ran { code: Some(0), stdout: world.read("servanda.yaml"), stderr: String::new() });
    page.compare("import_registry");
    world.run(&["call", "company__count_effects"]).ended(0);
}

/// A secret in the client's file is used to ask the server, and is written nowhere.
#[test]
fn a_secret_is_used_and_not_written() {
    let world = World::empty();
    // The server starts only with a value as long as the secret.
    let script = format!("[ $(printf %s \"$API_TOKEN\" | wc -c) -eq 12 ] && exec {BINARY} sample --database books.db");
    let company = json!({ "command": "sh", "args": ["-c", script], "env": { "API_TOKEN": "s3cr3t-v4lue" } });
    world.write(".mcp.json", &json!({ "mcpServers": { "company": company } }).to_string());
    world.run(&["init", "--yes"]).ended(0);
    let config = world.read("servanda.yaml");
    assert!(config.contains("API_TOKEN: ${API_TOKEN}") && !config.contains("s3cr3t"), "{config}");
    world.run(&["call", "company__count_effects"]).ended(2);
    world.run_with_env(&["call", "company__count_effects"], &[("API_TOKEN", "s3cr3t-v4lue")]).ended(0);
}
