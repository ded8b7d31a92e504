//! What is said about words on the command line that cannot be understood, and the help. It repeats what was typed, which may have come
//! out of somebody else's text, and the environment.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use servanda_contract::legibility::hidden;

use super::shown;

/// Tells how a command is used, and ends as the parser would.
pub(crate) fn tell_usage(usage: &clap::Error) -> ExitCode {
    let given = std::env::args_os().chain(std::env::var_os("SERVANDA_CONFIG"));
    if given.into_iter().all(is_plain) {
        let _ = usage.print();
    } else {
        // Without colour: the parser writes its codes and the words that were typed as one text.
        let text = shown(&usage.render().to_string(), false);
        let _ = if usage.use_stderr() { write!(io::stderr(), "{text}") } else { write!(io::stdout(), "{text}") };
    }
    ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
}

fn is_plain(word: OsString) -> bool {
    word.into_string().is_ok_and(|word| hidden(&word).is_empty())
}
