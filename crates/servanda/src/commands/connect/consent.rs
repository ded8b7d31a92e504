//! Shows changes to a client's files and asks whether to make them. If no person can be asked, nothing is changed.

use servanda_clients::{file::ClientFile, masking::masked};

use super::difference::{painted, unified};
use crate::{failure::CommandFailure, screen::Screen};

/// A change to one file that is proposed.
#[derive(Debug)]
pub(crate) struct ProposedFileChange<'a> {
    /// The file.
    pub file: &'a ClientFile,
    /// The new text; none if the file is to be removed.
    pub after: Option<&'a str>,
}

/// What was said beforehand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileChangeTerms {
    /// Whether the user agreed with `--yes`.
    pub yes: bool,
    /// Whether the changes are only shown.
    pub dry_run: bool,
}

/// The decision, with the differences that were shown.
#[derive(Debug)]
pub(crate) enum FileChangeDecision {
    /// Only show them.
    Show(String),
    /// Make the changes.
    Write(String),
}

/// Shows changes, secrets masked, and asks for all of them together.
pub(crate) fn ask(
    changes: &[ProposedFileChange<'_>],
    terms: FileChangeTerms,
    screen: Screen,
) -> Result<FileChangeDecision, CommandFailure> {
    let mut diff = String::new();
    for change in changes {
        let (before, after) = (change.file.text.as_deref().map(masked), change.after.map(masked));
        diff.push_str(&unified(&change.file.target(), before.as_deref(), after.as_deref()));
    }
    if !screen.json {
        screen.data(painted(&diff))?;
    }
    if terms.dry_run {
        return Ok(FileChangeDecision::Show(diff));
    }
    if terms.yes {
        return Ok(FileChangeDecision::Write(diff));
    }
    let files: Vec<String> = changes.iter().map(|change| change.file.target()).collect();
    let question = crate::screen::consent::ConsentQuestion {
        asked: format!("write this to {}?", files.join(" and ")),
        nothing: "nothing was changed",
        hint: "read the difference (--dry-run shows it), then run it again with --yes",
    };
    crate::screen::consent::agree_here(&question, false, screen)?;
    Ok(FileChangeDecision::Write(diff))
}
