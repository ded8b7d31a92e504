//! The client's own rule that lets every tool of the gateway pass: written on request only, with `--allow` or by an answer on a terminal. A rule
//! that is a field of the gateway's entry is part of the plan; one in a settings file is a change of its own, recorded so that `disconnect`
//! takes it out.

use std::path::PathBuf;

use servanda_clients::{
    ClientFileScope, ClientFolders, KnownClient,
    allow_rule::{AllowRule, AllowRuleError, has_word, settings_word, with_word},
    client_of,
    connections::{ClientFileConnections, PriorFileState, WrittenAllowRule},
    file::{ClientFile, digest},
    notation::Notation,
};
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;

use crate::{
    cli::ConnectArgs,
    failure::CommandFailure,
    screen::{Screen, consent},
};

/// A change to a client's settings.
#[derive(Debug)]
pub(super) struct SettingsChange {
    pub(super) file: ClientFile,
    pub(super) after: String,
}

/// What is known of the client when the rule is thought about.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllowRequest<'a> {
    pub(super) args: &'a ConnectArgs,
    pub(super) client: Option<&'a KnownClient>,
    pub(super) file: &'a ClientFile,
    pub(super) notation: Notation,
    pub(super) around: &'a ClientFolders,
}

impl AllowRequest<'_> {
    /// Whether the user wants the rule. On a terminal the user is asked, unless the client has none or has it already.
    pub(super) fn is_wanted(&self, name: &str, screen: Screen) -> Result<bool, CommandFailure> {
        let Some(client) = self.client else { return Ok(self.args.allow) };
        let may_ask = consent::is_asked(self.args.yes || self.args.dry_run, screen);
        if self.args.allow || !may_ask || !client.allow.can_name(name) || self.has_rule(client, name) {
            return Ok(self.args.allow);
        }
        consent::says_yes(&format!(
            "let {} use every tool of the gateway without asking you each time ({})? The gateway still asks people where an approval is needed",
            client.title,
            client.allow.describe(name)
        ))
    }

    /// Why the rule that the user wants is not written, if it is not.
    pub(super) fn obstacle(&self, name: &str) -> Option<String> {
        let Some(client) = self.client else {
            return Some("which client reads this file is not known, so it keeps asking before each tool".to_owned());
        };
        let title = client.title;
        match client.allow {
            AllowRule::NotDocumented(instead) => Some(format!("{title} keeps asking before each tool: {instead}")),
            _ if !client.allow.can_name(name) => Some(format!(
                "{title} keeps asking before each tool: its rule for a server cannot have the name `{name}`; choose one without `__` with --name"
            )),
            AllowRule::SettingsList { .. } if self.settings_path(client).is_none() => {
                Some(format!("{title} keeps asking before each tool: the settings beside this file are not known"))
            }
            _ => None,
        }
    }

    /// The change to the client's settings; none if the rule is no matter of settings, or is there already.
    pub(super) fn settings_change(&self, name: &str) -> Result<Option<SettingsChange>, CommandFailure> {
        let Some(path) =
            self.client.filter(|client| client.allow.can_name(name)).and_then(|client| self.settings_path(client))
        else {
            return Ok(None);
        };
        let file = ClientFile::read(&path)?;
        let text = file.text.as_deref().unwrap_or_default();
        let after = with_word(text, &settings_word(name)).map_err(|why: AllowRuleError| {
            CommandFailure::bad_input(format!("`{}`: {why}; nothing was changed", file.shown))
                .hint("correct the file, or connect without --allow")
        })?;
        Ok((after != text).then_some(SettingsChange { file, after }))
    }

    fn has_rule(&self, client: &KnownClient, name: &str) -> bool {
        let entry = self.file.text.as_deref().and_then(|text| {
            let servers = self.notation.servers(text).ok()?;
            servers.into_iter().find_map(|(there, entry)| (there == name).then_some(entry))
        });
        let settings = self.settings_path(client).and_then(|path| ClientFile::read(&path).ok()?.text);
        entry.is_some_and(|entry| client.allow.is_in_entry(&entry))
            || settings.is_some_and(|text| has_word(&text, &settings_word(name)))
    }

    fn settings_path(&self, client: &KnownClient) -> Option<PathBuf> {
        client.allow.settings_file(self.scope(client)?, self.around)
    }

    fn scope(&self, client: &KnownClient) -> Option<ClientFileScope> {
        if self.args.file.is_none() {
            return client.file(self.args.scope, self.around).map(|(scope, _)| scope);
        }
        let known = client_of(&self.file.path, self.around);
        known.filter(|(known, _)| known.name == client.name && self.args.client.is_some()).map(|(_, scope)| scope)
    }
}

/// Makes the backup, then the record, then the change, as for the client's file. `connected` has a record already.
pub(super) fn write(
    loaded: &LoadedConfig,
    change: &SettingsChange,
    connected: &ClientFile,
) -> Result<Option<PathBuf>, CommandFailure> {
    let SettingsChange { file, after } = change;
    file.check_unchanged()?;
    let backup = file.keep(SystemClock.now())?;
    let mut connections = ClientFileConnections::read(&loaded.folder)?;
    let earlier = connections.for_file(&connected.path).and_then(|connection| connection.allow.clone());
    let kept = backup
        .as_ref()
        .map(|backup| PriorFileState::Kept { backup: backup.clone(), sha256: file.digest().unwrap_or_default() });
    let before = match &earlier {
        None => Some(kept.unwrap_or(PriorFileState::Absent)),
        Some(earlier) if file.digest().as_deref() == Some(&earlier.after_sha256) => earlier.before.clone(),
        Some(_) => None,
    };
    let made_folders = earlier.as_ref().map(|earlier| earlier.made_folders.clone()).unwrap_or_default();
    let mut written = WrittenAllowRule { file: file.path.clone(), before, after_sha256: digest(after), made_folders };
    record(loaded, &mut connections, connected, Some(written.clone()))?;
    match file.write(after) {
        Ok(made) => {
            written.made_folders.extend(made);
            record(loaded, &mut connections, connected, Some(written))?;
            Ok(backup)
        }
        Err(failure) => {
            record(loaded, &mut connections, connected, earlier)?;
            if let Some(backup) = backup {
                // The settings are unchanged and need no backup.
                let _ = std::fs::remove_file(backup);
            }
            Err(failure.into())
        }
    }
}

fn record(
    loaded: &LoadedConfig,
    connections: &mut ClientFileConnections,
    connected: &ClientFile,
    written: Option<WrittenAllowRule>,
) -> Result<(), CommandFailure> {
    if let Some(connection) = connections.connections.iter_mut().find(|there| there.file == connected.path) {
        connection.allow = written;
    }
    Ok(connections.write(&loaded.folder)?)
}
