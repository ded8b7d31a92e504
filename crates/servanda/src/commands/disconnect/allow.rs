//! Takes the client's own rule for the gateway's tools out of its settings again. Settings that were not changed since are restored byte for
//! byte; of others only the rule is taken out.

use serde_json::{Map, Value};
use servanda_clients::{
    allow_rule::{settings_word, without_word},
    connections::{ClientFileConnection, PriorFileState, PriorFileText, WrittenAllowRule},
    file::{ClientFile, shown},
    json,
};
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;

use crate::{commands::connect::ProposedFileChange, failure::CommandFailure};

/// The planned change of a client's settings.
#[derive(Debug)]
pub(super) struct SettingsUndo {
    file: ClientFile,
    /// The new text; none if the file is to be removed.
    after: Option<String>,
    /// Whether the file is restored byte for byte.
    exact: bool,
    written: WrittenAllowRule,
}

impl SettingsUndo {
    /// The change that takes the rule out; none if there is nothing to take out. What cannot be undone is noted.
    pub(super) fn plan(
        connection: &ClientFileConnection,
        settings: Option<ClientFile>,
        notes: &mut Vec<String>,
    ) -> Option<Self> {
        let (written, file) = (connection.allow.clone()?, settings?);
        let text = file.text.clone()?;
        let (after, exact) = match written.prior_text(file.digest().as_deref()) {
            Some(PriorFileText::Absent) => (None, true),
            Some(PriorFileText::Text(text)) => (Some(text), true),
            None => match without_word(&text, &settings_word(&connection.name)) {
                Ok(after) if after == text => return None,
                Ok(after) if written.before == Some(PriorFileState::Absent) && is_empty(&after) => (None, false),
                Ok(after) => (Some(after), false),
                Err(why) => {
                    let word = settings_word(&connection.name);
                    notes.push(format!("`{word}` stays in {}: {why}; take it out by hand", shown(&written.file)));
                    return None;
                }
            },
        };
        Some(Self { file, after, exact, written })
    }

    /// The change, for the question to the user.
    pub(super) fn proposed(&self) -> ProposedFileChange<'_> {
        ProposedFileChange { file: &self.file, after: self.after.as_deref() }
    }

    /// Makes the change, and says what was done.
    pub(super) fn write(&self) -> Result<String, CommandFailure> {
        // Settings that are restored byte for byte need no new backup.
        let backup = if self.exact { None } else { self.file.keep(SystemClock.now())? };
        match &self.after {
            Some(text) => drop(self.file.write(text)?),
            None => self.file.remove(&self.written.made_folders)?,
        }
        if self.exact
            && let Some(PriorFileState::Kept { backup, .. }) = &self.written.before
        {
            // The settings were not changed after all.
            let _ = std::fs::remove_file(backup);
        }
        let name = shown(&self.written.file);
        Ok(match (self.exact, backup) {
            (true, _) if self.after.is_none() => format!("removed {name}, which was not there before"),
            (true, _) => format!("{name} is what it was, byte for byte"),
            (false, Some(backup)) => {
                format!("the rule was taken out of {name}; what it was until now is kept as {}", shown(&backup))
            }
            (false, None) => format!("the rule was taken out of {name}"),
        })
    }
}

/// Whether settings say nothing, or have only the empty list that a rule leaves.
fn is_empty(text: &str) -> bool {
    let says_nothing =
        |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    let value = json::parse(text).map(|root| root.value()).unwrap_or_default();
    let Some(members) = value.as_object() else { return false };
    members.iter().all(|(name, value)| {
        name == "permissions" && value.as_object().is_some_and(|list| list.values().all(says_nothing))
    })
}
