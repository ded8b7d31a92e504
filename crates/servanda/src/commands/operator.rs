//! The operator's user name, and the reasons that operators give.

use servanda_engine::oversight::{STATEMENT_CHARS_MAX, checked_statement};

use crate::failure::CommandFailure;

/// The operator's name, as the system knows it.
pub(crate) fn user_name() -> String {
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    });
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

/// Checks a text that was given with an option; `hint` shows an example.
pub(crate) fn checked_text<'a>(option: &str, text: &'a str, hint: &str) -> Result<&'a str, CommandFailure> {
    checked_statement(text).ok_or_else(|| {
        let message = format!("{option} must be one line of at most {STATEMENT_CHARS_MAX} characters");
        CommandFailure::bad_input(message).hint(hint)
    })
}
