//! The record of what `connect` did, in a file beside our configuration. It holds enough to undo every change, and no secrets. The earlier
//! text of a client's file is not in it; that is in the backup beside the client's file.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use servanda_config::state_folder::{self, StateFolderError};
use servanda_files as files;

use crate::file::digest;

/// The version of the record's format.
const VERSION: u32 = 1;
/// The record's file, relative to our configuration.
const FILE: &str = ".servanda/connections.json";

/// All connections that were made with one configuration.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientFileConnections {
    version: u32,
    /// The connections, the oldest first.
    pub connections: Vec<ClientFileConnection>,
}

/// One client's file that has the gateway in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientFileConnection {
    /// The client's name on the command line; none for a file that was named with `--file`.
    pub client: Option<String>,
    /// The file, as a full path.
    pub file: PathBuf,
    /// The gateway's name in that file.
    pub name: String,
    /// When it was last connected.
    pub since: String,
    /// The file before the connection; none if another program or person changed it between two connects.
    pub before: Option<PriorFileState>,
    /// The digest of what was written.
    pub after_sha256: String,
    /// Whether `connect` added the list of servers.
    pub made_list: bool,
    /// Folders that `connect` made for the file.
    pub made_folders: Vec<PathBuf>,
    /// Servers that `connect` removed from the file, and the backups that still have them.
    pub taken_out: Vec<RemovedServer>,
    /// The rule that lets the gateway's tools pass, if it is in a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<WrittenAllowRule>,
}

/// A rule that `connect` wrote into a client's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenAllowRule {
    /// The settings, as a full path.
    pub file: PathBuf,
    /// The settings before; none if another program or person changed them between two connects.
    pub before: Option<PriorFileState>,
    /// The digest of what was written.
    pub after_sha256: String,
    /// Folders that `connect` made for the settings.
    pub made_folders: Vec<PathBuf>,
}

/// A file before it was connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorFileState {
    /// The file did not exist.
    Absent,
    /// The file existed, and a backup has its text.
    Kept {
        /// The backup.
        backup: PathBuf,
        /// Its digest.
        sha256: String,
    },
}

/// The text of a file before it was connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriorFileText {
    /// The file did not exist.
    Absent,
    /// The file had this text.
    Text(String),
}

/// A server that `connect` removed from the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedServer {
    /// Its name in the file.
    pub name: String,
    /// The backup that still has it.
    pub backup: PathBuf,
}

/// Why the record of connections cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionRecordError {
    /// It is not where the gateway keeps its own files.
    #[error(transparent)]
    StateFolder(#[from] StateFolderError),
    /// It cannot be read.
    #[error("cannot read `{}`: {source}", file.display())]
    Unreadable {
        /// The record's file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is malformed.
    #[error("`{}` is not a valid record: {source}", file.display())]
    Malformed {
        /// The record's file.
        file: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// It is of another version.
    #[error("`{}` is not a valid record: this servanda reads version {VERSION} of it, not {version}", file.display())]
    Version {
        /// The record's file.
        file: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It cannot be encoded.
    #[error("{0}")]
    Encoding(#[from] serde_json::Error),
    /// It cannot be written.
    #[error("cannot write `{}`: {source}", file.display())]
    Unwritable {
        /// The record's file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl ClientFileConnection {
    /// The earlier text, if it is certain: the file is still as `connect` left it, and the backup is unchanged.
    pub fn prior_text(&self, now_sha256: Option<&str>) -> Option<PriorFileText> {
        if now_sha256 == Some(&self.after_sha256) { self.before.as_ref()?.text() } else { None }
    }
}

impl WrittenAllowRule {
    /// The earlier settings, if they are certain: the file is still as `connect` left it, and the backup is unchanged.
    pub fn prior_text(&self, now_sha256: Option<&str>) -> Option<PriorFileText> {
        if now_sha256 == Some(&self.after_sha256) { self.before.as_ref()?.text() } else { None }
    }
}

impl PriorFileState {
    /// The earlier text; none if the backup is not what it was.
    fn text(&self) -> Option<PriorFileText> {
        match self {
            Self::Absent => Some(PriorFileText::Absent),
            Self::Kept { backup, sha256 } => {
                let text = files::read_text(backup, files::TEXT_BYTES_MAX).ok()?;
                (digest(&text) == *sha256).then_some(PriorFileText::Text(text))
            }
        }
    }
}

impl ClientFileConnections {
    /// The path of the record for the configuration in a folder.
    pub(crate) fn record_path(folder: &Path) -> PathBuf {
        if folder == Path::new(".") { PathBuf::from(FILE) } else { folder.join(FILE) }
    }

    /// Reads the record beside a configuration. A repository may contain a forged one, so `record_check` decides what is believed.
    pub fn read(folder: &Path) -> Result<Self, ConnectionRecordError> {
        let file = folder.join(FILE);
        state_folder::require_own(folder, Path::new(FILE), &file)?;
        let text = match files::read_text(&file, files::TEXT_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { version: VERSION, connections: Vec::new() });
            }
            Err(source) => return Err(ConnectionRecordError::Unreadable { file, source }),
        };
        let record: Self = match serde_json::from_str(&text) {
            Ok(record) => record,
            Err(source) => return Err(ConnectionRecordError::Malformed { file, source }),
        };
        if record.version != VERSION {
            return Err(ConnectionRecordError::Version { file, version: record.version });
        }
        Ok(record)
    }

    /// Writes the record, whole or not at all.
    pub fn write(&self, folder: &Path) -> Result<(), ConnectionRecordError> {
        let file = folder.join(FILE);
        let text = serde_json::to_string_pretty(self)?;
        let write = || {
            state_folder::make(folder, file.parent().unwrap_or(folder))?;
            files::write_inside(folder, &file, &format!("{text}\n"), 0o600)
        };
        write().map_err(|source| ConnectionRecordError::Unwritable { file: file.clone(), source })
    }

    /// The connection of a file.
    pub fn for_file(&self, file: &Path) -> Option<&ClientFileConnection> {
        self.connections.iter().find(|connection| connection.file == file)
    }

    /// Records a connection, and replaces an earlier one of the same file.
    pub fn record(&mut self, connection: ClientFileConnection) {
        self.remove(&connection.file);
        self.connections.push(connection);
    }

    /// Forgets the connection of a file.
    pub fn remove(&mut self, file: &Path) {
        self.connections.retain(|there| there.file != file);
    }
}
