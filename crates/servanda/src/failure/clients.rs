//! What a person is told to do about a client's file, or the record of connections, that cannot be used.

use std::path::Path;

use servanda_clients::{
    connections::ConnectionRecordError,
    file::ClientFileError,
    record_check::{RecordCheckError, RecordDoubt},
};

use super::CommandFailure;
use crate::shell_word::quoted;

impl From<ClientFileError> for CommandFailure {
    fn from(error: ClientFileError) -> Self {
        let says = error.to_string();
        match error {
            ClientFileError::BrokenLink { .. }
            | ClientFileError::Unreadable { .. }
            | ClientFileError::ReadOnly { .. } => Self::bad_input(says),
            ClientFileError::LeadsOut { .. } => Self::bad_input(says)
                .hint("nothing was changed; remove the link, or name the file it leads to with --file"),
            ClientFileError::Changed { .. } => {
                Self::failed(says).hint("run the command again to see what it would change now")
            }
            ClientFileError::Failed { .. } | ClientFileError::Path(_) => Self::failed(says),
        }
    }
}

impl From<ConnectionRecordError> for CommandFailure {
    fn from(error: ConnectionRecordError) -> Self {
        let says = error.to_string();
        match error {
            ConnectionRecordError::StateFolder(error) => error.into(),
            ConnectionRecordError::Malformed { .. } | ConnectionRecordError::Version { .. } => Self::bad_input(says)
                .hint("backups are beside the clients' files as *.servanda-backup-*; move the record away to go on"),
            ConnectionRecordError::Unreadable { .. }
            | ConnectionRecordError::Encoding(_)
            | ConnectionRecordError::Unwritable { .. } => Self::failed(says),
        }
    }
}

impl From<RecordCheckError> for CommandFailure {
    fn from(error: RecordCheckError) -> Self {
        let says = error.to_string();
        match error {
            RecordCheckError::File(error) => error.into(),
            RecordCheckError::Unusable { name, .. } => {
                Self::bad_input(says).hint(format!("take `{name}` out by hand, or correct the file"))
            }
            RecordCheckError::Doubted { record, doubt } => {
                Self::bad_input(says).hint(undone_otherwise(&record, &doubt))
            }
        }
    }
}

/// How a connection is undone whose record is not believed.
fn undone_otherwise(record: &Path, doubt: &RecordDoubt) -> String {
    let how = match doubt {
        RecordDoubt::ForeignFile { file, .. } => {
            let file = quoted(&file.to_string_lossy());
            format!("if you connected that file, name it: `servanda disconnect --file {file}`")
        }
        RecordDoubt::ForeignBackup { file, .. }
        | RecordDoubt::LinkedBackup { file, .. }
        | RecordDoubt::ForeignFolder { file, .. }
        | RecordDoubt::OtherServer { file, .. } => {
            format!("take the gateway out of `{file}` by hand (backups are beside it as *.servanda-backup-*)")
        }
    };
    format!("{how}; if you did not connect it, remove `{}`", record.display())
}
