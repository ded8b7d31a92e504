//! How a command fails: one message, one hint that names the next command, one exit code. The libraries say
//! what is wrong; the modules below say what to do about it.

mod clients;
mod config;
mod import;

use std::{fmt, process::ExitCode};

use servanda_ledger::LedgerError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    message: String,
    hint: Option<String>,
    code: u8,
}

/// Something failed while running.
const FAILED: u8 = 1;
/// Usage, configuration or contract: nothing was started.
const BAD_INPUT: u8 = 2;
/// The call was refused, or the tool reported an error.
const REFUSED: u8 = 3;
/// The call was sent, and its outcome is unknown.
const UNKNOWN: u8 = 4;

/// A dry run: the call would not be sent now.
const WOULD_NOT_PASS: u8 = 5;

impl CommandFailure {
    /// Something failed while running.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: FAILED }
    }

    /// The input is wrong; nothing was started.
    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: BAD_INPUT }
    }

    /// A call was refused, or its tool reported an error.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: REFUSED }
    }

    /// A call was sent, and its outcome is unknown.
    pub(crate) fn unknown_outcome(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: UNKNOWN }
    }

    /// A dry run says that the call would not be sent now.
    pub(crate) fn would_not_pass(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: WOULD_NOT_PASS }
    }

    /// Adds the file and field of the reason.
    #[must_use]
    pub(crate) fn at(mut self, file: &std::path::Path, field: &str) -> Self {
        self.message = format!("{}: `{field}`: {}", file.display(), self.message);
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The hint.
    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// The exit code as a number.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<std::io::Error> for CommandFailure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<LedgerError> for CommandFailure {
    fn from(error: LedgerError) -> Self {
        let (says, hint) = (error.to_string(), error.hint());
        match error {
            LedgerError::Refused(_) => Self::bad_input(says).hint(
                "put a backup back with `servanda ledger restore FILE --evidence TEXT`, or accept what is there with `servanda \
                 ledger adopt --evidence TEXT`: it records which time may be lost",
            ),
            LedgerError::Newer { .. } => Self::bad_input(says)
                .hint("run the servanda that wrote it, or put a backup of before back with `servanda ledger restore FILE`"),
            LedgerError::Older { .. } => {
                Self::bad_input(says).hint("run `servanda migrate`; `servanda migrate --dry-run` says what it would do")
            }
            LedgerError::PositionFile { .. } => Self::failed(says)
                .hint("make the configuration's folder writable, or name a file elsewhere as `position_file`"),
            LedgerError::NotPlain { .. } => Self::bad_input(says)
                .hint("nothing was changed; remove what is in its place, or name another `ledger` in servanda.yaml"),
            LedgerError::InUse { .. } => Self::failed(says).hint("stop the gateway first, then try again"),
            LedgerError::NoCopy { .. } => Self::bad_input(says).hint(
                "the ledger is as it was; name a file that `servanda ledger backup FILE` made, or one that was set aside",
            ),
            LedgerError::Backup { .. } => Self::failed(says).hint("name another file, or make room for it"),
            LedgerError::NotHere(_) => Self::bad_input(says).hint("docs/ledger.md says how on PostgreSQL"),
            _ => Self::failed(says).hint(hint.unwrap_or("`servanda doctor` looks at the ledger")),
        }
    }
}
