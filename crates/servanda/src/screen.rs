//! Output for people and programs: data on stdout, everything else on stderr, JSON if it was asked for. Colour is used only if it is
//! wanted, and nothing needs colour to be understood.
//!
//! No foreign text controls a terminal: every text that is written here goes through [`shown`], which spells out every invisible character,
//! escapes and direction overrides included. Only [`Screen::raw`] does not. Only [`paint`] makes colour: its codes have a random mark that
//! no foreign text can contain.

mod colour;
pub(crate) mod consent;
pub(crate) mod log;
mod table;
mod usage;
mod wrap;

use std::{
    collections::BTreeSet,
    fmt::{Display, Write as _},
    io::{self, IsTerminal as _, Write as _},
    ops::ControlFlow,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use owo_colors::{OwoColorize as _, Stream};
use serde::Serialize;
use servanda_contract::legibility::{hidden_characters, reveal};

pub(crate) use servanda_contract::legibility::one_line;

use self::table::TextTable;
pub(crate) use self::{
    usage::tell_usage,
    wrap::{fitted, stderr_width, stdout_width, wrapped},
};
use crate::failure::CommandFailure;

/// How long a wait may take before it is shown.
const SHOWN_AFTER_MS: u64 = 500;

/// How a command writes its output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    /// Whether data is JSON.
    pub json: bool,
}

/// The style of a word. Colour only repeats what the word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// All is well.
    Good,
    /// Worth a look.
    Careful,
    /// A problem.
    Bad,
    /// Less important.
    Quiet,
    /// Most important.
    Strong,
}

#[expect(clippy::unused_self, reason = "every caller has been given a screen, and the screen decides where it writes")]
impl Screen {
    /// Writes a line of data. With `--json` a program gets JSON from every command: text becomes the `message` of an object.
    pub(crate) fn data(self, line: impl Display) -> Result<(), CommandFailure> {
        if self.json {
            let line = line.to_string();
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&line).is_ok();
            let line = if is_json { line } else { serde_json::json!({ "message": line }).to_string() };
            return self.write(escaped_json(&line).as_bytes());
        }
        let line = shown(&line.to_string(), has_colour(Stream::Stdout));
        self.write(line.as_bytes())
    }

    /// Writes a page of sentences as data. On a terminal its lines are wrapped between words.
    pub(crate) fn page(self, text: impl Display) -> Result<(), CommandFailure> {
        if self.json {
            return self.data(text);
        }
        let text = shown(&text.to_string(), has_colour(Stream::Stdout));
        self.write(wrapped(&text, stdout_width()).as_bytes())
    }

    /// Writes bytes unchanged, for programs, or for a person who asked for them.
    pub(crate) fn raw(self, text: &str) -> Result<(), CommandFailure> {
        self.write(text.as_bytes())
    }

    /// Whether a person reads the data.
    pub(crate) fn is_read_by_a_person(self) -> bool {
        io::stdout().is_terminal()
    }

    fn write(self, line: &[u8]) -> Result<(), CommandFailure> {
        match io::stdout().write_all(line).and_then(|()| io::stdout().write_all(b"\n")) {
            // The reader is gone, as with `head`; that is no failure.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(CommandFailure::from),
        }
    }

    /// Writes one of many lines of data, which must not contain line breaks; breaks when the reader is gone.
    pub(crate) fn stream(self, line: &str) -> Result<ControlFlow<()>, CommandFailure> {
        let line = shown(line, has_colour(Stream::Stdout));
        let mut stdout = io::stdout().lock();
        match stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            written => written.map(|()| ControlFlow::Continue(())).map_err(CommandFailure::from),
        }
    }

    /// Data as JSON.
    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<(), CommandFailure> {
        let text = serde_json::to_string_pretty(value).map_err(|error| CommandFailure::failed(error.to_string()))?;
        self.write(escaped_json(&text).as_bytes())
    }

    /// Writes a line for people, beside the data.
    pub(crate) fn say(self, line: impl Display) {
        let line = shown(&line.to_string(), has_colour(Stream::Stderr));
        let line = if self.json { line } else { wrapped(&line, stderr_width()) };
        // If stderr is gone, a failure cannot be reported.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Reports how a command failed.
    pub(crate) fn failure(self, failure: &CommandFailure) {
        if self.json {
            let error = serde_json::json!({
                "error": { "message": failure.to_string(), "hint": failure.hint_text(), "exit_code": failure.code() }
            });
            self.say(error);
            return;
        }
        self.say(format_args!("{} {failure}", paint_stderr("error:", TextStyle::Bad)));
        if let Some(hint) = failure.hint_text() {
            self.say(format_args!("{} {hint}", paint_stderr("hint:", TextStyle::Strong)));
        }
    }

    /// Writes what to do next.
    pub(crate) fn hint(self, hint: impl Display) {
        if !self.json {
            self.say(format_args!("{} {hint}", paint_stderr("hint:", TextStyle::Strong)));
        }
    }

    /// A spinner for a wait; it shows only after half a second, and only to people.
    pub(crate) fn wait(self, message: impl Into<String>) -> ProgressBar {
        let bar = ProgressBar::new_spinner();
        if self.json || !io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // Most waits are over before a person would look.
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
        bar.set_message(one_line(&message.into()));
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }
}

/// A text whose hidden characters are written as code points. Only the escapes of [`paint`] stay, and only with colour.
fn shown(text: &str, colour: bool) -> String {
    let text = text.replace("\r\n", "\n");
    let mut seen = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        seen.push_str(&reveal(before));
        let code = colour::ours(from);
        match &code {
            Some((code, _)) if colour => seen.push_str(code),
            Some(_) => {}
            None => seen.push_str(&reveal("\u{1b}")),
        }
        rest = from.get(code.map_or(1, |(_, length)| length)..).unwrap_or_default();
    }
    seen.push_str(&reveal(rest));
    seen
}

/// A text on one line, with line ends and tabs spelled out too, so that the reader sees them.
pub(crate) fn spelled_out(text: &str) -> String {
    reveal(&text.replace("\r\n", "\n").replace('\n', "\\n").replace('\t', "\\t")).into_owned()
}

/// Warns a person on stderr, in every command.
pub(crate) fn warn(text: impl Display) {
    Screen { json: false }.say(format_args!(
        "{} {}",
        paint_stderr("warning:", TextStyle::Careful),
        one_line(&text.to_string())
    ));
}

/// JSON whose hidden characters are written as escapes. Its texts mean the same.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut found = hidden_characters(json).into_iter().peekable();
    let mut escaped = String::with_capacity(json.len());
    for (position, character) in json.chars().enumerate() {
        if found.next_if(|hidden| hidden.position == position).is_none() {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

fn has_colour(stream: Stream) -> bool {
    "x".if_supports_color(stream, |word| word.red()).to_string().len() > 1
}

/// A table with a head, as wide as the terminal.
pub(crate) fn table(head: &[&str]) -> TextTable {
    TextTable::new(head)
}

/// A table as text.
pub(crate) fn lines(table: &TextTable) -> String {
    table.lines()
}

/// How many characters are needed to tell ids apart, at least `chars_min`.
pub(crate) fn distinct_chars<'a>(ids: impl Iterator<Item = &'a str>, chars_min: usize) -> usize {
    let ids: Vec<&str> = ids.collect();
    let longest = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0);
    let is_enough = |chars: &usize| {
        let beginnings: BTreeSet<String> = ids.iter().map(|id| id.chars().take(*chars).collect()).collect();
        beginnings.len() == ids.len()
    };
    (chars_min..longest).find(is_enough).unwrap_or(longest)
}

/// A number and a thing, in English.
pub(crate) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// The same for a thing with an irregular plural.
pub(crate) fn plural(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// A word of data in a style.
pub(crate) fn paint(word: &str, style: TextStyle) -> String {
    paint_for(Stream::Stdout, word, style)
}

/// A word for stderr in a style.
pub(crate) fn paint_stderr(word: &str, style: TextStyle) -> String {
    paint_for(Stream::Stderr, word, style)
}

fn paint_for(stream: Stream, word: &str, style: TextStyle) -> String {
    let word = &*reveal(word);
    if !has_colour(stream) {
        return word.to_owned();
    }
    match style {
        TextStyle::Good => colour::around(word, "32", "39"),
        TextStyle::Careful => colour::around(word, "33", "39"),
        TextStyle::Bad => colour::around(word, "31", "39"),
        TextStyle::Quiet => colour::around(word, "2", "0"),
        TextStyle::Strong => colour::around(word, "1", "0"),
    }
}

#[cfg(test)]
mod tests {
    use super::{colour, escaped_json, lines, shown, spelled_out, table};

    #[test]
    fn nothing_that_does_not_show_is_written() {
        let hostile = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{202e}d\u{200b}e\rf\u{1b}[2Kg\u{1b}[8mh";
        for colour in [true, false] {
            let seen = shown(hostile, colour);
            assert!(seen.chars().all(|one| !one.is_control()) && !seen.contains('\u{202e}'), "{seen}");
            assert!(
                seen.contains("<U+001B>]0;title<U+0007>b") && seen.contains("<U+202E>d<U+200B>e<U+000D>f"),
                "{seen}"
            );
        }
        assert_eq!(spelled_out("a\n\tb\r\n\rc"), "a\\n\\tb\\n<U+000D>c");
    }

    /// Foreign text may contain the same codes as ours: its codes are spelled out, and only ours make colour.
    #[test]
    fn only_our_own_colour_is_colour() {
        for theirs in ["\u{1b}[32mgood\u{1b}[39m", "\u{1b}[0m", "\u{1b}[1;1;2;3m", "\u{1b}[31;m"] {
            for colour in [true, false] {
                assert!(!shown(theirs, colour).contains('\u{1b}'), "{theirs:?}");
            }
        }
        let ours = colour::around("good", "32", "39");
        let mixed = format!("{ours} \u{1b}[32mbad\u{1b}[0m\n");
        assert_eq!(shown(&mixed, true), "\u{1b}[32mgood\u{1b}[39m <U+001B>[32mbad<U+001B>[0m\n");
        assert_eq!(shown(&mixed, false), "good <U+001B>[32mbad<U+001B>[0m\n");
        let mut table = table(&["a"]);
        table.add_row([ours]).add_row(["x\u{1b}[0m".to_owned()]);
        let lines = shown(&lines(&table), true);
        assert!(lines.contains("\u{1b}[32mgood\u{1b}[39m") && lines.contains("x<U+001B>[0m"), "{lines:?}");
    }

    #[test]
    fn json_means_the_same_when_everything_shows() {
        let value = serde_json::json!({ "a": "x\u{202e}\u{9b}\u{e0041}y\u{1b}" });
        let escaped = escaped_json(&value.to_string());
        assert!(escaped.is_ascii(), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
