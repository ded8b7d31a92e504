//! Reads the file in which an MCP client lists its servers, and turns it into upstreams of ours. What cannot be taken over
//! is said, never dropped in silence.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use servanda_catalog::names;

use crate::{config::UpstreamConfig, failure::Failure};

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
    cwd: Option<std::path::PathBuf>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
}

/// Reads a client's file.
pub(crate) fn read(file: &Path) -> Result<Imported, Failure> {
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
    let imported = import(client);
    if imported.upstreams.is_empty() {
        let why = if imported.notes.is_empty() { String::new() } else { format!(": {}", imported.notes.join("; ")) };
        return Err(Failure::bad_input(format!("`{shown}` lists no server that can be used{why}"))
            .hint("list servers under \"mcpServers\", each with a \"command\" or a \"url\""));
    }
    Ok(imported)
}

fn import(client: ClientFile) -> Imported {
    let mut imported = Imported::default();
    for (name, server) in client.mcp_servers {
        let id = names::to_upstream_id(&name);
        let refusal = if server.disabled {
            Some("it is disabled there")
        } else if server.r#type.as_deref() == Some("sse") {
            Some("HTTP+SSE is deprecated and not spoken; use the server's Streamable HTTP address")
        } else if server.command.is_none() == server.url.is_none() {
            Some("it needs either a `command` or a `url`")
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
