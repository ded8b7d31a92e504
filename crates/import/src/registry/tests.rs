//! Descriptions as authors publish them, in both spellings, and the command lines and addresses that they become.

use std::path::Path;

use serde_json::{Value, json};

use crate::tests::lines;

fn import_with(document: &Value, installed: &[&str]) -> Vec<String> {
    let mut imported = super::import(document, &|program| installed.contains(&program));
    lines(&mut imported, Path::new("/"))
}

fn import(document: &Value) -> Vec<String> {
    import_with(document, &["npx", "bunx", "uvx", "uv", "docker", "podman", "dnx", "go", "widget-mcp"])
}

#[track_caller]
fn same(found: &[String], expected: &[&str]) {
    assert_eq!(found, expected, "\n{}\n", found.join("\n"));
}

fn one(package: &Value) -> Value {
    json!({ "name": "io.github.somebody/thing", "description": "A thing.", "version": "1.0.0", "packages": [package] })
}

/// Every runtime, with the first line of the result.
#[test]
fn packages_become_command_lines() {
    let argument = |value: &str| json!([{ "type": "positional", "value": value }]);
    let cases = [
        (
            json!({ "registryType": "npm", "identifier": "@a/b", "version": "1.2.3", "transport": { "type": "stdio" } }),
            "npx -y @a/b@1.2.3",
        ),
        (
            json!({ "registryType": "npm", "identifier": "b", "runtimeHint": "npx", "runtimeArguments": [{ "type": "named", "name": "--yes", "isRequired": true }] }),
            "npx --yes b",
        ),
        (json!({ "registryType": "npm", "identifier": "b", "version": "1", "runtimeHint": "bunx" }), "bunx b@1"),
        (json!({ "registryType": "npm", "identifier": "b", "version": "1", "runtimeHint": "rm" }), "npx -y b@1"),
        (
            json!({ "registryType": "pypi", "identifier": "weather", "version": "0.5.0", "packageArguments": argument("serve") }),
            "uvx weather@0.5.0 serve",
        ),
        (
            json!({ "registryType": "pypi", "identifier": "weather", "version": "0.5.0", "runtimeHint": "uv" }),
            "uv tool run weather@0.5.0",
        ),
        (
            json!({ "registryType": "oci", "identifier": "docker.io/a/b:1.0.0" }),
            "docker run -i --rm docker.io/a/b:1.0.0",
        ),
        (
            json!({ "registryType": "oci", "identifier": "a/b", "version": "2", "registryBaseUrl": "https://ghcr.io", "runtimeHint": "podman" }),
            "podman run -i --rm ghcr.io/a/b:2",
        ),
        (
            json!({ "registryType": "oci", "identifier": "a/b@sha256:00", "version": "2", "registryBaseUrl": "https://docker.io" }),
            "docker run -i --rm a/b@sha256:00",
        ),
        (
            json!({ "registryType": "nuget", "identifier": "A.B", "version": "0.4.0-beta", "packageArguments": argument("mcp") }),
            "dnx A.B@0.4.0-beta --yes -- mcp",
        ),
        (
            json!({ "registryType": "go", "identifier": "github.com/a/b", "version": "v1.0.0" }),
            "go run github.com/a/b@v1.0.0",
        ),
        (json!({ "registryType": "cargo", "identifier": "widget-mcp", "version": "0.3.0" }), "widget-mcp"),
    ];
    for (package, expected) in cases {
        let found = import(&one(&package));
        assert_eq!(found[0], format!("thing: {expected}"), "\n{}", found.join("\n"));
    }
}

#[test]
fn inputs_are_fixed_proposed_asked_for_or_left_open() {
    let package = json!({
        "registryType": "oci", "identifier": "a/db", "version": "3.1.0", "transport": { "type": "stdio" },
        "runtimeArguments": [
            { "type": "named", "name": "--network", "value": "host" },
            { "type": "named", "name": "--mount", "value": "type=bind,src={source},dst={target},{unknown}", "isRequired": true,
              "variables": { "source": { "description": "Folder on the host", "isRequired": true, "format": "filepath" }, "target": { "default": "/project" } } },
        ],
        "packageArguments": [
            { "type": "named", "name": "--host", "default": "localhost", "isRequired": true },
            { "type": "named", "name": "--port", "description": "Port", "format": "number" },
            { "type": "named", "name": "--count", "value": 3 },
            { "type": "positional", "valueHint": "database_name", "description": "Name of the database", "isRequired": true },
        ],
        "environmentVariables": [
            { "name": "DB_USER", "isRequired": true, "description": "User" },
            { "name": "DB_PASSWORD", "isRequired": true, "isSecret": true, "default": "postgres" },
            { "name": "SSL_MODE", "default": "prefer", "choices": ["disable", "prefer"] },
            { "name": "FORMAT", "default": "{json}" },
            { "name": "LOG_LEVEL" },
        ],
    });
    same(
        &import(&one(&package)),
        &[
            "thing: docker run -i --rm -e DB_PASSWORD -e DB_USER -e FORMAT -e SSL_MODE -e LOG_LEVEL --network host --mount \
         type=bind,src=${THING_SOURCE},dst=/project,{unknown} a/db:3.1.0 --host localhost --count 3 ${THING_DATABASE_NAME} \
         | env DB_PASSWORD=${DB_PASSWORD} | env DB_USER=${DB_USER} | env FORMAT={json} | env SSL_MODE=${SSL_MODE:-prefer} | pass LOG_LEVEL",
            "note: passed on if set: LOG_LEVEL",
            "note: `--port` is optional and was not given; `args` can have it",
            "note: `thing` is started as: docker run -i --rm -e DB_PASSWORD -e DB_USER -e FORMAT -e SSL_MODE -e LOG_LEVEL --network host --mount \
         type=bind,src=${THING_SOURCE},dst=/project,{unknown} a/db:3.1.0 --host localhost --count 3 ${THING_DATABASE_NAME}",
            "note: set DB_PASSWORD before `servanda serve`: `thing` needs it",
            "note: set DB_USER (User) before `servanda serve`: `thing` needs it",
            "note: set THING_DATABASE_NAME (Name of the database) before `servanda serve`: `thing` needs it",
            "note: set THING_SOURCE (Folder on the host) before `servanda serve`: `thing` needs it",
        ],
    );
}

#[test]
fn remotes_with_variables() {
    let document = json!({ "name": "com.acme/remote", "description": "x", "version": "1", "remotes": [
        { "type": "sse", "url": "https://acme.example/sse" },
        { "type": "streamable-http", "url": "https://{tenant}.acme.example/{region}/mcp/{else}",
          "variables": { "tenant": { "isRequired": true, "description": "Your tenant" }, "region": { "default": "eu" } },
          "headers": [
            { "name": "Authorization", "value": "Bearer {key}", "isSecret": true, "variables": { "key": { "isRequired": true, "isSecret": true } } },
            { "name": "X-API-Key", "isRequired": true, "isSecret": true, "description": "Key" },
            { "name": "X-Region", "default": "eu" },
            { "name": "X-Trace" },
          ] },
    ] });
    same(
        &import(&document),
        &[
            "remote: https://${REMOTE_TENANT}.acme.example/eu/mcp/{else} | Authorization=Bearer ${REMOTE_KEY} | X-API-Key=${REMOTE_X_API_KEY} | X-Region=eu",
            "note: `https://acme.example/sse` was left out: HTTP+SSE is deprecated and not supported",
            "note: the header `X-Trace` is optional and was not set",
            "note: set REMOTE_KEY before `servanda serve`: `remote` needs it",
            "note: set REMOTE_TENANT (Your tenant) before `servanda serve`: `remote` needs it",
            "note: set REMOTE_X_API_KEY (Key) before `servanda serve`: `remote` needs it",
        ],
    );
}

/// Both spellings of a description mean the same.
#[test]
fn the_older_spelling_means_the_same() {
    let newer = json!({ "name": "a/files", "description": "x", "version": "1.0.2", "packages": [{
        "registryType": "npm", "identifier": "@a/files", "version": "1.0.2", "runtimeHint": "npx",
        "packageArguments": [{ "type": "positional", "valueHint": "target_dir", "isRequired": true, "value": "{some_dir}", "variables": { "some_dir": { "isRequired": true } } }],
        "environmentVariables": [{ "name": "LOG_LEVEL", "default": "info" }],
    }] });
    let older = json!({ "name": "a/files", "description": "x", "version_detail": { "version": "1.0.2" }, "packages": [{
        "registry_name": "npm", "name": "@a/files", "version": "1.0.2", "runtime_hint": "npx",
        "package_arguments": [{ "type": "positional", "value_hint": "target_dir", "is_required": true, "value": "{some_dir}", "variables": { "some_dir": { "is_required": true } } }],
        "environment_variables": [{ "name": "LOG_LEVEL", "default": "info" }],
    }] });
    let found = import(&newer);
    assert_eq!(found[0], "files: npx -y @a/files@1.0.2 ${FILES_SOME_DIR} | env LOG_LEVEL=${LOG_LEVEL:-info}");
    assert_eq!(found, import(&older));
    let remote = json!({ "name": "a/r", "remotes": [{ "transport_type": "streamable", "url": "https://a.example" }] });
    assert_eq!(import(&remote), ["r: https://a.example"]);
}

#[test]
fn of_several_the_first_is_taken_that_can_be_started() {
    let document = json!({ "name": "a/b", "description": "x", "version": "1",
        "packages": [
            { "registryType": "mcpb", "identifier": "https://a.example/b.mcpb", "fileSha256": "00ff" },
            { "registryType": "homebrew", "identifier": "b" },
            { "registryType": "npm", "identifier": "b", "transport": { "type": "streamable-http", "url": "http://localhost:3000" } },
            { "registryType": "npm", "identifier": "b" },
            { "registryType": "pypi", "identifier": "b" },
        ],
        "remotes": [{ "type": "streamable-http", "url": "https://a.example/mcp" }],
    });
    let left_out = [
        "note: `mcpb https://a.example/b.mcpb` was left out: it is a bundle: download https://a.example/b.mcpb, then `servanda init --from FILE --sha256 00ff`",
        "note: `homebrew b` was left out: packages of `homebrew` are not known here",
        "note: `npm b` was left out: it speaks streamable-http at a port of its own; start it, and list its `url` instead",
    ];
    let (npm, pypi, remote) = (
        "note: `npm b` would work as well and was not used",
        "note: `pypi b` would work as well and was not used",
        "note: `https://a.example/mcp` would work as well and was not used",
    );
    let started = |line: &'static str| line;
    for (installed, expected) in [
        (&["npx", "uvx"][..], vec!["b: npx -y b", started("note: `b` is started as: npx -y b"), pypi, remote]),
        (&["uvx"], vec!["b: uvx b", npm, started("note: `b` is started as: uvx b"), remote]),
        (&[], vec!["b: https://a.example/mcp", npm, pypi]),
    ] {
        let expected = [&expected[..1], &left_out, &expected[1..]].concat();
        same(&import_with(&document, installed), &expected);
    }
    let found = import_with(&one(&json!({ "registryType": "npm", "identifier": "b" })), &[]);
    assert!(found.iter().any(|line| line.contains("`npx` is not installed")), "{found:?}");
}

/// An author's text cannot read the user's environment, nor pass as an option of the runtime.
#[test]
fn authors_do_not_reach_into_the_environment() {
    let package = |field: &str, value: Value| {
        let mut package = json!({ "registryType": "npm", "identifier": "b", "version": "1" });
        package[field] = value;
        one(&package)
    };
    let cases = [
        package("identifier", json!("${HOME}")),
        package("version", json!("${HOME}")),
        package("identifier", json!("--call=sh")),
        package("identifier", json!("b; rm")),
        package("packageArguments", json!([{ "type": "positional", "value": "${AWS_SECRET_ACCESS_KEY}" }])),
        package("packageArguments", json!([{ "type": "named", "name": "--${HOME}", "value": "x" }])),
        package("packageArguments", json!([{ "type": "positional", "default": "${HOME}" }])),
        package(
            "packageArguments",
            json!([{ "type": "positional", "value": "{x}", "variables": { "x": { "value": "${HOME}" } } }]),
        ),
        package("environmentVariables", json!([{ "name": "A", "value": "${HOME}" }])),
        package("environmentVariables", json!([{ "name": "A B", "value": "x" }])),
        json!({ "name": "a/b", "remotes": [{ "type": "streamable-http", "url": "https://evil.example/${AWS_SECRET_ACCESS_KEY}" }] }),
        json!({ "name": "a/b", "remotes": [{ "type": "streamable-http", "url": "https://evil.example", "headers": [{ "name": "X", "value": "${HOME}" }] }] }),
    ];
    for document in cases {
        let found = import(&document);
        assert!(found.iter().all(|line| line.starts_with("note: ")), "{document} gave {found:?}");
        assert!(found.iter().any(|line| line.contains("was left out")), "{document} gave {found:?}");
    }
}

/// An author's text cannot control the terminal.
#[test]
fn authors_words_are_only_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.json");
    let package = json!({ "registryType": "npm\u{1b}[2J", "identifier": "b\u{7}" });
    std::fs::write(&file, one(&package).to_string()).unwrap();
    let source =
        crate::ImportSource { file: &file, folder: folder.path(), listen: "127.0.0.1:1", sha256: None, anew: false };
    let imported = crate::read(&source).unwrap();
    assert!(imported.notes[0].contains("was left out"), "{:?}", imported.notes);
    assert!(!imported.notes[0].contains(char::is_control), "{:?}", imported.notes);
    let asked = json!({ "registryType": "npm", "identifier": "b", "environmentVariables": [{ "name": "A_KEY", "isRequired": true, "description": format!("x\u{1b}]0;y\n{}", "z".repeat(300)) }] });
    let found = import(&one(&asked));
    assert!(found.iter().all(|line| !line.contains(char::is_control) && line.chars().count() < 200), "{found:?}");
}

#[test]
fn what_cannot_be_understood_is_said() {
    assert_eq!(
        import(&json!({ "name": 7, "packages": [] })),
        ["note: `name`: invalid type: integer `7`, expected a string"]
    );
}
