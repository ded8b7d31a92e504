//! The gateway's entry in a client's list of servers: written with the client's own field names, and recognised in every form.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use servanda_config::parse_listen;

use crate::{
    client_table::{HttpStyle, KnownClient},
    search_path::is_this_program,
};

/// Fields in which clients write a URL.
const ADDRESS_FIELDS: [&str; 3] = ["url", "httpUrl", "serverUrl"];

/// How a client reaches the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// It starts the gateway as a command.
    Stdio,
    /// It connects to a gateway that is running.
    Http,
}

/// A gateway, as clients see it.
#[derive(Debug, Clone)]
pub struct GatewayLocation {
    /// This program.
    pub program: PathBuf,
    /// Its configuration, as a full path.
    pub config: PathBuf,
    /// The address it listens on.
    pub listen: String,
}

impl Door {
    /// The option on the command line that selects it, without its dashes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

impl GatewayLocation {
    /// The URL of its MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.listen)
    }

    /// The gateway's entry for a client; none if the client cannot reach it that way. Without a client, in the form that most clients use.
    pub fn entry(&self, client: Option<&KnownClient>, door: Door, env: &BTreeMap<String, String>) -> Option<Value> {
        let (typed, http) = client.map_or((false, HttpStyle::TypeAndUrl), |client| (client.typed, client.http));
        match (door, http) {
            (Door::Http, HttpStyle::None) => None,
            (Door::Http, HttpStyle::TypeAndUrl) => Some(json!({ "type": "http", "url": self.url() })),
            (Door::Http, HttpStyle::Address(field)) => Some(json!({ field: self.url() })),
            (Door::Stdio, _) => {
                let mut entry = Map::new();
                if typed {
                    entry.insert("type".to_owned(), "stdio".into());
                }
                entry.insert("command".to_owned(), self.program.display().to_string().into());
                entry.insert("args".to_owned(), json!(["--config", self.config.display().to_string(), "stdio"]));
                if !env.is_empty() {
                    entry.insert("env".to_owned(), json!(env));
                }
                Some(entry.into())
            }
        }
    }

    /// How an entry reaches this gateway; none if it does not.
    pub fn door_of(&self, entry: &Value) -> Option<Door> {
        let text = |field: &str| entry.get(field).and_then(Value::as_str);
        if ADDRESS_FIELDS.into_iter().filter_map(text).any(|url| is_listened_at(url, &self.listen)) {
            return Some(Door::Http);
        }
        is_started(entry, &self.config).then_some(Door::Stdio)
    }
}

/// Whether an entry is for a gateway of this configuration: it starts one, or has a URL of the form that [`GatewayLocation::url`] gives.
/// The configuration itself is not read, because it may be broken.
pub(crate) fn is_gateway_of(entry: &Value, config: &Path) -> bool {
    let url = |field: &str| entry.get(field).and_then(Value::as_str);
    let is_address = |url: &str| {
        let listen = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
        listen.is_some_and(|listen| is_listened_at(url, listen))
    };
    ADDRESS_FIELDS.into_iter().filter_map(url).any(is_address) || is_started(entry, config)
}

/// Whether an entry starts the gateway of a configuration.
fn is_started(entry: &Value, config: &Path) -> bool {
    let args = entry.get("args").and_then(Value::as_array);
    let args: Vec<&str> = args.into_iter().flatten().filter_map(Value::as_str).collect();
    let named = args.iter().position(|arg| matches!(*arg, "--config" | "-c")).and_then(|at| args.get(at + 1));
    let is_ours = match named {
        // An update may have moved the program, so the configuration decides whether it is this gateway.
        Some(named) => same_file(Path::new(named), config),
        None => entry.get("command").and_then(Value::as_str).is_some_and(is_this_program),
    };
    is_ours && args.contains(&"stdio")
}

fn same_file(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// The variable that our configuration refers to, with the value that the client's file has in its place.
pub fn value_behind(ours: &str, theirs: &str) -> Option<(String, String)> {
    let [reference] = servanda_config::expansion::references(ours).try_into().ok()?;
    let (before, after) = ours.split_once(&format!("${{{}}}", reference.name))?;
    let value = theirs.strip_prefix(before)?.strip_suffix(after)?;
    let plain = reference.default.is_none() && !value.is_empty() && !value.contains("${");
    plain.then(|| (reference.name.to_owned(), value.to_owned()))
}

/// Whether a URL leads to our listening address.
pub fn is_listened_at(url: &str, listen: &str) -> bool {
    let authority = url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let addresses = authority.map(|authority| (parse_listen(authority), parse_listen(listen)));
    matches!(addresses, Some((Ok(theirs), Ok(ours))) if theirs == ours)
}
