//! Reads one server from a client's file, in any known spelling of its fields, into an upstream of ours. Fields that cannot be honoured are
//! returned as user notes. Naming and secrets are handled elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use servanda_config::{UpstreamConfig, expansion::expand_or_keep};

use servanda_vault::is_variable;

use crate::{env_file, variables::EditorContext};

/// Fields that can be ignored.
const QUIET: [&str; 10] =
    ["description", "title", "name", "id", "icon", "icons", "gallery", "version", "source", "provider"];
/// Fields whose meaning is configured elsewhere here.
const ELSEWHERE: [(&str, &[&str]); 5] = [
    (
        "each contract has its own time limits",
        &["timeout", "initTimeout", "requestTimeout", "startup_timeout_sec", "tool_timeout_sec", "startup_timeout_ms"],
    ),
    (
        "contracts say what waits for a person",
        &["autoApprove", "alwaysAllow", "trust", "default_tools_approval_mode", "autoApproveTools"],
    ),
    (
        "every tool gets a contract; delete those of tools you do not want",
        &[
            "disabledTools",
            "excludeTools",
            "includeTools",
            "enabledTools",
            "allowedTools",
            "enabled_tools",
            "disabled_tools",
            "tools",
        ],
    ),
    ("there is no sign-in by OAuth here", &["oauth", "auth", "authProviderType", "oauth_resource", "scopes"]),
    ("upstreams are not sandboxed yet", &["sandbox", "sandboxEnabled"]),
];

/// A server that was read.
#[derive(Debug)]
pub(crate) struct ImportedEntry {
    /// The upstream.
    pub upstream: UpstreamConfig,
    /// What was not imported, and why.
    pub user_notes: Vec<String>,
    /// Variables that a person has to set, with descriptions.
    pub asked: Vec<(String, String)>,
    /// Values from a file of variables, all of which count as secrets.
    pub private: BTreeMap<String, String>,
}

/// Why a server cannot be an upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportEntryError {
    /// It is malformed.
    #[error("{0}")]
    Malformed(String),
    /// It is well-formed, but has a meaning that is not supported here.
    #[error("{0}")]
    Foreign(String),
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryTransport {
    Stdio,
    Http,
}

/// Reads one server; an error says why it cannot be an upstream.
pub(crate) fn read(server: &Value, editor: &EditorContext) -> Result<ImportedEntry, ImportEntryError> {
    let server = server.as_object().ok_or_else(|| malformed("it is not an object"))?;
    let mut fields = EntryFields::new(server, editor);
    if fields.flag("disabled")? == Some(true)
        || fields.flag("enabled")? == Some(false)
        || fields.flag("isActive")? == Some(false)
    {
        return Err(foreign("it is disabled there"));
    }
    let kind = fields.kind()?;
    let command = fields.text(&["command"])?;
    let url = fields.text(&["url", "httpUrl", "serverUrl"])?;
    let upstream = match (command, url) {
        (Some(command), None) if kind != Some(EntryTransport::Http) => {
            UpstreamConfig { command: Some(command), ..fields.program()? }
        }
        (None, Some(url)) if kind != Some(EntryTransport::Stdio) => fields.address(url)?,
        (Some(_), None) => return Err(malformed("it says it is reached over HTTP, and has a `command`")),
        (None, Some(_)) => return Err(malformed("it says it is a command, and has a `url`")),
        _ => return Err(malformed("it needs either a `command` or a `url`")),
    };
    let user_notes = fields.user_notes();
    Ok(ImportedEntry { upstream, user_notes, asked: fields.asked, private: fields.private })
}

/// The fields of a server, and which of them were used.
struct EntryFields<'a> {
    members: BTreeMap<&'a str, &'a Value>,
    read: BTreeSet<&'a str>,
    editor: &'a EditorContext,
    asked: Vec<(String, String)>,
    private: BTreeMap<String, String>,
    user_notes: Vec<String>,
}

impl<'a> EntryFields<'a> {
    fn new(server: &'a Map<String, Value>, editor: &'a EditorContext) -> Self {
        let mut members: BTreeMap<&str, &Value> = server.iter().map(|(name, value)| (name.as_str(), value)).collect();
        // Some clients put the fields of a transport, or of a command, into an object of their own.
        for (outer, inner) in [("transport", ["", ""]), ("command", ["path", "command"])] {
            let Some(nested) = members.get(outer).and_then(|value| value.as_object()) else { continue };
            members.remove(outer);
            for (name, value) in nested {
                let name = if inner.contains(&name.as_str()) { outer } else { name };
                members.entry(name).or_insert(value);
            }
        }
        Self {
            members,
            read: BTreeSet::new(),
            editor,
            asked: Vec::new(),
            private: BTreeMap::new(),
            user_notes: Vec::new(),
        }
    }

    /// The first of these fields that exists and is not empty.
    fn get(&mut self, names: &[&'a str]) -> Option<(&'a str, &'a Value)> {
        self.read.extend(names);
        names.iter().find_map(|name| Some((*name, *self.members.get(name)?))).filter(|(_, value)| !value.is_null())
    }

    fn flag(&mut self, name: &'a str) -> Result<Option<bool>, ImportEntryError> {
        let Some((name, value)) = self.get(&[name]) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| malformed(format!("`{name}` should be true or false")))
    }

    fn text(&mut self, names: &[&'a str]) -> Result<Option<String>, ImportEntryError> {
        let Some((name, value)) = self.get(names) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| malformed(format!("`{name}` should be text")))?;
        self.translate(text).map(Some)
    }

    /// A text in our notation.
    fn translate(&mut self, text: &str) -> Result<String, ImportEntryError> {
        self.asked.extend(self.editor.asked_in(text));
        self.editor.translate(text).map_err(|error| foreign(error.to_string()))
    }

    fn kind(&mut self) -> Result<Option<EntryTransport>, ImportEntryError> {
        let Some((name, value)) = self.get(&["type", "transportType", "transport"]) else { return Ok(None) };
        let word = value.as_str().ok_or_else(|| malformed(format!("`{name}` should be text")))?;
        match word.to_lowercase().replace(['-', '_', ' '], "").as_str() {
            "stdio" | "local" | "command" => Ok(Some(EntryTransport::Stdio)),
            "http" | "https" | "streamablehttp" | "streamable" | "remote" => Ok(Some(EntryTransport::Http)),
            "sse" => Err(foreign("HTTP+SSE is deprecated and not supported; use the server's Streamable HTTP address")),
            _ => Err(foreign(format!("`{word}` is not a supported transport"))),
        }
    }

    /// Everything about a command except the command itself.
    fn program(&mut self) -> Result<UpstreamConfig, ImportEntryError> {
        let mut args = Vec::new();
        if let Some((_, value)) = self.get(&["args"]) {
            for argument in value.as_array().ok_or_else(|| malformed("`args` should be a list"))? {
                let argument = scalar(argument).ok_or_else(|| malformed("`args` should be a list of texts"))?;
                args.push(self.translate(&argument)?);
            }
        }
        let mut env = self.pairs(&["env"])?;
        let mut env_pass = Vec::new();
        if let Some((_, value)) = self.get(&["env_vars"]) {
            env_pass = value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        if let Some(file) = self.text(&["envFile"])? {
            self.env_file(&file, &mut env);
        }
        let cwd = self.text(&["cwd", "workingDirectory"])?.map(|cwd| PathBuf::from(expand_or_keep(&cwd, variable)));
        Ok(UpstreamConfig { args, env, env_pass, cwd, ..UpstreamConfig::default() })
    }

    fn address(&mut self, url: String) -> Result<UpstreamConfig, ImportEntryError> {
        if url.starts_with("unix:") || url.starts_with("pipe:") {
            return Err(foreign("only http:// and https:// addresses are supported"));
        }
        let mut headers = self.pairs(&["headers", "http_headers"])?;
        for (name, variable) in self.pairs(&["env_http_headers"])? {
            headers.insert(name, format!("${{{variable}}}"));
        }
        if let Some(variable) = self.text(&["bearer_token_env_var"])? {
            headers.insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}"));
        }
        Ok(UpstreamConfig { url: Some(url), headers, ..UpstreamConfig::default() })
    }

    /// Names and values. `null` unsets a variable; nothing has to be done, because servers do not inherit it.
    fn pairs(&mut self, names: &[&'a str]) -> Result<BTreeMap<String, String>, ImportEntryError> {
        let Some((field, value)) = self.get(names) else { return Ok(BTreeMap::new()) };
        let mut pairs = BTreeMap::new();
        for (name, value) in value.as_object().ok_or_else(|| malformed(format!("`{field}` should be an object")))? {
            if value.is_null() {
                self.user_notes.push(format!("`{field}.{name}` (it would be unset, and is not handed on here)"));
                continue;
            }
            let value = scalar(value).ok_or_else(|| malformed(format!("`{field}.{name}` should be text")))?;
            pairs.insert(name.clone(), self.translate(&value)?);
        }
        Ok(pairs)
    }

    /// The variables of a file become references, because the file exists to keep them out of other files.
    fn env_file(&mut self, file: &str, env: &mut BTreeMap<String, String>) {
        let path = self.editor.workspace().join(expand_or_keep(file, variable));
        match env_file::read(&path) {
            Ok(variables) => {
                for (name, value) in variables.into_iter().filter(|(name, _)| is_variable(name)) {
                    if !env.contains_key(&name) {
                        env.insert(name.clone(), format!("${{{name}}}"));
                        self.private.insert(name, value);
                    }
                }
            }
            Err(error) => self.user_notes.push(format!("`envFile` (`{}`: {error})", shown(&path))),
        }
    }

    /// Fields that were not used, with the reason if there is one.
    fn user_notes(&mut self) -> Vec<String> {
        let mut user_notes = std::mem::take(&mut self.user_notes);
        for name in self.members.keys().filter(|name| !self.read.contains(*name) && !QUIET.contains(*name)) {
            let why = ELSEWHERE.iter().find(|(_, names)| names.contains(name)).map(|(why, _)| why);
            user_notes.push(why.map_or_else(|| format!("`{name}`"), |why| format!("`{name}` ({why})")));
        }
        user_notes
    }
}

fn malformed(why: impl Into<String>) -> ImportEntryError {
    ImportEntryError::Malformed(why.into())
}

fn foreign(why: impl Into<String>) -> ImportEntryError {
    ImportEntryError::Foreign(why.into())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A string, number or boolean as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
