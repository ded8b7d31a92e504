//! What people and programs see: data on stdout, everything else on stderr, JSON where it was asked for, colour only where
//! it is wanted, and nothing that needs colour to be understood.

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use owo_colors::{OwoColorize as _, Stream};
use serde::Serialize;

use crate::failure::Failure;

/// How long a wait may last before it shows.
const SHOWN_AFTER_MS: u64 = 500;

/// Where and how a command speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    /// Whether data is JSON.
    pub json: bool,
}

/// A mood a word can be shown in. Colour only repeats what the word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// As it should be.
    Good,
    /// Worth a look.
    Careful,
    /// Not as it should be.
    Bad,
    /// Beside the point.
    Quiet,
    /// The point.
    Strong,
}

#[expect(
    clippy::unused_self,
    reason = "whoever speaks has been handed a screen; where it writes is the screen's business"
)]
impl Screen {
    /// A line of data.
    pub(crate) fn data(self, line: impl Display) -> Result<(), Failure> {
        match writeln!(io::stdout(), "{line}") {
            // Whoever read it has seen enough, as `head` does; that is no failure of ours.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(Failure::from),
        }
    }

    /// Data as JSON.
    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|error| Failure::failed(error.to_string()))?;
        self.data(text)
    }

    /// A line for people, beside the data.
    pub(crate) fn say(self, line: impl Display) {
        // Nobody can be told when stderr is gone.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// How a failed command ends.
    pub(crate) fn failure(self, failure: &Failure) {
        if self.json {
            let error = serde_json::json!({
                "error": { "message": failure.to_string(), "hint": failure.hint_text(), "exit_code": failure.code() }
            });
            self.say(error);
            return;
        }
        self.say(format_args!("{} {failure}", paint_stderr("error:", Mood::Bad)));
        if let Some(hint) = failure.hint_text() {
            self.say(format_args!("{} {hint}", paint_stderr("hint:", Mood::Strong)));
        }
    }

    /// What to do next.
    pub(crate) fn hint(self, hint: impl Display) {
        if !self.json {
            self.say(format_args!("{} {hint}", paint_stderr("hint:", Mood::Strong)));
        }
    }

    /// Something that turns while a wait goes on; it shows only after half a second, and only to people.
    pub(crate) fn wait(self, message: impl Into<String>) -> ProgressBar {
        let bar = ProgressBar::new_spinner();
        if self.json || !io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // Most waits are over before anybody would look.
        let shown = bar.clone();
        if !bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(SHOWN_AFTER_MS)).await;
                if !shown.is_finished() {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                }
            });
        }
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(message.into());
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }
}

/// A table with a head; plain enough to be cut and pasted.
pub(crate) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Into a pipe a row is a line; on a terminal it is as wide as the terminal.
    let width = if io::stdout().is_terminal() { console::Term::stdout().size().1 } else { u16::MAX };
    table.set_width(width);
    table.set_header(head.iter().map(|title| title.to_uppercase()));
    table
}

/// A table as text, without the blanks at the ends of its lines.
pub(crate) fn lines(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// So many of a thing, in English.
pub(crate) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// The same of a thing whose plural has a form of its own.
pub(crate) fn plural(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// A word of data in its mood.
pub(crate) fn paint(word: &str, mood: Mood) -> String {
    paint_for(Stream::Stdout, word, mood)
}

/// A word for stderr in its mood.
pub(crate) fn paint_stderr(word: &str, mood: Mood) -> String {
    paint_for(Stream::Stderr, word, mood)
}

fn paint_for(stream: Stream, word: &str, mood: Mood) -> String {
    match mood {
        Mood::Good => word.if_supports_color(stream, |word| word.green()).to_string(),
        Mood::Careful => word.if_supports_color(stream, |word| word.yellow()).to_string(),
        Mood::Bad => word.if_supports_color(stream, |word| word.red()).to_string(),
        Mood::Quiet => word.if_supports_color(stream, |word| word.dimmed()).to_string(),
        Mood::Strong => word.if_supports_color(stream, |word| word.bold()).to_string(),
    }
}
