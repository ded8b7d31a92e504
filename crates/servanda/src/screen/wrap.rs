//! Wraps long sentences on a terminal between words, so that the terminal does not break them in the middle of a word. A command in
//! backquotes stays in one piece if it fits on a line, because people copy it. In a pipe nothing is wrapped.

use std::io::{self, IsTerminal as _};

/// The minimal width for wrapping; a narrower terminal breaks lines by itself.
const WIDTH_MIN: usize = 30;
/// Additional indentation of the later lines of a sentence.
const INDENT: usize = 2;
/// The deepest indentation of the later lines of an entry: below its text, not below its name.
const HANGING_MAX: usize = 32;

/// The width of the terminal on stdout; none if stdout is not a terminal.
pub(crate) fn stdout_width() -> Option<usize> {
    io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1))
}

/// The width of the terminal on stderr; none if stderr is not a terminal.
pub(crate) fn stderr_width() -> Option<usize> {
    io::stderr().is_terminal().then(|| usize::from(console::Term::stderr().size().1))
}

/// A text whose lines fit that width, if there is one.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(room) = width.filter(|width| *width >= WIDTH_MIN) else { return text.to_owned() };
    text.split('\n').map(|line| broken(line, room)).collect::<Vec<_>>().join("\n")
}

/// One line for a terminal of that width: the whole line, or the brief one, cut at its end. If it is cut, a time at its end is dropped.
pub(crate) fn fitted(whole: String, brief: &str, room: Option<usize>) -> String {
    let Some(room) = room.filter(|room| width(&whole) > *room) else { return whole };
    let without_time = brief.strip_suffix(" ms").and_then(|line| line.rsplit_once(' ')).map(|(line, _)| line);
    let line = without_time.filter(|_| width(brief) > room).unwrap_or(brief);
    cut(line, room)
}

/// The beginning of a line that has to stay on one line of that width.
fn cut(line: &str, room: usize) -> String {
    if width(line) <= room {
        return line.to_owned();
    }
    let mut kept = String::new();
    for character in line.chars() {
        if width(&kept) + width(character.encode_utf8(&mut [0; 4])) >= room {
            break;
        }
        kept.push(character);
    }
    format!("{kept}…")
}

fn broken(line: &str, room: usize) -> String {
    if width(line) <= room {
        return line.to_owned();
    }
    let own = line.len() - line.trim_start_matches(' ').len();
    let indent = " ".repeat(hanging(line, own).min(room / 2));
    let mut lines: Vec<String> = Vec::new();
    let mut now = line.get(..own).unwrap_or_default().to_owned();
    let mut is_empty = true;
    for (blanks, piece) in pieces(line.get(own..).unwrap_or_default(), room.saturating_sub(indent.len())) {
        if !is_empty && width(&now) + blanks + width(piece) > room {
            lines.push(std::mem::replace(&mut now, indent.clone()));
        } else {
            now.push_str(&" ".repeat(blanks));
        }
        now.push_str(piece);
        is_empty = false;
    }
    lines.push(now);
    lines.join("\n")
}

/// Where the later lines begin: below the text of an entry (`  why       because`) or of a label (`hint: do this`), otherwise slightly
/// indented.
fn hanging(line: &str, own: usize) -> usize {
    let plain = console::strip_ansi_codes(line);
    let text = plain.get(own..).unwrap_or_default();
    let label = text.split(' ').next().filter(|label| label.ends_with(':')).map(|label| own + width(label) + 1);
    let entry = text.match_indices("  ").map(|(at, _)| own + at).take_while(|at| *at < HANGING_MAX).last();
    let entry = entry.map(|at| at + plain.get(at..).map_or(0, |rest| rest.len() - rest.trim_start_matches(' ').len()));
    entry.or(label).filter(|at| *at <= HANGING_MAX).unwrap_or(own + INDENT)
}

/// Words and commands with the blanks before each. A command that does not fit on a line is split into words.
fn pieces(text: &str, room: usize) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(' ');
        let blanks = rest.len() - after.len();
        let word = after.find(' ').unwrap_or(after.len());
        let piece = command_end(after, word).filter(|end| after.get(..*end).is_some_and(|all| width(all) <= room));
        let (piece, later) = after.split_at(piece.unwrap_or(word));
        if !piece.is_empty() {
            pieces.push((blanks, piece));
        }
        rest = later;
    }
    pieces
}

/// The end of the command that begins in the first word of a text, with the characters directly after it.
fn command_end(text: &str, word: usize) -> Option<usize> {
    let opened = text.get(..word)?.matches('`').count() % 2 == 1;
    if !opened {
        return None;
    }
    let closing = word + text.get(word..)?.find('`')? + 1;
    Some(text.get(closing..)?.find(' ').map_or(text.len(), |more| closing + more))
}

fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words_and_commands_stay_whole() {
        let hint = "hint: `servanda connect` lists your clients and puts the gateway into one; `servanda serve` runs it by itself";
        assert_eq!(wrapped(hint, None), hint, "a pipe has whole lines");
        assert_eq!(
            wrapped(hint, Some(50)),
            "hint: `servanda connect` lists your clients and\n      puts the gateway into one; `servanda serve`\n      runs it by itself"
        );
        assert_eq!(
            wrapped("a command that is long: `servanda effects settle eff_1 --as completed`", Some(40)),
            "a command that is long: `servanda\n  effects settle eff_1 --as completed`"
        );
    }

    #[test]
    fn an_entry_goes_on_below_its_text_and_ends_of_lines_stay() {
        assert_eq!(
            wrapped("  why       the gateway ended before it learned\n  next      look", Some(34)),
            "  why       the gateway ended\n            before it learned\n  next      look"
        );
        assert_eq!(wrapped("  one\n\n  two  ", Some(40)), "  one\n\n  two  ");
    }

    #[test]
    fn nothing_is_lost_at_any_width() {
        let text =
            "note: a `b c` d-e-f `unclosed words `and` more\u{1b}[32m in colour\u{1b}[39m wide 漢字漢字 x `y z`, end";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for room in 30..100 {
            let shown = wrapped(text, Some(room));
            assert_eq!(words(&shown), words(text), "{room}: {shown}");
            assert!(shown.lines().all(|line| width(line) <= room), "{room}: {shown}");
        }
    }

    #[test]
    fn a_line_about_a_call_is_whole_or_brief_or_cut_at_its_end() {
        let whole = || format!("09:35:32 a__tool refused at policy (POLICY_VIOLATION) 3 ms call_{}", "0".repeat(32));
        let brief = "09:35:32 a__tool refused call_000000000000 POLICY_VIOLATION at policy";
        for room in [None, Some(200)] {
            assert_eq!(fitted(whole(), brief, room), whole());
        }
        assert_eq!(fitted(whole(), brief, Some(80)), brief);
        assert_eq!(fitted(whole(), brief, Some(50)), "09:35:32 a__tool refused call_000000000000 POLICY…");
        let timed = "09:35:32 a__tool completed call_000000000000 12 ms";
        assert_eq!(fitted(whole(), timed, Some(50)), timed);
        assert_eq!(fitted(whole(), timed, Some(47)), "09:35:32 a__tool completed call_000000000000");
    }
}
