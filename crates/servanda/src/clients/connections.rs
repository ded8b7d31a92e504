//! The record of what `connect` did, beside our configuration: enough to undo it, and no secret in it. What was in a
//! client's file is in the backup beside that file.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::file::digest;
use crate::{config::state_folder, failure::CommandFailure, files};

/// The version of the record's format.
const VERSION: u32 = 1;
/// Where it stands, beside our configuration.
const FILE: &str = ".servanda/connections.json";

/// Every connection that was made with a configuration.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientFileConnections {
    version: u32,
    /// The connections, the oldest first.
    pub connections: Vec<ClientFileConnection>,
}

/// One client's file that has the gateway in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientFileConnection {
    /// The client as it is typed; nothing for a file that was named instead.
    pub client: Option<String>,
    /// The file, as a full path.
    pub file: PathBuf,
    /// The name the gateway has in it.
    pub name: String,
    /// When it was last connected.
    pub since: String,
    /// What the file was before; nothing if it was changed by somebody between two connects.
    pub before: Option<PriorFileState>,
    /// The digest of what was written.
    pub after_sha256: String,
    /// Whether the list of servers was not there before.
    pub made_list: bool,
    /// Folders that were made for the file.
    pub made_folders: Vec<PathBuf>,
    /// Servers that were taken out, and the backups in which they still stand.
    pub taken_out: Vec<RemovedServer>,
}

/// What a file was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PriorFileState {
    /// It was not there.
    Absent,
    /// It was this.
    Kept {
        /// The backup.
        backup: PathBuf,
        /// Its digest.
        sha256: String,
    },
}

/// What a file was, once more at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PriorFileText {
    /// It was not there.
    Absent,
    /// It said this.
    Text(String),
}

/// A server that was taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovedServer {
    /// Its name there.
    pub name: String,
    /// The backup in which it stands.
    pub backup: PathBuf,
}

impl ClientFileConnection {
    /// What the file was, if it is certain: the file is as `connect` left it, and the backup is as it was made.
    pub(crate) fn prior_text(&self, now_sha256: Option<&str>) -> Option<PriorFileText> {
        if now_sha256 != Some(&self.after_sha256) {
            return None;
        }
        match self.before.as_ref()? {
            PriorFileState::Absent => Some(PriorFileText::Absent),
            PriorFileState::Kept { backup, sha256 } => {
                let text = files::read_text(backup, files::TEXT_BYTES_MAX).ok()?;
                (digest(&text) == *sha256).then_some(PriorFileText::Text(text))
            }
        }
    }
}

impl ClientFileConnections {
    /// Where the record of the configuration in a folder stands.
    pub(crate) fn record_path(folder: &Path) -> PathBuf {
        if folder == Path::new(".") { PathBuf::from(FILE) } else { folder.join(FILE) }
    }

    /// Reads the record beside a configuration. A repository can contain it: `record_check` says what of it is believed.
    pub(crate) fn read(folder: &Path) -> Result<Self, CommandFailure> {
        let file = folder.join(FILE);
        state_folder::require_own(folder, Path::new(FILE), &file)?;
        let text = match files::read_text(&file, files::TEXT_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { version: VERSION, connections: Vec::new() });
            }
            read => {
                read.map_err(|error| CommandFailure::failed(format!("cannot read `{}`: {error}", file.display())))?
            }
        };
        let broken = |why: String| {
            CommandFailure::bad_input(format!("`{}` is not the record it was: {why}", file.display()))
                .hint("backups stand beside the clients' files as *.servanda-backup-*; move the record away to go on")
        };
        let record: Self = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        if record.version != VERSION {
            return Err(broken(format!("this servanda reads version {VERSION} of it, not {}", record.version)));
        }
        Ok(record)
    }

    /// Writes the record, whole or not at all.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), CommandFailure> {
        let file = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| CommandFailure::failed(error.to_string()))?;
        let write = || {
            state_folder::make(folder, file.parent().unwrap_or(folder))?;
            files::write_inside(folder, &file, &format!("{text}\n"), 0o600)
        };
        write().map_err(|error| CommandFailure::failed(format!("cannot write `{}`: {error}", file.display())))
    }

    /// The connection of a file.
    pub(crate) fn for_file(&self, file: &Path) -> Option<&ClientFileConnection> {
        self.connections.iter().find(|connection| connection.file == file)
    }

    /// Notes a connection, in the place of an earlier one of that file.
    pub(crate) fn record(&mut self, connection: ClientFileConnection) {
        self.remove(&connection.file);
        self.connections.push(connection);
    }

    /// Forgets the connection of a file.
    pub(crate) fn remove(&mut self, file: &Path) {
        self.connections.retain(|there| there.file != file);
    }
}
