//! What the tour looks like: a line or two a call, aligned, as wide as the terminal, readable without colour.

use std::io::IsTerminal as _;

use serde_json::Value;
use servanda_contract::{GateName, Refusal};

use super::{
    outcome::{Ending, Played},
    proof::Proof,
    tour::Chapter,
};
use crate::{
    commands::explain,
    failure::Failure,
    screen::{Mood, Screen, paint, paint_stderr},
};

/// Columns of a page that is not read on a terminal.
const WIDTH: usize = 110;
/// Columns beyond which a line is hard to read, and below which there is nothing to align.
const WIDTH_MAX: usize = 120;
const WIDTH_MIN: usize = 60;
/// Where the text begins, after the number and the name of a gate.
const INDENT: usize = 18;
/// Lines the reason and the hint of one refusal may take together, whatever a tool has to say.
const REASON_LINES_MAX: usize = 3;
/// A hint shorter than this says nothing without the clause after it.
const CLAUSE_CHARS_MIN: usize = 16;

/// The page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    screen: Screen,
    width: usize,
}

impl Page {
    /// A page for the terminal there is.
    pub(super) fn new(screen: Screen) -> Self {
        let terminal = std::io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
        Self { screen, width: terminal.unwrap_or(WIDTH).clamp(WIDTH_MIN, WIDTH_MAX) }
    }

    /// What this is.
    pub(super) fn headline(self, tools: usize) {
        if !self.screen.json {
            let what = paint_stderr("servanda demo", Mood::Strong);
            self.screen
                .say(format_args!("{what}: a sample company with {tools} tools, and the gateway in front of it"));
        }
    }

    /// What follows.
    pub(super) fn chapter(self, chapter: &Chapter) -> Result<(), Failure> {
        self.heading(chapter.heading)
    }

    /// One call.
    pub(super) fn step(self, played: &Played) -> Result<(), Failure> {
        match &played.ending {
            Ending::Passed(result) => {
                self.call(&paint(&label(None, "passed"), Mood::Good), played)?;
                let time = format!(" · {} ms", played.took_ms);
                let result = fit(&shown(result), self.room().saturating_sub(time.chars().count()));
                self.text(&format!("{result}{time}"))?;
            }
            Ending::ToolError(text) => {
                self.call(&paint(&label(None, "tool error"), Mood::Careful), played)?;
                self.text(&fit(text, self.room()))?;
            }
            Ending::Refused(refusal) => {
                self.call(&paint(&label(refusal.gate.number(), &refusal.gate.to_string()), Mood::Bad), played)?;
                for line in self.reasons(refusal, played.took_ms) {
                    self.text(&line)?;
                }
            }
        }
        match played.surprise() {
            Some(surprise) => self.text(&paint(&format!("NOT AS EXPECTED: {surprise}"), Mood::Bad)),
            None => Ok(()),
        }
    }

    /// What really happened, and one refused call as `explain` shows it.
    pub(super) fn proof(self, proof: &Proof) -> Result<(), Failure> {
        self.heading("What really happened")?;
        let Proof { refused, refused_but_sent, effects_allowed, effects_counted, .. } = proof;
        let kinds = proof.effects_by_kind.iter().filter(|(_, count)| **count != 0);
        let kinds = kinds.map(|(kind, count)| format!("{kind}: {count}")).collect::<Vec<_>>().join(", ");
        let mood = if proof.surprise().is_none() { Mood::Good } else { Mood::Bad };
        let sentence = format!(
            "{refused} calls refused, {refused_but_sent} of them reached the company: \
             {effects_counted} effects, {effects_allowed} allowed"
        );
        self.line(&format!("  {} ({kinds})", paint(&sentence, mood)))?;
        let Some(record) = &proof.explained else { return Ok(()) };
        self.heading(&format!("$ servanda explain {}", record.call_id))?;
        self.line(&explain::render(record))
    }

    fn call(self, label: &str, played: &Played) -> Result<(), Failure> {
        let tool = played.step.tool;
        let room = self.room().saturating_sub(tool.chars().count() + 1);
        let arguments = if played.step.arguments == "{}" { "" } else { played.step.arguments };
        self.line(format!("{label}{} {}", paint(tool, Mood::Strong), fit(arguments, room)).trim_end())
    }

    /// Why, where and what to do: on one line where that fits.
    fn reasons(self, refusal: &Refusal, took_ms: u128) -> Vec<String> {
        let time = if refusal.gate == GateName::Perform { format!(" · {took_ms} ms") } else { String::new() };
        let why = format!("{}{time}", reason(refusal));
        let hint = format!("hint: {}", clause(&refusal.hint));
        let whole = format!("{why}; {hint}");
        if whole.chars().count() <= self.room() {
            return vec![whole];
        }
        let hint = wrap(&hint, self.room(), REASON_LINES_MAX - 1);
        let mut lines = wrap(&why, self.room(), REASON_LINES_MAX.saturating_sub(hint.len()).max(1));
        lines.extend(hint);
        lines
    }

    fn heading(self, heading: &str) -> Result<(), Failure> {
        self.line(&format!("\n{}", paint(heading, Mood::Strong)))
    }

    fn text(self, text: &str) -> Result<(), Failure> {
        self.line(&format!("{:INDENT$}{text}", ""))
    }

    fn line(self, line: &str) -> Result<(), Failure> {
        // In JSON the one document comes at the end.
        if self.screen.json { Ok(()) } else { self.screen.data(line) }
    }

    fn room(self) -> usize {
        self.width.saturating_sub(INDENT)
    }
}

fn label(number: Option<u8>, name: &str) -> String {
    let number = number.map_or_else(String::new, |number| number.to_string());
    format!("  {number:>2} {name:<13}")
}

/// The message with the pointer in the place of the field's name.
fn reason(refusal: &Refusal) -> String {
    let Some(error) = refusal.field_errors.first().filter(|error| !error.pointer.is_empty()) else {
        return refusal.message.clone();
    };
    let more = match refusal.field_errors.len() {
        0 | 1 => String::new(),
        errors => format!(" (and {} more)", errors - 1),
    };
    match error.message.strip_prefix(&format!("`{}` ", error.field)) {
        Some(rest) => format!("{} {rest}{more}", error.pointer),
        None => format!("{}: {}{more}", error.pointer, error.message),
    }
}

/// The beginning of a hint that is enough by itself; `explain` shows the whole.
fn clause(hint: &str) -> &str {
    let ends = hint.char_indices().filter(|(_, character)| [';', ':', '?'].contains(character));
    let end = ends.map(|(at, end)| if end == '?' { at + 1 } else { at }).find(|end| *end >= CLAUSE_CHARS_MIN);
    end.and_then(|end| hint.get(..end)).unwrap_or(hint)
}

/// A result in one line: an object with a single list shows what the list has.
fn shown(result: &Value) -> String {
    result.to_string()
}

/// Text cut to a width, with nothing in it that moves the cursor.
fn fit(text: &str, width: usize) -> String {
    let text: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    if text.chars().count() <= width {
        return text;
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Text in lines of a width, broken between words; what does not fit into the lines there may be is cut.
fn wrap(text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let full = line.chars().count() + 1 + word.chars().count() > width;
        // The last line takes the rest, to be cut.
        if full && !line.is_empty() && lines.len() + 1 < lines_max {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.iter().map(|line| fit(line, width)).collect()
}
