//! Reads the file in which an MCP client lists its servers, and turns it into upstreams of ours. What cannot be taken over
//! is said, never dropped in silence.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use servanda_catalog::names;

use crate::{
    config::{UpstreamConfig, parse_listen},
    expansion::expand,
    failure::Failure,
};

/// What the name of a variable or header has in it when its value is nobody's business.
const SECRET_WORDS: [&str; 5] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "AUTHORIZATION"];

/// What a client's file gave.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    /// The servers, by our id for them.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// What was not taken over, and why.
    pub notes: Vec<String>,
}

/// Claude's `mcpServers`; some clients say `servers`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientFile {
    #[serde(default, alias = "servers")]
    mcp_servers: BTreeMap<String, ClientServer>,
}

#[derive(Deserialize)]
struct ClientServer {
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
}

impl Imported {
    /// The same, unless there is nothing to start from.
    pub(crate) fn usable(self, file: &Path) -> Result<Self, Failure> {
        if !self.upstreams.is_empty() {
            return Ok(self);
        }
        let why = if self.notes.is_empty() { String::new() } else { format!(": {}", self.notes.join("; ")) };
        Err(Failure::bad_input(format!("`{}` lists no server that can be used{why}", file.display()))
            .hint("list servers under \"mcpServers\", each with a \"command\" or a \"url\""))
    }
}

/// Reads a client's file. An entry that is the gateway which listens at `listen` is left out.
pub(crate) fn read(file: &Path, listen: &str) -> Result<Imported, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::bad_input(format!("there is no `{}`", file.display()))
            .hint("name your client's file with `servanda init --from FILE`, or see it work with `servanda demo`"),
        _ => Failure::bad_input(format!("cannot read `{}`: {error}", file.display())),
    })?;
    let shown = file.display().to_string();
    let client: ClientFile = servanda_contract::document::read(&shown, &text).map_err(|error| {
        Failure::bad_input(error.to_string())
            .hint("it should look like {\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": []}}}")
    })?;
    Ok(import(client, listen))
}

/// What looks like a secret and would be written out.
pub(crate) fn secrets(upstreams: &BTreeMap<String, UpstreamConfig>, config: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    for (id, upstream) in upstreams {
        let env = upstream.env.iter().map(|member| ("env", member));
        for (field, (name, value)) in env.chain(upstream.headers.iter().map(|member| ("headers", member))) {
            let variable = name.to_uppercase().replace('-', "_");
            let secret = SECRET_WORDS.iter().any(|word| variable.contains(word));
            if secret && !value.is_empty() && !value.contains("${") {
                notes.push(format!(
                    "`{id}.{field}.{name}` is written out in {}; `${{{variable}}}` would keep it out",
                    config.display()
                ));
            }
        }
    }
    notes
}

fn import(client: ClientFile, listen: &str) -> Imported {
    let mut imported = Imported::default();
    for (name, server) in client.mcp_servers {
        let id = names::to_upstream_id(&name);
        let refusal = if server.disabled {
            Some("it is disabled there")
        } else if server.r#type.as_deref() == Some("sse") {
            Some("HTTP+SSE is deprecated and not spoken; use the server's Streamable HTTP address")
        } else if server.command.is_none() == server.url.is_none() {
            Some("it needs either a `command` or a `url`")
        } else if is_this_gateway(&server, listen) {
            // It would call itself, round and round.
            Some("it is this gateway")
        } else if imported.upstreams.contains_key(&id) {
            Some("its name is too like another one's")
        } else {
            None
        };
        if let Some(why) = refusal {
            imported.notes.push(format!("`{name}` was left out: {why}"));
            continue;
        }
        if id != name {
            imported.notes.push(format!("`{name}` is called `{id}` here"));
        }
        let stdio = server.command.is_some();
        let upstream = UpstreamConfig {
            command: server.command,
            args: if stdio { server.args } else { Vec::new() },
            env: if stdio { server.env } else { BTreeMap::new() },
            env_pass: Vec::new(),
            cwd: server.cwd.filter(|_| stdio),
            url: server.url,
            headers: if stdio { BTreeMap::new() } else { server.headers },
        };
        imported.upstreams.insert(id, upstream);
    }
    imported
}

fn is_this_gateway(server: &ClientServer, listen: &str) -> bool {
    if let Some(command) = &server.command {
        let gateway = server.args.iter().any(|arg| arg == "serve" || arg == "stdio");
        return gateway && expand(command).is_ok_and(|command| is_this_program(&command));
    }
    let url = server.url.as_deref().and_then(|url| expand(url).ok());
    let authority = url.as_deref().and_then(|url| url.strip_prefix("http://")).and_then(|rest| rest.split('/').next());
    let addresses = authority.map(|authority| (parse_listen(authority), parse_listen(listen)));
    matches!(addresses, Some((Ok(theirs), Ok(ours))) if theirs == ours)
}

/// Whether a command, looked up as a shell would, is the program that runs here.
fn is_this_program(command: &str) -> bool {
    let file = if command.contains('/') {
        Some(PathBuf::from(command))
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|file| file.is_file())
    };
    let file = file.and_then(|file| file.canonicalize().ok());
    file.is_some() && file == std::env::current_exe().and_then(|program| program.canonicalize()).ok()
}
