//! Why a configuration cannot be used. Messages say what is wrong; the next step is named by the binary, which knows the commands.

use std::{io, path::PathBuf};

use servanda_contract::document::DocumentError;
use servanda_ledger::LedgerError;

use crate::{expansion::ExpansionError, listen::ListenError, state_folder::StateFolderError};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file does not exist.
    #[error("there is no `{}`", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// The configuration in the nearest parent folder, if the default file was meant and there is one.
        above: Option<PathBuf>,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is malformed, or a field has an impossible value.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// An upstream refers to an environment variable that is not set.
    #[error("{document}")]
    UnsetVariable {
        /// The field, and the reason.
        document: Box<DocumentError>,
        /// The variable.
        variable: String,
    },
    /// `listen` cannot be used.
    #[error("{}: `listen`: {source}", file.display())]
    Listen {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: ListenError,
    },
    /// An address that is not that of the file cannot be listened on.
    #[error(transparent)]
    Address(#[from] ListenError),
    /// `ledger` refers to a variable that cannot be filled in.
    #[error("{}: `ledger`: `ledger` cannot be used: {source}", file.display())]
    LedgerUrl {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: ExpansionError,
    },
    /// A callback cannot be used.
    #[error("{document}")]
    Callback {
        /// The field, and the reason.
        document: Box<DocumentError>,
        /// Which rule it breaks.
        fault: CallbackFault,
    },
    /// The folder of the gateway's own files, or a file that belongs there, cannot be used.
    #[error(transparent)]
    StateFolder(#[from] StateFolderError),
    /// The ledger's files cannot be made private.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Which rule a callback breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackFault {
    /// There are too many callbacks.
    TooMany,
    /// Its name has other characters, or is another callback's.
    Name,
    /// It lists no outcome.
    NoOutcome,
    /// It lists no notice.
    NoNotice,
    /// Its address cannot be used.
    Address,
    /// Its secret cannot be used.
    Secret,
    /// It refers to an environment variable that is not set.
    UnsetVariable(String),
}
