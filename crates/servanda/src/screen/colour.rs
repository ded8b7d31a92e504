//! Marks our own codes of colour: until they are written they carry random numbers that were drawn when the process began. A text from
//! outside cannot contain these numbers, so none of its codes reaches a terminal.

use std::{fmt::Write as _, sync::LazyLock};

/// The end of our codes until they are written. It has the form of code parameters, so that a table does not count it as text.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let drawn = servanda_files::unguessable();
    let numbers = drawn.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    numbers.fold(String::new(), |mut mark, number| {
        let _ = write!(mark, ";{}", u8::from_str_radix(number, 16).unwrap_or_default());
        mark
    })
});
/// The code that ends all colour, as the library of tables writes it.
const RESET: &str = "\u{1b}[0m";

/// The word between two codes of ours.
pub(super) fn around(word: &str, on: &str, off: &str) -> String {
    format!("\u{1b}[{on}{mark}m{word}\u{1b}[{off}{mark}m", mark = *MARK)
}

/// The code of ours that a text begins with, without its mark, and the length of the code with the mark.
pub(super) fn ours(text: &str) -> Option<(String, usize)> {
    let rest = text.strip_prefix("\u{1b}[")?;
    let number = rest.get(..rest.find(|character: char| !character.is_ascii_digit())?)?;
    let end = format!("{}m", *MARK);
    rest.strip_prefix(number)?.starts_with(&end).then(|| (format!("\u{1b}[{number}m"), 2 + number.len() + end.len()))
}

/// A line of a table, with our mark on the resets that the table put behind words of ours.
pub(super) fn with_resets(line: &str) -> String {
    let mut marked = String::with_capacity(line.len());
    let (mut rest, mut is_open) = (line, false);
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        marked.push_str(before);
        let length = ours(from).map_or(1, |(_, length)| length);
        if length > 1 {
            is_open = true;
        } else if is_open && from.starts_with(RESET) {
            let _ = write!(marked, "\u{1b}[0{}m", *MARK);
            (rest, is_open) = (from.get(RESET.len()..).unwrap_or_default(), false);
            continue;
        }
        let (code, behind) = from.split_at(length);
        marked.push_str(code);
        rest = behind;
    }
    marked.push_str(rest);
    marked
}
