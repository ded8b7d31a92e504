//! Decides whether to believe the record of connections. The record is beside the configuration, so a repository can contain one that
//! `connect` never wrote. Its paths must therefore be exactly those that `connect` would have written for a file that the client, or the
//! command line, names. A record with any other path is refused as a whole, and is left unchanged.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use serde_json::Value;
use servanda_files as files;

use crate::{
    ClientFolders, ClientName,
    connections::{ClientFileConnection, ClientFileConnections, PriorFileState},
    entry::is_gateway_of,
    file::{ClientFile, ClientFileError, shown},
    notation::{Notation, NotationError},
};

/// What the record is checked against; none of it comes from the record.
#[derive(Debug)]
pub struct RecordCheck<'a> {
    /// The file that the command line names, as a full path.
    pub named: Option<&'a Path>,
    /// The configuration, as a full path.
    pub config: &'a Path,
    /// The folder of the configuration.
    pub folder: &'a Path,
}

/// Why a connection is not undone.
#[derive(Debug, thiserror::Error)]
pub enum RecordCheckError {
    /// Its file cannot be read.
    #[error(transparent)]
    File(#[from] ClientFileError),
    /// Its file cannot be understood.
    #[error("`{file}`: {source}; nothing was changed")]
    Unusable {
        /// The file, as people write it.
        file: String,
        /// The gateway's name in it.
        name: String,
        /// The cause.
        source: NotationError,
    },
    /// The record is not believed.
    #[error("`{}` is not what `servanda connect` wrote: {doubt}; nothing was changed", record.display())]
    Doubted {
        /// The record's file.
        record: PathBuf,
        /// Why not.
        doubt: RecordDoubt,
    },
}

/// Why a record is not believed. Files are as people write them, unless they are paths.
#[derive(Debug, thiserror::Error)]
pub enum RecordDoubt {
    /// It names a file that its client does not read.
    #[error("it names `{}`, which is no file of {}", shown(file), client.map_or_else(|| "a known client".to_owned(), ClientName::word))]
    ForeignFile {
        /// The file.
        file: PathBuf,
        /// The client, if it is a known one.
        client: Option<ClientName>,
    },
    /// It names a backup that `connect` did not make.
    #[error("it names `{}`, which is no backup of `{file}`", shown(backup))]
    ForeignBackup {
        /// The backup.
        backup: PathBuf,
        /// The client's file.
        file: String,
    },
    /// It names a backup that is a link.
    #[error("{source}")]
    LinkedBackup {
        /// The cause.
        source: io::Error,
        /// The client's file.
        file: String,
    },
    /// It names a folder that the file is not in.
    #[error("it names the folder `{}`, in which `{file}` is not", shown(folder))]
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
        /// The client's file.
        file: String,
    },
    /// The entry to undo is another server's.
    #[error("`{name}` in `{file}` is not this gateway")]
    OtherServer {
        /// The entry's name.
        name: String,
        /// The client's file.
        file: String,
    },
}

impl RecordCheck<'_> {
    /// The file of a connection, after every path in the record about it was checked.
    pub fn file(&self, connection: &ClientFileConnection) -> Result<ClientFile, RecordCheckError> {
        self.require_place(connection)?;
        let file = ClientFile::read(&connection.file)?;
        self.require_backups(connection, &file)?;
        self.require_folders(&connection.made_folders, &file)?;
        self.require_entry(connection, &file)?;
        Ok(file)
    }

    /// The settings that have the rule of a connection, after every path in the record about them was checked: they must be the client's own
    /// settings here.
    pub fn settings(&self, connection: &ClientFileConnection) -> Result<Option<ClientFile>, RecordCheckError> {
        let Some(written) = &connection.allow else { return Ok(None) };
        let client = connection.client.as_deref().and_then(|word| ClientName::from_str(word, false).ok());
        let around = ClientFolders::from_environment();
        let mut files =
            client.iter().zip(&around).flat_map(|(client, around)| client.client().allow.settings_files(around));
        if !files.any(|file| file == written.file) {
            return Err(self.doubted(RecordDoubt::ForeignFile { file: written.file.clone(), client }));
        }
        let file = ClientFile::read(&written.file)?;
        if let Some(PriorFileState::Kept { backup, .. }) = &written.before {
            self.require_backup(backup, &file)?;
        }
        self.require_folders(&written.made_folders, &file)?;
        Ok(Some(file))
    }

    /// The file must be one of the client's files here, or the one that the command line names.
    fn require_place(&self, connection: &ClientFileConnection) -> Result<(), RecordCheckError> {
        if self.named == Some(&connection.file) {
            return Ok(());
        }
        let client = connection.client.as_deref().and_then(|word| ClientName::from_str(word, false).ok());
        let around = ClientFolders::from_environment();
        let mut files = client.iter().zip(&around).flat_map(|(client, around)| client.client().files(around));
        if files.any(|(_, file)| file == connection.file) {
            return Ok(());
        }
        Err(self.doubted(RecordDoubt::ForeignFile { file: connection.file.clone(), client }))
    }

    /// A backup must be beside the file, have the name that `connect` gives to backups, and not be a link.
    fn require_backups(&self, connection: &ClientFileConnection, file: &ClientFile) -> Result<(), RecordCheckError> {
        let kept = match &connection.before {
            Some(PriorFileState::Kept { backup, .. }) => Some(backup),
            Some(PriorFileState::Absent) | None => None,
        };
        let mut backups = kept.into_iter().chain(connection.taken_out.iter().map(|taken| &taken.backup));
        backups.try_for_each(|backup| self.require_backup(backup, file))
    }

    fn require_backup(&self, backup: &Path, file: &ClientFile) -> Result<(), RecordCheckError> {
        let shown = || file.shown.clone();
        if !file.has_backup(backup) {
            return Err(self.doubted(RecordDoubt::ForeignBackup { backup: backup.to_owned(), file: shown() }));
        }
        files::refuse_link(backup).map_err(|source| self.doubted(RecordDoubt::LinkedBackup { source, file: shown() }))
    }

    /// Only parent folders of the file can have been made for it.
    fn require_folders(&self, made: &[PathBuf], file: &ClientFile) -> Result<(), RecordCheckError> {
        match made.iter().find(|folder| !file.is_in(folder)) {
            None => Ok(()),
            Some(folder) => {
                let doubt = RecordDoubt::ForeignFolder { folder: folder.clone(), file: file.shown.clone() };
                Err(self.doubted(doubt))
            }
        }
    }

    /// The entry to undo must be a gateway's. A file that is still as `connect` left it must have one.
    fn require_entry(&self, connection: &ClientFileConnection, file: &ClientFile) -> Result<(), RecordCheckError> {
        let Some(text) = &file.text else { return Ok(()) };
        let notation = notation_of(connection, text);
        let (name, shown) = (|| connection.name.clone(), || file.shown.clone());
        let servers = notation.servers(text);
        let servers = servers.map_err(|source| RecordCheckError::Unusable { file: shown(), name: name(), source })?;
        let entry = servers.iter().find(|(name, _)| *name == connection.name).map(|(_, entry)| entry);
        let is_as_written = file.digest().as_deref() == Some(&connection.after_sha256);
        let is_ours = |entry: &Value| is_gateway_of(entry, self.config);
        if entry.map_or(!is_as_written, is_ours) {
            return Ok(());
        }
        Err(self.doubted(RecordDoubt::OtherServer { name: name(), file: shown() }))
    }

    fn doubted(&self, doubt: RecordDoubt) -> RecordCheckError {
        RecordCheckError::Doubted { record: ClientFileConnections::record_path(self.folder), doubt }
    }
}

/// How the file of a connection is written.
pub fn notation_of(connection: &ClientFileConnection, text: &str) -> Notation {
    let client = connection.client.as_deref().and_then(|word| ClientName::from_str(word, false).ok());
    client.map_or_else(|| Notation::detect(&connection.file, text), |client| client.client().notation)
}
