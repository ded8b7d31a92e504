//! Usage errors and the help. They repeat words of the command line, which a person may have copied from a foreign text, and an environment
//! variable.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use servanda_contract::legibility::hidden_characters;

use super::shown;

/// Prints how a command is used, and returns the exit code of the parser.
pub(crate) fn tell_usage(usage: &clap::Error) -> ExitCode {
    let given = std::env::args_os().chain(std::env::var_os("SERVANDA_CONFIG"));
    if given.into_iter().all(is_plain) {
        let _ = usage.print();
    } else {
        // Without colour, because the parser mixes its codes with the typed words in one text.
        let text = shown(&usage.render().to_string(), false);
        let _ = if usage.use_stderr() { write!(io::stderr(), "{text}") } else { write!(io::stdout(), "{text}") };
    }
    ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
}

fn is_plain(word: OsString) -> bool {
    word.into_string().is_ok_and(|word| hidden_characters(&word).is_empty())
}
