//! A person's yes before something is done. Where nobody can be asked, nothing is done.

use std::io::{self, IsTerminal as _, Write as _};

use crate::{failure::Failure, screen::Screen};

/// What a person is asked.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// `settle 3 effects as done?`
    pub asked: String,
    /// What is said without a yes: `nothing was settled`.
    pub nothing: &'static str,
    /// What whoever cannot be asked does instead.
    pub hint: &'static str,
}

/// Asks, unless they said yes already. Aside, so that whoever stops us instead of answering is heard.
pub(crate) async fn agree(question: Question, yes: bool, screen: Screen) -> Result<(), Failure> {
    let asking = tokio::task::spawn_blocking(move || agree_here(&question, yes, screen));
    asking.await.map_err(|error| Failure::failed(error.to_string()))?
}

/// The same for a command that nothing else has to be heard by.
pub(crate) fn agree_here(question: &Question, yes: bool, screen: Screen) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if screen.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::bad_input(format!("{}: there is nobody to ask", question.nothing)).hint(question.hint));
    }
    // Nobody can be told when stderr is gone, and then nobody answers either.
    let _ = write!(io::stderr(), "{} [y/N] ", crate::screen::one_line(&question.asked));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(Failure::failed(question.nothing))
    }
}
