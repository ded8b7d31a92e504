//! How a client's file is written, and the operations on it: list the servers, add one, remove one, restore one. Every edit is checked: all
//! other content must keep its meaning.

use std::path::Path;

use serde_json::{Map, Value};

use super::{json, toml};

/// Fields that hold a list of servers.
pub(crate) const CONTAINERS: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// The list of servers in a client's file, and the field it is in.
pub(crate) fn servers_of(document: &Value) -> Option<(&'static str, &Map<String, Value>)> {
    CONTAINERS.into_iter().find_map(|field| Some((field, document.get(field)?.as_object()?)))
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// JSON with or without comments, the servers under this field.
    Json(&'static str),
    /// TOML, as Codex has it.
    Toml,
}

impl Notation {
    /// The notation of a file that belongs to no known client.
    pub(crate) fn detect(file: &Path, text: &str) -> Self {
        let found = json::parse(text).ok().and_then(|root| servers_of(&root.value()).map(|(field, _)| field));
        match found {
            Some(field) => Self::Json(field),
            None if file.extension().is_some_and(|ending| ending == "toml") => Self::Toml,
            None => Self::Json("mcpServers"),
        }
    }

    /// The field that holds the servers.
    pub(crate) fn container(self) -> &'static str {
        match self {
            Self::Json(field) => field,
            Self::Toml => toml::CONTAINER,
        }
    }

    /// The whole file as a value. An empty file is an empty object.
    pub(crate) fn document(self, text: &str) -> Result<Value, String> {
        if text.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        let document = match self {
            Self::Json(_) => json::parse(text).map_err(|error| error.to_string())?.value(),
            Self::Toml => toml::read(text)?,
        };
        let servers = document.get(self.container());
        if !document.is_object() || servers.is_some_and(|servers| !servers.is_object()) {
            return Err(format!("`{}` should be an object that lists servers", self.container()));
        }
        Ok(document)
    }

    /// The servers, in the file's order.
    pub(crate) fn servers(self, text: &str) -> Result<Vec<(String, Value)>, String> {
        let document = self.document(text)?;
        let servers = document.get(self.container()).and_then(Value::as_object);
        Ok(servers.into_iter().flatten().map(|(name, server)| (name.clone(), server.clone())).collect())
    }

    /// Adds a server, or replaces the one of the same name.
    pub(crate) fn put(self, text: &str, name: &str, server: &Value) -> Result<String, String> {
        let edited = match self {
            Self::Json(field) => json::edit::put(text, field, name, server).map_err(|error| error.to_string())?,
            Self::Toml => toml::put(text, name, server)?,
        };
        self.checked(text, &edited, name)
    }

    /// Removes a server. If the list is then empty and `list_too` is set, removes the list as well.
    pub(crate) fn take_out(self, text: &str, name: &str, list_too: bool) -> Result<String, String> {
        let edited = match self {
            Self::Json(field) => {
                json::edit::take_out(text, field, name, list_too).map_err(|error| error.to_string())?
            }
            Self::Toml => toml::take_out(text, name)?,
        };
        self.checked(text, &edited, name)
    }

    /// Restores a server as another text has it.
    pub(crate) fn put_back(self, text: &str, name: &str, from: &str) -> Result<String, String> {
        let edited = match self {
            Self::Json(field) => {
                let root = json::parse(from).map_err(|error| error.to_string())?;
                let there = root.member(field).and_then(|servers| servers.value.member(name));
                let Some(raw) = there.and_then(|there| from.get(there.value.span.clone())) else {
                    return Err(format!("`{name}` is no longer there"));
                };
                json::edit::put_raw(text, field, name, raw).map_err(|error| error.to_string())?
            }
            Self::Toml => toml::put_back(text, name, from)?,
        };
        self.checked(text, &edited, name)
    }

    /// Returns the edited text if everything except that server still means the same.
    fn checked(self, before: &str, after: &str, name: &str) -> Result<String, String> {
        let rest = |text: &str| {
            let mut document = self.document(text)?;
            if let Some(servers) = document.get_mut(self.container()).and_then(Value::as_object_mut) {
                servers.shift_remove(name);
            }
            // An empty list and a missing list mean the same to clients.
            if document.get(self.container()).and_then(Value::as_object).is_some_and(Map::is_empty)
                && let Some(members) = document.as_object_mut()
            {
                members.shift_remove(self.container());
            }
            Ok::<_, String>(document)
        };
        if rest(before)? != rest(after)? {
            return Err("it cannot be edited without changing other content".to_owned());
        }
        Ok(after.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Notation;

    /// An edit that changes anything else is refused, whatever the cause.
    #[test]
    fn what_an_edit_was_not_about_has_to_stay() {
        let before = "{\"a\": 1, \"mcpServers\": {\"x\": {}}}";
        let notation = Notation::Json("mcpServers");
        for after in ["{\"a\": 1, \"mcpServers\": {\"x\": {}, \"servanda\": {}}}", before] {
            assert_eq!(notation.checked(before, after, "servanda").unwrap(), after);
        }
        for after in
            ["{\"a\": 2, \"mcpServers\": {\"x\": {}}}", "{\"a\": 1, \"mcpServers\": {\"y\": {}}}", "{\"a\": 1}", "{"]
        {
            assert!(notation.checked(before, after, "servanda").is_err(), "{after}");
        }
    }
}
