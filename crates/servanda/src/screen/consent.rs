//! Asks a person for a yes before something is done. Without a terminal to ask on, nothing is done.

use std::io::{self, IsTerminal as _, Write as _};

use crate::{failure::CommandFailure, screen::Screen};

/// A question to a person.
#[derive(Debug, Clone)]
pub(crate) struct ConsentQuestion {
    /// `settle 3 effects as done?`
    pub asked: String,
    /// The message if the answer is not yes: `nothing was settled`.
    pub nothing: &'static str,
    /// What a person without a terminal can do instead.
    pub hint: &'static str,
}

/// Asks, unless `yes` is set. It asks on another thread, so that a signal that stops the command is handled meanwhile.
pub(crate) async fn agree(question: ConsentQuestion, yes: bool, screen: Screen) -> Result<(), CommandFailure> {
    let asking = tokio::task::spawn_blocking(move || agree_here(&question, yes, screen));
    asking.await.map_err(|error| CommandFailure::failed(error.to_string()))?
}

/// Whether a person is asked: the answer was not given before, and there is a terminal to ask on.
pub(crate) fn is_asked(yes: bool, screen: Screen) -> bool {
    !yes && !screen.json && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on this thread, for a command with nothing else to handle meanwhile.
pub(crate) fn agree_here(question: &ConsentQuestion, yes: bool, screen: Screen) -> Result<(), CommandFailure> {
    if yes {
        return Ok(());
    }
    if !is_asked(yes, screen) {
        return Err(CommandFailure::bad_input(format!("{}: there is no terminal to ask on", question.nothing))
            .hint(question.hint));
    }
    if says_yes(&question.asked)? { Ok(()) } else { Err(CommandFailure::failed(question.nothing)) }
}

/// The answer to a question on this thread, where a no is an answer too. Only for a terminal on which a person is asked.
pub(crate) fn says_yes(asked: &str) -> Result<bool, CommandFailure> {
    // A failed write is ignored: without stderr the person sees no question, and without an answer nothing is done.
    let _ = write!(io::stderr(), "{} [y/N] ", crate::screen::one_line(asked));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
