//! Where clients keep their servers, how each writes the gateway's entry, and what happens to a file on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use serde_json::{Value, json};
use servanda_contract::Timestamp;

use super::{
    ClientFileScope, ClientFolders, ClientName, client_of,
    entry::{Door, GatewayLocation, value_behind},
    file::ClientFile,
    notation::Notation,
    toml,
};

fn around() -> ClientFolders {
    ClientFolders {
        home: "/home/me".into(),
        here: "/projects/shop".into(),
        config_home: None,
        codex_home: None,
        claude_home: None,
    }
}

fn gateway() -> GatewayLocation {
    GatewayLocation {
        program: "/opt/servanda".into(),
        config: "/projects/shop/servanda.yaml".into(),
        listen: "127.0.0.1:7332".to_owned(),
    }
}

#[test]
fn every_client_has_a_row_and_its_files() {
    let mut files = BTreeSet::new();
    for name in ClientName::value_variants() {
        assert_eq!(name.client().name, *name, "{name:?} has no row");
        for (scope, file) in name.client().files(&around()) {
            let (client, found) = client_of(&file, &around()).unwrap();
            assert_eq!((client.name, found), (*name, scope), "{}", file.display());
            assert!(files.insert(file.clone()), "{} is two clients'", file.display());
        }
    }
    let expected: BTreeSet<PathBuf> = [
        "/projects/shop/.mcp.json",
        "/home/me/.claude.json",
        "/home/me/.config/Claude/claude_desktop_config.json",
        "/projects/shop/.vscode/mcp.json",
        "/home/me/.config/Code/User/mcp.json",
        "/projects/shop/.cursor/mcp.json",
        "/home/me/.cursor/mcp.json",
        "/home/me/.codeium/windsurf/mcp_config.json",
        "/home/me/.config/zed/settings.json",
        "/projects/shop/.gemini/settings.json",
        "/home/me/.gemini/settings.json",
        "/home/me/.codex/config.toml",
        "/projects/shop/.codex/config.toml",
    ]
    .map(PathBuf::from)
    .into();
    if cfg!(target_os = "linux") {
        assert_eq!(files, expected);
    }
    let moved = ClientFolders { codex_home: Some("/c".into()), claude_home: Some("/d".into()), ..around() };
    let file = |name: ClientName| name.client().file(Some(ClientFileScope::User), &moved).unwrap().1;
    assert_eq!(file(ClientName::Codex), Path::new("/c/config.toml"));
    assert_eq!(file(ClientName::ClaudeCode), Path::new("/d/.claude.json"));
    assert!(ClientName::Zed.client().file(Some(ClientFileScope::Project), &moved).is_none());
}

/// Every client gets an entry in its own form, and the entry is recognised again.
#[test]
fn every_client_is_told_in_its_own_words() {
    let url = "http://127.0.0.1:7332/mcp";
    let http = [
        (ClientName::ClaudeCode, Some(json!({ "type": "http", "url": url }))),
        (ClientName::ClaudeDesktop, None),
        (ClientName::VsCode, Some(json!({ "type": "http", "url": url }))),
        (ClientName::Cursor, Some(json!({ "url": url }))),
        (ClientName::Windsurf, Some(json!({ "serverUrl": url }))),
        (ClientName::Zed, Some(json!({ "url": url }))),
        (ClientName::GeminiCli, Some(json!({ "httpUrl": url }))),
        (ClientName::Codex, Some(json!({ "url": url }))),
    ];
    let gateway = gateway();
    let env = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
    for (name, expected) in http {
        let client = Some(name.client());
        assert_eq!(gateway.entry(client, Door::Http, &BTreeMap::new()), expected, "{name:?}");
        assert_eq!(
            expected.and_then(|entry| gateway.door_of(&entry)),
            gateway.entry(client, Door::Http, &env).map(|_| Door::Http)
        );
        let stdio = gateway.entry(client, Door::Stdio, &env).unwrap();
        assert_eq!(
            stdio.get("type").is_some(),
            matches!(name, ClientName::ClaudeCode | ClientName::VsCode),
            "{name:?}"
        );
        assert_eq!(stdio["args"], json!(["--config", "/projects/shop/servanda.yaml", "stdio"]));
        assert_eq!((&stdio["command"], &stdio["env"]), (&json!("/opt/servanda"), &json!({ "A": "b" })));
        assert_eq!(gateway.door_of(&stdio), Some(Door::Stdio));
    }
}

#[test]
fn only_this_gateway_is_recognised() {
    let program = std::env::current_exe().unwrap();
    let cases = [
        (
            json!({ "command": "/moved/servanda", "args": ["--config", "/projects/shop/servanda.yaml", "stdio"] }),
            Some(Door::Stdio),
        ),
        (json!({ "command": "/opt/servanda", "args": ["-c", "/other/servanda.yaml", "stdio"] }), None),
        (json!({ "command": program, "args": ["stdio"] }), Some(Door::Stdio)),
        (json!({ "command": program, "args": ["sample"] }), None),
        (json!({ "command": "npx", "args": ["stdio"] }), None),
        (json!({ "url": "http://localhost:7332/mcp" }), Some(Door::Http)),
        (json!({ "url": "http://127.0.0.1:7333/mcp" }), None),
        (json!({ "url": "https://example.com" }), None),
        (json!({}), None),
        (json!(null), None),
    ];
    for (entry, expected) in cases {
        assert_eq!(gateway().door_of(&entry), expected, "{entry}");
    }
}

#[test]
fn a_reference_is_matched_with_the_value_it_stands_for() {
    let cases = [
        ("${TOKEN}", "t0p", Some(("TOKEN", "t0p"))),
        ("Bearer ${TOKEN}", "Bearer t0p", Some(("TOKEN", "t0p"))),
        ("https://h?k=${K}&x=1", "https://h?k=v&x=1", Some(("K", "v"))),
        ("${TOKEN}", "${TOKEN}", None),
        ("${TOKEN:-x}", "y", None),
        ("${A}${B}", "ab", None),
        ("plain", "plain", None),
        ("Bearer ${TOKEN}", "Basic x", None),
        ("${TOKEN}", "", None),
    ];
    for (ours, theirs, expected) in cases {
        let found = value_behind(ours, theirs);
        assert_eq!(found.as_ref().map(|(name, value)| (name.as_str(), value.as_str())), expected, "{ours} {theirs}");
    }
}

const CODEX: &str = "# my settings\nmodel = \"x\" # the good one\n\n[mcp_servers.docs]\ncommand = \"npx\" # comment\nargs = [\"-y\",\n  \"docs\"]\n[mcp_servers.docs.env]\nA = \"b\"\n\n[tools]\nweb = true\n";

/// Comments and layout of a TOML file stay when a server is added and when it is removed.
#[test]
fn toml_is_edited_without_touching_the_rest() {
    let entry = json!({ "command": "/opt/servanda", "args": ["--config", "/x", "stdio"], "env": { "A": "b" } });
    let added = "[mcp_servers.servanda]\ncommand = \"/opt/servanda\"\nargs = [\"--config\", \"/x\", \"stdio\"]\nenv = { A = \"b\" }\n";
    assert_eq!(toml::put("", "servanda", &entry).unwrap(), added);
    let edited = Notation::Toml.put(CODEX, "servanda", &entry).unwrap();
    assert_eq!(edited.replace(&format!("\n{added}"), ""), CODEX, "{edited}");
    assert_eq!(toml::read(&edited).unwrap()["mcp_servers"]["servanda"], entry);
    assert_eq!(Notation::Toml.take_out(&edited, "servanda", false).unwrap(), CODEX);
    // Removes another server and restores it.
    let without = Notation::Toml.take_out(&edited, "docs", false).unwrap();
    assert!(
        !without.contains("docs") && without.contains("# my settings") && without.contains("web = true"),
        "{without}"
    );
    let back = Notation::Toml.put_back(&without, "docs", CODEX).unwrap();
    assert_eq!(toml::read(&back).unwrap(), toml::read(&edited).unwrap(), "{back}");
    assert!(back.contains("# comment"), "{back}");
    for (text, expected) in
        [("model = \n", "line 1, column 9"), ("mcp_servers = 7\n", "`mcp_servers` should be a table")]
    {
        let error = Notation::Toml.put(text, "a", &json!({})).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Windows line ends stay; a file with mixed line ends is not edited.
#[test]
fn toml_with_other_line_ends() {
    let text = CODEX.replace('\n', "\r\n");
    let edited = Notation::Toml.put(&text, "servanda", &json!({ "url": "http://127.0.0.1:1/mcp" })).unwrap();
    assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count(), "{edited:?}");
    assert_eq!(Notation::Toml.take_out(&edited, "servanda", false).unwrap(), text);
    let mixed = CODEX.replacen('\n', "\r\n", 1);
    let error = Notation::Toml.put(&mixed, "servanda", &json!({})).unwrap_err();
    assert!(error.to_string().contains("without changing other lines"), "{error}");
}

#[test]
fn a_notation_is_told_from_the_file() {
    let cases = [
        ("x.json", "{\"servers\": {}}", Notation::Json("servers")),
        ("x.json", "{\"context_servers\": {}}", Notation::Json("context_servers")),
        ("x.json", "{\"mcpServers\": {}, \"servers\": {}}", Notation::Json("mcpServers")),
        ("x.json", "", Notation::Json("mcpServers")),
        ("x.toml", "", Notation::Toml),
        ("x.toml", CODEX, Notation::Toml),
    ];
    for (file, text, expected) in cases {
        assert_eq!(Notation::detect(Path::new(file), text), expected, "{file} {text}");
    }
}

/// A server is restored as it was written, with the comments inside it.
#[test]
fn a_server_is_put_back_as_it_was_written() {
    let notation = Notation::Json("servers");
    let text = "{\n  \"servers\": {\n    \"a\": { \"command\": \"x\", // why\n           \"args\": [] },\n    \"b\": {}\n  }\n}\n";
    let without = notation.take_out(text, "a", false).unwrap();
    let back = notation.put_back(&without, "a", text).unwrap();
    assert!(back.contains("{ \"command\": \"x\", // why\n           \"args\": [] }"), "{back}");
    assert!(notation.put_back(&without, "never", text).is_err());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_is_written_whole_with_its_permissions_through_its_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("dotfiles.json"), folder.path().join("link.json"));
    fs::write(&real, "{}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("dotfiles.json", &link).unwrap();
    let file = ClientFile::read(&link).unwrap();
    let backup = file.keep(Timestamp::from_unix_ms(0)).unwrap().unwrap();
    assert_eq!(backup, folder.path().join("link.json.servanda-backup-19700101T000000.000Z"));
    assert_eq!((fs::read_to_string(&backup).unwrap().as_str(), mode(&backup)), ("{}", 0o640));
    file.write("{\"a\": 1}").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link stays one");
    assert_eq!((fs::read_to_string(&real).unwrap().as_str(), mode(&real)), ("{\"a\": 1}", 0o640));
    let names: BTreeSet<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing else is left: {names:?}");
}

#[test]
fn a_file_that_was_changed_meanwhile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    fs::write(&path, "{}").unwrap();
    let file = ClientFile::read(&path).unwrap();
    fs::write(&path, "{ }").unwrap();
    assert!(file.write("{\"a\": 1}").unwrap_err().to_string().contains("changed meanwhile"));
    assert!(file.remove(&[]).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "{ }");
    let absent = ClientFile::read(&folder.path().join("y.json")).unwrap();
    fs::write(folder.path().join("y.json"), "theirs").unwrap();
    assert!(absent.write("ours").is_err(), "it was created meanwhile");
}

#[test]
fn what_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let error = ClientFile::read(&path).unwrap().write("{\"a\": 1}").unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    let lost = folder.path().join("lost.json");
    symlink("nowhere", &lost).unwrap();
    assert!(ClientFile::read(&lost).unwrap_err().to_string().contains("leads nowhere"));
    let large = folder.path().join("large.json");
    fs::File::create(&large).unwrap().set_len((64 << 20) + 1).unwrap();
    assert!(ClientFile::read(&large).unwrap_err().to_string().contains("is larger than"));
    fs::write(folder.path().join("b.json"), [0xff, 0xfe]).unwrap();
    assert!(ClientFile::read(&folder.path().join("b.json")).unwrap_err().to_string().contains("not UTF-8"));
}

/// Folders that were made for a file are removed with it, unless they are no longer empty.
#[test]
fn folders_come_and_go_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/x.json");
    let made = ClientFile::read(&path).unwrap().write("{}").unwrap();
    assert_eq!(made, [folder.path().join("a"), folder.path().join("a/b")]);
    fs::write(folder.path().join("a/other"), "").unwrap();
    ClientFile::read(&path).unwrap().remove(&made).unwrap();
    assert!(!folder.path().join("a/b").exists() && folder.path().join("a/other").exists());
}

#[test]
fn a_value_of_toml_is_a_value() {
    let value: Value =
        toml::read("a = 1\nb = 1.5\nc = true\nd = 1979-05-27\ne = [1, {f = \"g\"}]\n[[h]]\ni = 1\n").unwrap();
    assert_eq!(
        value,
        json!({ "a": 1, "b": 1.5, "c": true, "d": "1979-05-27", "e": [1, { "f": "g" }], "h": [{ "i": 1 }] })
    );
}
