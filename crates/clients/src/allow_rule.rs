//! The rule by which a client lets every tool of one server pass without asking its user, so that people are asked once: by the gateway, about
//! the calls that need it. Only rules that a client documents are here; a client without one keeps asking.
//!
//! Deliberately not here: whether the user wants the rule.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::{
    client_locations::{ClientFileLocation, ClientFileScope, ClientFolders},
    json::{self, JsoncError},
};

/// The list of rules in Claude Code's settings.
const SETTINGS_LIST: [&str; 2] = ["permissions", "allow"];

/// How a client is told that a server's tools need no question of its own.
#[derive(Debug, Clone, Copy)]
pub enum AllowRule {
    /// By a field of the server's entry.
    EntryField {
        /// The field.
        name: &'static str,
        /// Its value.
        value: AllowValue,
    },
    /// By a word in the list `permissions.allow` of a settings file: Claude Code's `mcp__NAME`.
    SettingsList {
        /// The settings of each scope.
        places: &'static [(ClientFileScope, SettingsLocation)],
    },
    /// It documents none that a file could have for one server; the text says what it has instead.
    NotDocumented(&'static str),
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub enum AllowValue {
    /// `true`.
    Yes,
    /// A word.
    Word(&'static str),
}

/// Where a client keeps its settings.
#[derive(Debug, Clone, Copy)]
pub struct SettingsLocation(pub(crate) ClientFileLocation);

/// A rule that was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllowRuleError {
    /// The settings are not JSON, or not of the form that the client reads.
    #[error(transparent)]
    Settings(#[from] JsoncError),
    /// The edit would change something else.
    #[error("it cannot be edited without changing other content")]
    OtherContent,
}

impl AllowRule {
    /// The settings file that has the rule, for a connection in the client's file of that scope; none if no other file is needed.
    pub fn settings_file(self, scope: ClientFileScope, around: &ClientFolders) -> Option<PathBuf> {
        let Self::SettingsList { places } = self else { return None };
        places.iter().find(|(there, _)| *there == scope).map(|(_, place)| around.path(place.0))
    }

    /// All settings files that may have the rule.
    pub fn settings_files(self, around: &ClientFolders) -> Vec<PathBuf> {
        match self {
            Self::SettingsList { places } => places.iter().map(|(_, place)| around.path(place.0)).collect(),
            Self::EntryField { .. } | Self::NotDocumented(_) => Vec::new(),
        }
    }

    /// The server's entry with the rule, if it is a field of it.
    #[must_use]
    pub fn in_entry(self, entry: Value) -> Value {
        match (self, entry) {
            (Self::EntryField { name, value }, Value::Object(mut members)) => {
                members.insert(name.to_owned(), value.json());
                Value::Object(members)
            }
            (_, entry) => entry,
        }
    }

    /// Whether an entry has the rule.
    pub fn is_in_entry(self, entry: &Value) -> bool {
        matches!(self, Self::EntryField { name, value } if entry.get(name) == Some(&value.json()))
    }

    /// Whether the rule can be for a server of that name. Claude Code writes `mcp__SERVER__TOOL`, and cannot tell where a name with `__` ends.
    pub fn can_name(self, server: &str) -> bool {
        match self {
            Self::SettingsList { .. } => !server.contains("__") && !server.starts_with('_') && !server.ends_with('_'),
            Self::EntryField { .. } => true,
            Self::NotDocumented(_) => false,
        }
    }

    /// The rule in words, for the question to the user and for notes: what is written, and where.
    pub fn describe(self, server: &str) -> String {
        match self {
            Self::EntryField { name, value } => format!("`{name}`: {} in the entry", value.json()),
            Self::SettingsList { .. } => format!("`{}` in `permissions.allow`", settings_word(server)),
            Self::NotDocumented(instead) => instead.to_owned(),
        }
    }
}

impl AllowValue {
    fn json(self) -> Value {
        match self {
            Self::Yes => json!(true),
            Self::Word(word) => json!(word),
        }
    }
}

/// The rule for a server in Claude Code's settings.
pub fn settings_word(server: &str) -> String {
    format!("mcp__{server}")
}

/// Whether settings have a rule.
pub fn has_word(text: &str, word: &str) -> bool {
    words(text).is_ok_and(|words| words.iter().any(|there| there == word))
}

/// The settings with one more rule.
pub fn with_word(text: &str, word: &str) -> Result<String, AllowRuleError> {
    if has_word(text, word) {
        return Ok(text.to_owned());
    }
    checked(text, json::list_edit::add(text, SETTINGS_LIST, word)?, word)
}

/// The settings without a rule.
pub fn without_word(text: &str, word: &str) -> Result<String, AllowRuleError> {
    checked(text, json::list_edit::remove(text, SETTINGS_LIST, word)?, word)
}

fn words(text: &str) -> Result<Vec<Value>, JsoncError> {
    let document = if text.trim().is_empty() { Value::Object(Map::new()) } else { json::parse(text)?.value() };
    let list = SETTINGS_LIST.iter().try_fold(&document, |at, key| at.get(*key));
    Ok(list.and_then(Value::as_array).cloned().unwrap_or_default())
}

/// Returns the edited text if everything except that rule still means the same.
fn checked(before: &str, after: String, word: &str) -> Result<String, AllowRuleError> {
    let rest = |text: &str| {
        let mut document = if text.trim().is_empty() { Value::Object(Map::new()) } else { json::parse(text)?.value() };
        if let Some(list) = document.pointer_mut("/permissions/allow").and_then(Value::as_array_mut) {
            list.retain(|there| there != word);
        }
        // An empty list and a missing one mean the same to the client.
        if document.pointer("/permissions/allow").and_then(Value::as_array).is_some_and(Vec::is_empty)
            && let Some(permissions) = document.get_mut("permissions").and_then(Value::as_object_mut)
        {
            permissions.shift_remove("allow");
        }
        if document.get("permissions").and_then(Value::as_object).is_some_and(Map::is_empty)
            && let Some(members) = document.as_object_mut()
        {
            members.shift_remove("permissions");
        }
        Ok::<_, AllowRuleError>(document)
    };
    if rest(before)? != rest(&after)? {
        return Err(AllowRuleError::OtherContent);
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::{has_word, with_word, without_word};

    #[test]
    fn a_rule_is_added_and_taken_out_and_everything_else_stays() {
        let table = [
            ("", "{\n  \"permissions\": {\n    \"allow\": [\"mcp__servanda\"]\n  }\n}\n"),
            ("{}", "{\n  \"permissions\": {\n    \"allow\": [\"mcp__servanda\"]\n  }\n}"),
            (
                "{\"model\":\"x\",\"permissions\":{\"deny\":[\"WebFetch\"]}}",
                "{\"model\":\"x\",\"permissions\":{\"deny\":[\"WebFetch\"],\"allow\":[\"mcp__servanda\"]}}",
            ),
            (
                "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls)\", // why\n      \"Read\"\n    ]\n  }\n}\n",
                "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls)\", // why\n      \"Read\",\n      \"mcp__servanda\"\n    ]\n  }\n}\n",
            ),
            (
                "{\"permissions\": {\"allow\": [\"Read\"]}}",
                "{\"permissions\": {\"allow\": [\"Read\", \"mcp__servanda\"]}}",
            ),
            (
                "{\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Read\",\n\t\t],\n\t},\n}",
                "{\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Read\",\n\t\t\t\"mcp__servanda\",\n\t\t],\n\t},\n}",
            ),
            ("{\"permissions\": {\"allow\": []}}", "{\"permissions\": {\"allow\": [\"mcp__servanda\"]}}"),
        ];
        for (before, after) in table {
            let with = with_word(before, "mcp__servanda").unwrap();
            assert_eq!(with, after);
            assert!(has_word(&with, "mcp__servanda") && !has_word(before, "mcp__servanda"));
            assert_eq!(with_word(&with, "mcp__servanda").unwrap(), with, "once is enough");
            let without = without_word(&with, "mcp__servanda").unwrap();
            assert!(!has_word(&without, "mcp__servanda"), "{without}");
            assert_eq!(without_word(before, "mcp__servanda").unwrap(), before, "what is not there is not taken out");
            for comment in ["// why", "Bash(ls)", "WebFetch", "\"Read\""] {
                assert_eq!(without.contains(comment), before.contains(comment), "{without}");
            }
        }
    }

    #[test]
    fn settings_of_another_form_are_left_alone() {
        for text in ["[]", "{", "{\"permissions\": []}", "{\"permissions\": {\"allow\": {}}}", "{\"permissions\": 1}"] {
            assert!(with_word(text, "mcp__servanda").is_err(), "{text}");
        }
    }
}
