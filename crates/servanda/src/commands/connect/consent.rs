//! Shows a change to a client's file and asks whether to make it. If no person can be asked, nothing is changed.

use servanda_clients::{file::ClientFile, masking::masked};

use super::difference::{painted, unified};
use crate::{failure::CommandFailure, screen::Screen};

/// A change that is proposed.
#[derive(Debug)]
pub(crate) struct ProposedFileChange<'a> {
    /// The file.
    pub file: &'a ClientFile,
    /// The new text; none if the file is to be removed.
    pub after: Option<&'a str>,
    /// Whether the user agreed beforehand with `--yes`.
    pub yes: bool,
    /// Whether the change is only shown.
    pub dry_run: bool,
}

/// The decision, with the difference that was shown.
#[derive(Debug)]
pub(crate) enum FileChangeDecision {
    /// Only show it.
    Show(String),
    /// Make the change.
    Write(String),
}

/// Shows a change, secrets masked, and asks for it.
pub(crate) fn ask(change: &ProposedFileChange<'_>, screen: Screen) -> Result<FileChangeDecision, CommandFailure> {
    let shown = &change.file.target();
    let (before, after) = (change.file.text.as_deref().map(masked), change.after.map(masked));
    let diff = unified(shown, before.as_deref(), after.as_deref());
    if !screen.json {
        screen.data(painted(&diff))?;
    }
    if change.dry_run {
        return Ok(FileChangeDecision::Show(diff));
    }
    if change.yes {
        return Ok(FileChangeDecision::Write(diff));
    }
    let question = crate::screen::consent::ConsentQuestion {
        asked: format!("write this to {shown}?"),
        nothing: "nothing was changed",
        hint: "read the difference (--dry-run shows it), then run it again with --yes",
    };
    crate::screen::consent::agree_here(&question, false, screen)?;
    Ok(FileChangeDecision::Write(diff))
}
