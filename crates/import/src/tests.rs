//! Every format as it is found in practice, and what it becomes. A server is shown on one line: `id: command line | env NAME=value | pass
//! NAME | in folder`, or `id: url | Header=value`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use servanda_config::UpstreamConfig;

use super::{ImportError, ImportResult, ImportSource, read};

/// A command.
pub(super) fn stdio(command: &str, args: &[&str]) -> UpstreamConfig {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    UpstreamConfig { command: Some(command.to_owned()), args, ..UpstreamConfig::default() }
}

/// An address.
pub(super) fn http(url: &str, headers: &[(&str, &str)]) -> UpstreamConfig {
    let headers: BTreeMap<_, _> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    UpstreamConfig { url: Some(url.to_owned()), headers, ..UpstreamConfig::default() }
}

/// Imports a file from a folder of its own.
fn import_in(folder: &Path, name: &str, text: &str) -> Result<ImportResult, ImportError> {
    let file = folder.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    read(&ImportSource { file: &file, folder, listen: "127.0.0.1:7332", sha256: None, anew: false })
}

fn import(name: &str, text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut imported = import_in(folder.path(), name, text).unwrap_or_else(|failure| panic!("{failure}"));
    lines(&mut imported, folder.path())
}

/// The imported servers, one line each, with the folder as `~~`.
pub(super) fn lines(imported: &mut ImportResult, folder: &Path) -> Vec<String> {
    let all = imported.upstreams.clone();
    imported.settle(Path::new("servanda.yaml"), &all, &BTreeSet::new());
    let upstreams = imported.upstreams.iter().map(|(id, upstream)| format!("{id}: {}", line(upstream)));
    let lines: Vec<_> = upstreams.chain(imported.notes.iter().map(|note| format!("note: {note}"))).collect();
    let folders = [folder.canonicalize().unwrap_or_default().display().to_string(), folder.display().to_string()];
    lines
        .into_iter()
        .map(|line| {
            folders.iter().filter(|folder| folder.len() > 1).fold(line, |line, folder| line.replace(folder, "~~"))
        })
        .collect()
}

fn line(upstream: &UpstreamConfig) -> String {
    let mut parts =
        vec![upstream.command.iter().chain(&upstream.args).chain(&upstream.url).cloned().collect::<Vec<_>>().join(" ")];
    parts.extend(upstream.env.iter().map(|(name, value)| format!("env {name}={value}")));
    parts.extend(upstream.env_pass.iter().map(|name| format!("pass {name}")));
    parts.extend(upstream.headers.iter().map(|(name, value)| format!("{name}={value}")));
    parts.extend(upstream.cwd.iter().map(|cwd| format!("in {}", cwd.display())));
    parts.join(" | ")
}

#[track_caller]
fn same(found: &[String], expected: &[&str]) {
    assert_eq!(found, expected, "\n{}\n", found.join("\n"));
}

#[test]
fn claude_and_those_who_write_like_it() {
    let text = r#"{ "mcpServers": {
        "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${ROOT:-/srv}"], "cwd": "work" },
        "github": { "type": "http", "url": "https://api.example.com/mcp/", "headers": { "X-Region": "eu" } },
        "streamable": { "type": "streamable-http", "url": "https://a.example/mcp" },
        "cline": { "command": "uvx", "args": ["x"], "timeout": 60, "autoApprove": ["read"], "disabled": false, "odd": 1 },
        "nested": { "transport": { "type": "http", "url": "https://b.example/mcp", "headers": { "A": "b" } } },
        "typed": { "transportType": "stdio", "command": "server", "env": { "PORT": 80, "DEBUG": true, "GONE": null } },
        "gemini": { "httpUrl": "https://c.example/mcp", "trust": true, "includeTools": ["a"] },
        "windsurf": { "serverUrl": "https://d.example/mcp" },
        "zed": { "source": "custom", "command": { "path": "old-zed", "args": ["x"], "env": {} } },
        "cursor": { "url": "https://${env:HOST}/mcp", "auth": {} },
        "off": { "command": "x", "disabled": true }, "off too": { "command": "x", "enabled": false },
        "sse": { "type": "sse", "url": "https://e.example/sse" },
        "socket": { "type": "ws", "url": "wss://e.example" },
        "both": { "command": "x", "url": "https://f.example" }, "none": {}, "odd": 7,
        "crossed": { "type": "stdio", "url": "https://g.example" }, "listy": { "command": ["x"] },
        "editor": { "command": "x", "args": ["${command:pick}"] },
        "my server!": { "command": "x" }, "my_server": { "command": "y" },
        "itself": { "type": "http", "url": "http://localhost:7332/mcp" }
    } }"#;
    same(
        &import("any.json", text),
        &[
            "cline: uvx x",
            "cursor: https://${HOST}/mcp",
            "files: npx -y @modelcontextprotocol/server-filesystem ${ROOT:-/srv} | in work",
            "gemini: https://c.example/mcp",
            "github: https://api.example.com/mcp/ | X-Region=eu",
            "my_server: x",
            "nested: https://b.example/mcp | A=b",
            "streamable: https://a.example/mcp",
            "typed: server | env DEBUG=true | env PORT=80",
            "windsurf: https://d.example/mcp",
            "zed: old-zed x",
            "note: `both` was left out: line 15: it needs either a `command` or a `url`",
            "note: `cline`: not imported: `autoApprove` (contracts say what waits for a person), `odd`, `timeout` (each contract has its own time limits)",
            "note: `crossed` was left out: line 16: it says it is a command, and has a `url`",
            "note: `cursor`: not imported: `auth` (there is no sign-in by OAuth here)",
            "note: `editor` was left out: `${command:pick}` is known to the client only",
            "note: `gemini`: not imported: `includeTools` (every tool gets a contract; delete those of tools you do not want), `trust` (contracts say what waits for a person)",
            "note: `itself` was left out: it is this gateway",
            "note: `listy` was left out: line 16: `command` should be text",
            "note: `my server!` is called `my_server` here",
            "note: `my_server` was left out: its name is too similar to another one",
            "note: `none` was left out: line 15: it needs either a `command` or a `url`",
            "note: `odd` was left out: line 15: it is not an object",
            "note: `off` was left out: it is disabled there",
            "note: `off too` was left out: it is disabled there",
            "note: `socket` was left out: `ws` is not a supported transport",
            "note: `sse` was left out: HTTP+SSE is deprecated and not supported; use the server's Streamable HTTP address",
            "note: `typed`: not imported: `env.GONE` (it would be unset, and is not handed on here)",
            "note: set HOST before `servanda serve`: `cursor` needs it",
        ],
    );
}

#[test]
fn secrets_stay_in_the_clients_file() {
    let text = r#"{ "mcpServers": {
        "one": { "command": "a", "args": ["--api-key", "abc"], "env": { "API_TOKEN": "t0p", "MODE": "x" } },
        "two": { "command": "b", "env": { "API_TOKEN": "other", "SET_TOKEN": "${HOME}" } },
        "far": { "url": "https://h/mcp?token=abc", "headers": { "Authorization": "Bearer abc" } }
    } }"#;
    let folder = tempfile::tempdir().unwrap();
    let mut imported = import_in(folder.path(), "x.json", text).unwrap();
    same(
        &lines(&mut imported, folder.path()),
        &[
            "far: https://h/mcp?token=${FAR_TOKEN} | Authorization=Bearer ${FAR_AUTHORIZATION}",
            "one: a --api-key ${ONE_API_KEY} | env API_TOKEN=${API_TOKEN} | env MODE=x",
            "two: b | env API_TOKEN=${TWO_API_TOKEN} | env SET_TOKEN=${HOME}",
            "note: `far.headers.Authorization` looks like a secret and was not copied: servanda.yaml has ${FAR_AUTHORIZATION} in its place",
            "note: `far.url` looks like a secret and was not copied: servanda.yaml has ${FAR_TOKEN} in its place",
            "note: `one.env.API_TOKEN` looks like a secret and was not copied: servanda.yaml has ${API_TOKEN} in its place",
            "note: `one.args[1]` looks like a secret and was not copied: servanda.yaml has ${ONE_API_KEY} in its place",
            "note: `two.env.API_TOKEN` looks like a secret and was not copied: servanda.yaml has ${TWO_API_TOKEN} in its place",
            "note: set API_TOKEN before `servanda serve`: `one` needs it",
            "note: set FAR_AUTHORIZATION before `servanda serve`: `far` needs it",
            "note: set FAR_TOKEN before `servanda serve`: `far` needs it",
            "note: set ONE_API_KEY before `servanda serve`: `one` needs it",
            "note: set TWO_API_TOKEN before `servanda serve`: `two` needs it",
        ],
    );
    assert_eq!(
        imported.held.variable("TWO_API_TOKEN").as_deref(),
        Some("other"),
        "it is known while servers are asked"
    );
}

#[test]
fn vs_code() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".env"), "FROM_FILE=1\nKEPT=file\n").unwrap();
    let text = r#"{
        // comments and trailing commas, as VS Code writes them
        "inputs": [
            { "type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true },
            { "type": "pickString", "id": "region", "options": ["eu"], "default": "eu" },
        ],
        "servers": {
            "perplexity": { "type": "stdio", "command": "docker", "args": ["run", "-e", "PERPLEXITY_API_KEY"],
                "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}", "REGION": "${input:region}", "N": 3 } },
            "here": { "command": "${workspaceFolder}/bin/server", "cwd": "${workspaceFolder}/sub", "args": ["${userHome}", "${env:USER_NAME}"],
                "envFile": "${workspaceFolder}/.env", "env": { "KEPT": "own" }, "dev": { "watch": "x" } },
            "lost": { "command": "x", "envFile": "nowhere.env", "sandboxEnabled": true },
            "remote": { "type": "http", "url": "https://a.example/mcp", "headers": { "Authorization": "Bearer ${input:perplexity-key}" }, "oauth": { "clientId": "x" } },
            "pipe": { "type": "http", "url": "unix:///tmp/server.sock#/mcp" },
        },
        "sandbox": {},
    }"#;
    let mut imported = import_in(folder.path(), ".vscode/mcp.json", text).unwrap_or_else(|failure| panic!("{failure}"));
    same(
        &lines(&mut imported, folder.path()),
        &[
            "here: ~~/bin/server ${HOME} ${USER_NAME} | env FROM_FILE=${FROM_FILE} | env KEPT=own | in ~~/sub",
            "lost: x",
            "perplexity: docker run -e PERPLEXITY_API_KEY | env N=3 | env PERPLEXITY_API_KEY=${PERPLEXITY_KEY} | env REGION=${REGION:-eu}",
            "remote: https://a.example/mcp | Authorization=Bearer ${PERPLEXITY_KEY}",
            "note: `here`: not imported: `dev`",
            "note: `lost`: not imported: `envFile` (`~~/nowhere.env`: No such file or directory (os error 2)), `sandboxEnabled` (upstreams are not sandboxed yet)",
            "note: `pipe` was left out: only http:// and https:// addresses are supported",
            "note: `remote`: not imported: `oauth` (there is no sign-in by OAuth here)",
            "note: `sandbox` was not imported: upstreams are not sandboxed yet",
            "note: set FROM_FILE before `servanda serve`: `here` needs it",
            "note: set PERPLEXITY_KEY (Perplexity API Key) before `servanda serve`: `perplexity` and `remote` need it",
            "note: set USER_NAME before `servanda serve`: `here` needs it",
        ],
    );
    let settings = r#"{ "editor.fontSize": 12, "mcp": { "servers": { "old": { "command": "x" } } } }"#;
    same(&import("settings.json", settings), &["old: x"]);
}

#[test]
fn claudes_own_file_knows_projects() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    fs::create_dir_all(here.join("deep")).unwrap();
    fs::create_dir_all(&there).unwrap();
    let text = serde_json::json!({
        "numStartups": 7,
        "mcpServers": { "everywhere": { "command": "a" } },
        "projects": {
            here.display().to_string(): { "history": [], "mcpServers": { "local": { "command": "b" }, "everywhere": { "command": "c", "cwd": "x" } } },
            there.display().to_string(): { "mcpServers": { "other": { "command": "d" } } },
            "/never/was": { "mcpServers": {} },
        }
    });
    let file = folder.path().join(".claude.json");
    fs::write(&file, text.to_string()).unwrap();
    let import = |config: &Path| {
        let source = ImportSource { file: &file, folder: config, listen: "127.0.0.1:7332", sha256: None, anew: false };
        lines(&mut read(&source).unwrap(), folder.path())
    };
    same(
        &import(&here.join("deep")),
        &[
            "everywhere: a",
            "everywhere-here: c | in ~~/here/x",
            "local: b | in ~~/here",
            "note: `other` of the project ~~/there was left out: run `servanda init` there",
        ],
    );
    same(
        &import(folder.path()),
        &["everywhere: a", "everywhere-here: c | in ~~/here/x", "local: b | in ~~/here", "other: d | in ~~/there"],
    );
}

#[test]
fn zed_and_codex() {
    let zed = "// Zed settings\n{ \"theme\": \"One\", \"context_servers\": { \"a\": { \"command\": \"x\", \"args\": [] }, \"b\": { \"url\": \"https://a.example\" }, \"c\": { \"source\": \"extension\", \"settings\": {} } } }";
    same(
        &import("settings.json", zed),
        &["a: x", "b: https://a.example", "note: `c` was left out: line 2: it needs either a `command` or a `url`"],
    );
    let codex = "# mine\nmodel = \"x\"\n\n[mcp_servers.docs]\ncommand = \"npx\"\nargs = [\"-y\", \"docs\"]\nenv_vars = [\"LANG\"]\nstartup_timeout_sec = 20\n[mcp_servers.docs.env]\nMODE = \"x\"\n\n[mcp_servers.far]\nurl = \"https://a.example/mcp\"\nbearer_token_env_var = \"FAR_TOKEN\"\nhttp_headers = { \"X-A\" = \"b\" }\nenv_http_headers = { \"X-Key\" = \"FAR_KEY\" }\n";
    same(
        &import("config.toml", codex),
        &[
            "docs: npx -y docs | env MODE=x | pass LANG",
            "far: https://a.example/mcp | Authorization=Bearer ${FAR_TOKEN} | X-A=b | X-Key=${FAR_KEY}",
            "note: `docs`: not imported: `startup_timeout_sec` (each contract has its own time limits)",
            "note: set FAR_KEY before `servanda serve`: `far` needs it",
            "note: set FAR_TOKEN before `servanda serve`: `far` needs it",
        ],
    );
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(super::TEXT_BYTES_MAX + 1).unwrap();
    let folder = Path::new("/");
    let source = ImportSource { file: file.path(), folder, listen: "127.0.0.1:1", sha256: None, anew: false };
    assert!(read(&source).unwrap_err().to_string().contains("is larger than"));
}

#[test]
fn what_is_in_no_known_format_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("{\"a\": 1}", "is in no known format"),
        ("[1, 2]", "is in no known format"),
        ("{\"mcpServers\": {\n  \"a\": {\"command\": \"npx\",,}\n}}", "x.json:2:26: expected a name in quotes, or `}`"),
        ("hello", "x.json:1:1: expected a value"),
        ("model = \n", "x.json:1:1: expected a value"),
        ("model = \"x\"\n", "is in no known format"),
    ];
    for (text, expected) in cases {
        let error = import_in(folder.path(), "x.json", text).err().unwrap_or_else(|| panic!("{text}")).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
