//! How a client's file is written, and the operations on it: list the servers, add one, remove one, restore one. Every edit is checked: all
//! other content must keep its meaning.

use std::path::Path;

use serde_json::{Map, Value};

use crate::{
    json::{self, JsoncError},
    toml::{self, TomlError},
};

/// Fields that hold a list of servers.
pub const CONTAINERS: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// The list of servers in a client's file, and the field it is in.
pub fn servers_of(document: &Value) -> Option<(&'static str, &Map<String, Value>)> {
    CONTAINERS.into_iter().find_map(|field| Some((field, document.get(field)?.as_object()?)))
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// JSON with or without comments, the servers under this field.
    Json(&'static str),
    /// TOML, as Codex has it.
    Toml,
}

/// Why a file cannot be read or edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotationError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsoncError),
    /// It is not TOML, or not TOML that can be edited.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// The field for servers holds something else.
    #[error("`{0}` should be an object that lists servers")]
    NotAList(&'static str),
    /// The text from which a server is restored does not have it.
    #[error("`{0}` is no longer there")]
    Gone(String),
    /// The edit would change something else.
    #[error("it cannot be edited without changing other content")]
    OtherContent,
}

impl Notation {
    /// The notation of a file that belongs to no known client.
    pub fn detect(file: &Path, text: &str) -> Self {
        let found = json::parse(text).ok().and_then(|root| servers_of(&root.value()).map(|(field, _)| field));
        match found {
            Some(field) => Self::Json(field),
            None if file.extension().is_some_and(|ending| ending == "toml") => Self::Toml,
            None => Self::Json("mcpServers"),
        }
    }

    /// The field that holds the servers.
    pub fn container(self) -> &'static str {
        match self {
            Self::Json(field) => field,
            Self::Toml => toml::CONTAINER,
        }
    }

    /// The whole file as a value. An empty file is an empty object.
    pub fn document(self, text: &str) -> Result<Value, NotationError> {
        if text.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        let document = match self {
            Self::Json(_) => json::parse(text)?.value(),
            Self::Toml => toml::read(text)?,
        };
        let servers = document.get(self.container());
        if !document.is_object() || servers.is_some_and(|servers| !servers.is_object()) {
            return Err(NotationError::NotAList(self.container()));
        }
        Ok(document)
    }

    /// The servers, in the file's order.
    pub fn servers(self, text: &str) -> Result<Vec<(String, Value)>, NotationError> {
        let document = self.document(text)?;
        let servers = document.get(self.container()).and_then(Value::as_object);
        Ok(servers.into_iter().flatten().map(|(name, server)| (name.clone(), server.clone())).collect())
    }

    /// Adds a server, or replaces the one of the same name.
    pub fn put(self, text: &str, name: &str, server: &Value) -> Result<String, NotationError> {
        let edited = match self {
            Self::Json(field) => json::edit::put(text, field, name, server)?,
            Self::Toml => toml::put(text, name, server)?,
        };
        self.checked(text, &edited, name)
    }

    /// Removes a server. If the list is then empty and `list_too` is set, removes the list as well.
    pub fn take_out(self, text: &str, name: &str, list_too: bool) -> Result<String, NotationError> {
        let edited = match self {
            Self::Json(field) => json::edit::take_out(text, field, name, list_too)?,
            Self::Toml => toml::take_out(text, name)?,
        };
        self.checked(text, &edited, name)
    }

    /// Restores a server as another text has it.
    pub fn put_back(self, text: &str, name: &str, from: &str) -> Result<String, NotationError> {
        let edited = match self {
            Self::Json(field) => {
                let root = json::parse(from)?;
                let there = root.member(field).and_then(|servers| servers.value.member(name));
                let Some(raw) = there.and_then(|there| from.get(there.value.span.clone())) else {
                    return Err(NotationError::Gone(name.to_owned()));
                };
                json::edit::put_raw(text, field, name, raw)?
            }
            Self::Toml => toml::put_back(text, name, from)?,
        };
        self.checked(text, &edited, name)
    }

    /// Returns the edited text if everything except that server still means the same.
    fn checked(self, before: &str, after: &str, name: &str) -> Result<String, NotationError> {
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
            Ok::<_, NotationError>(document)
        };
        if rest(before)? != rest(after)? {
            return Err(NotationError::OtherContent);
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
