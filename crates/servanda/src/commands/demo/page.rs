//! The layout of the tour: one or two lines per call, aligned, as wide as the terminal, readable without colour.

use std::io::IsTerminal as _;

use servanda_contract::{FieldError, GateName, Refusal};

use super::{
    outcome::{DemoOutcome, PlayedStep},
    proof::DemoProof,
    tour::DemoChapter,
};
use crate::{
    commands::explain,
    failure::CommandFailure,
    screen::{Screen, TextStyle, paint, paint_stderr},
};

/// Columns of a page that is not read on a terminal.
const WIDTH: usize = 110;
/// Lines wider than this are hard to read; narrower ones have no room to align.
const WIDTH_MAX: usize = 120;
const WIDTH_MIN: usize = 60;
/// From this width on, a call that passed is shown with its result on one line.
const WIDE_MIN: usize = 100;
/// The column at which text begins, after the number and the name of a gate.
const INDENT: usize = 18;
/// The most lines for the reason and the hint of one refusal, however long the tool's text is.
const REASON_LINES_MAX: usize = 3;
/// A hint shorter than this is shown with the next clause, because it says nothing alone.
const CLAUSE_CHARS_MIN: usize = 16;

/// The page.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemoPage {
    screen: Screen,
    width: usize,
}

/// The columns of the terminal.
pub(super) fn width() -> usize {
    let terminal = std::io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
    terminal.unwrap_or(WIDTH).clamp(WIDTH_MIN, WIDTH_MAX)
}

impl DemoPage {
    /// A page for the current terminal.
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, width: width() }
    }

    /// Prints the headline.
    pub(super) fn headline(self, tools: usize) {
        if !self.screen.json {
            let what = paint_stderr("servanda demo", TextStyle::Strong);
            self.screen
                .say(format_args!("{what}: a sample company with {tools} tools, and the gateway in front of it"));
        }
    }

    /// Prints the heading of a chapter.
    pub(super) fn chapter(self, chapter: &DemoChapter) -> Result<(), CommandFailure> {
        self.heading(chapter.heading)
    }

    /// One call.
    pub(super) fn step(self, played: &PlayedStep) -> Result<(), CommandFailure> {
        match &played.ending {
            DemoOutcome::Passed(result) => self.passed(played, &result.to_string())?,
            DemoOutcome::ToolError(text) => {
                let label = paint(&label(None, "tool error"), TextStyle::Careful);
                self.line(&format!("{label}{}", shown_call(played, self.room())))?;
                self.text(&fit(text, self.room()))?;
            }
            DemoOutcome::Refused(refusal) => {
                let label = label(refusal.gate.number(), &refusal.gate.to_string());
                self.line(&format!("{}{}", paint(&label, TextStyle::Bad), shown_call(played, self.room())))?;
                let time = if refusal.gate == GateName::Perform {
                    format!(" · {} ms", played.took_ms)
                } else {
                    String::new()
                };
                let whole = format!("{}{time} → {}", reason(refusal), clause(&refusal.hint));
                wrap(&whole, self.room(), REASON_LINES_MAX).iter().try_for_each(|line| self.text(line))?;
            }
        }
        match played.surprise() {
            Some(surprise) => self.text(&paint(&format!("NOT AS EXPECTED: {surprise}"), TextStyle::Bad)),
            None => Ok(()),
        }
    }

    /// Prints what really happened, and one refused call as `explain` shows it.
    pub(super) fn proof(self, proof: &DemoProof, explain: &str) -> Result<(), CommandFailure> {
        self.heading("What really happened")?;
        let DemoProof { refused, refused_but_sent, effects_allowed, effects_counted, .. } = proof;
        let kinds = proof.effects_by_kind.iter().filter(|(_, count)| **count != 0);
        let kinds = kinds.map(|(kind, count)| format!("{kind}: {count}")).collect::<Vec<_>>().join(", ");
        let style = if proof.surprise().is_none() { TextStyle::Good } else { TextStyle::Bad };
        let sentence = format!(
            "{refused} calls refused, {refused_but_sent} of them reached the company: \
             {effects_counted} effects, {effects_allowed} allowed"
        );
        let fits = sentence.chars().count() + kinds.chars().count() + 5 <= self.width;
        let between = if fits { " " } else { "\n  " };
        self.line(&format!("  {}{between}({kinds})", paint(&sentence, style)))?;
        let Some(record) = &proof.explained else { return Ok(()) };
        self.heading(&format!("$ servanda {explain} {}", record.call_id))?;
        self.line(&explain::render(record))
    }

    fn passed(self, played: &PlayedStep, result: &str) -> Result<(), CommandFailure> {
        let label = paint(&label(None, "passed"), TextStyle::Good);
        let time = format!(" · {} ms", played.took_ms);
        let result = format!("→ {}{result}", played.step.user_note);
        let room = self.room().saturating_sub(time.chars().count());
        if self.width < WIDE_MIN {
            self.line(&format!("{label}{}", shown_call(played, self.room())))?;
            return self.text(&format!("{}{time}", fit(&result, room)));
        }
        // At most half for the call, and the rest for the result.
        let call = shown_call(played, room / 2);
        let room = room.saturating_sub(console::measure_text_width(&call) + 1);
        self.line(&format!("{label}{call} {}{time}", fit(&result, room)))
    }

    fn heading(self, heading: &str) -> Result<(), CommandFailure> {
        self.line(&format!("\n{}", paint(heading, TextStyle::Strong)))
    }

    fn text(self, text: &str) -> Result<(), CommandFailure> {
        self.line(&format!("{:INDENT$}{text}", ""))
    }

    fn line(self, line: &str) -> Result<(), CommandFailure> {
        // With `--json`, one document is printed at the end.
        if self.screen.json { Ok(()) } else { self.screen.page(line) }
    }

    fn room(self) -> usize {
        self.width.saturating_sub(INDENT)
    }
}

fn label(number: Option<u8>, name: &str) -> String {
    let number = number.map_or_else(String::new, |number| number.to_string());
    format!("  {number:>2} {name:<13}")
}

/// The tool and what it was called with, cut to a width.
fn shown_call(played: &PlayedStep, width: usize) -> String {
    let tool = played.step.tool;
    let arguments = if played.step.arguments == "{}" { "" } else { played.step.arguments };
    let room = width.saturating_sub(tool.chars().count() + 1);
    format!("{} {}", paint(tool, TextStyle::Strong), fit(arguments, room)).trim_end().to_owned()
}

/// The first problem, with its pointer instead of the field's name.
pub(super) fn reason(refusal: &Refusal) -> String {
    let Some(error) = refusal.field_errors.first() else {
        // The last output of a dying server is left to `explain`.
        let whole = (refusal.gate != GateName::Perform).then_some(refusal.message.as_str());
        return whole.or(refusal.message.split("; ").next()).unwrap_or_default().to_owned();
    };
    let FieldError { pointer, message, .. } = error;
    if refusal.repair.as_ref().is_some_and(|progress| progress.stopped.is_some()) {
        return format!("{pointer} again");
    }
    let place = if refusal.gate == GateName::Observe { "answer: " } else { "" };
    let more = match refusal.field_errors.len() {
        0 | 1 => String::new(),
        errors => format!(" (+{})", errors - 1),
    };
    match message.strip_prefix(&format!("`{}`", error.field)) {
        Some(rest) => format!("{place}{pointer}{rest}{more}"),
        None if pointer.is_empty() => format!("{place}{message}{more}"),
        None => format!("{place}{pointer}: {message}{more}"),
    }
}

/// The beginning of a hint that makes sense alone; `explain` shows all of it.
pub(super) fn clause(hint: &str) -> &str {
    let ends = hint.char_indices().filter(|(_, character)| [';', ':', '?'].contains(character));
    let end = ends.map(|(at, end)| if end == '?' { at + 1 } else { at }).find(|end| *end >= CLAUSE_CHARS_MIN);
    end.and_then(|end| hint.get(..end)).unwrap_or(hint)
}

/// Text cut to a width, without characters that move the cursor.
pub(super) fn fit(text: &str, width: usize) -> String {
    let text = crate::screen::one_line(text);
    if text.chars().count() <= width {
        return text;
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Text in lines of a width, broken between words; text beyond the last line is cut.
pub(super) fn wrap(text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let full = line.chars().count() + 1 + word.chars().count() > width;
        // The last line takes the rest and is cut.
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
