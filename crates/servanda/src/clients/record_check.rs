//! Decides whether to believe the record of connections. The record is beside the configuration, so a repository can contain one that
//! `connect` never wrote. Its paths must therefore be exactly those that `connect` would have written for a file that the client, or the
//! command line, names. A record with any other path is refused as a whole, and is left unchanged.

use std::path::Path;

use clap::ValueEnum as _;
use serde_json::Value;

use super::{
    ClientFolders, ClientName,
    connections::{ClientFileConnection, ClientFileConnections, PriorFileState},
    entry::is_gateway_of,
    file::{ClientFile, shown},
    notation::Notation,
};
use crate::{failure::CommandFailure, files, screen::shell_word::quoted};

/// What the record is checked against; none of it comes from the record.
#[derive(Debug)]
pub(crate) struct RecordCheck<'a> {
    /// The file that the command line names, as a full path.
    pub named: Option<&'a Path>,
    /// The configuration, as a full path.
    pub config: &'a Path,
    /// The folder of the configuration.
    pub folder: &'a Path,
}

impl RecordCheck<'_> {
    /// The file of a connection, after every path in the record about it was checked.
    pub(crate) fn file(&self, connection: &ClientFileConnection) -> Result<ClientFile, CommandFailure> {
        self.require_place(connection)?;
        let file = ClientFile::read(&connection.file)?;
        self.require_backups(connection, &file)?;
        self.require_folders(connection, &file)?;
        self.require_entry(connection, &file)?;
        Ok(file)
    }

    /// The file must be one of the client's files here, or the one that the command line names.
    fn require_place(&self, connection: &ClientFileConnection) -> Result<(), CommandFailure> {
        if self.named == Some(&connection.file) {
            return Ok(());
        }
        let client = connection.client.as_deref().and_then(|word| ClientName::from_str(word, false).ok());
        let around = ClientFolders::from_environment();
        let mut files = client.iter().zip(&around).flat_map(|(client, around)| client.client().files(around));
        if files.any(|(_, file)| file == connection.file) {
            return Ok(());
        }
        let why = match client {
            Some(client) => format!("it names `{}`, which is no file of {}", shown(&connection.file), client.word()),
            None => format!("it names `{}`, which is no file of a known client", shown(&connection.file)),
        };
        Err(self.refused(&why).hint(format!(
            "if you connected that file, name it: `servanda disconnect --file {}`; {}",
            quoted(&connection.file.to_string_lossy()),
            self.otherwise()
        )))
    }

    /// A backup must be beside the file, have the name that `connect` gives to backups, and not be a link.
    fn require_backups(&self, connection: &ClientFileConnection, file: &ClientFile) -> Result<(), CommandFailure> {
        let kept = match &connection.before {
            Some(PriorFileState::Kept { backup, .. }) => Some(backup),
            Some(PriorFileState::Absent) | None => None,
        };
        for backup in kept.into_iter().chain(connection.taken_out.iter().map(|taken| &taken.backup)) {
            if !file.has_backup(backup) {
                let (backup, file) = (shown(backup), &file.shown);
                return Err(self.by_hand(&format!("it names `{backup}`, which is no backup of `{file}`"), file));
            }
            files::refuse_link(backup).map_err(|error| self.by_hand(&error.to_string(), &file.shown))?;
        }
        Ok(())
    }

    /// Only parent folders of the file can have been made for it.
    fn require_folders(&self, connection: &ClientFileConnection, file: &ClientFile) -> Result<(), CommandFailure> {
        match connection.made_folders.iter().find(|folder| !file.is_in(folder)) {
            None => Ok(()),
            Some(folder) => {
                let why = format!("it names the folder `{}`, in which `{}` is not", shown(folder), file.shown);
                Err(self.by_hand(&why, &file.shown))
            }
        }
    }

    /// The entry to undo must be a gateway's. A file that is still as `connect` left it must have one.
    fn require_entry(&self, connection: &ClientFileConnection, file: &ClientFile) -> Result<(), CommandFailure> {
        let Some(text) = &file.text else { return Ok(()) };
        let notation = notation_of(connection, text);
        let servers = notation.servers(text).map_err(|why| {
            CommandFailure::bad_input(format!("`{}`: {why}; nothing was changed", file.shown))
                .hint(format!("take `{}` out by hand, or correct the file", connection.name))
        })?;
        let entry = servers.iter().find(|(name, _)| *name == connection.name).map(|(_, entry)| entry);
        let is_as_written = file.digest().as_deref() == Some(&connection.after_sha256);
        let is_ours = |entry: &Value| is_gateway_of(entry, self.config);
        if entry.map_or(!is_as_written, is_ours) {
            return Ok(());
        }
        let why = format!("`{}` in `{}` is not this gateway", connection.name, file.shown);
        Err(self.by_hand(&why, &file.shown))
    }

    fn refused(&self, why: &str) -> CommandFailure {
        let record = ClientFileConnections::record_path(self.folder);
        CommandFailure::bad_input(format!(
            "`{}` is not what `servanda connect` wrote: {why}; nothing was changed",
            record.display()
        ))
    }

    fn by_hand(&self, why: &str, file: &str) -> CommandFailure {
        self.refused(why).hint(format!(
            "take the gateway out of `{file}` by hand (backups are beside it as *.servanda-backup-*); {}",
            self.otherwise()
        ))
    }

    fn otherwise(&self) -> String {
        format!("if you did not connect it, remove `{}`", ClientFileConnections::record_path(self.folder).display())
    }
}

/// How the file of a connection is written.
pub(crate) fn notation_of(connection: &ClientFileConnection, text: &str) -> Notation {
    let client = connection.client.as_deref().and_then(|word| ClientName::from_str(word, false).ok());
    client.map_or_else(|| Notation::detect(&connection.file, text), |client| client.client().notation)
}
