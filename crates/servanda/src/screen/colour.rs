//! Marks our own colour codes: until they are written they carry random numbers that are drawn when the process starts. A foreign text
//! cannot contain these numbers, so none of its codes reaches a terminal.

use std::{fmt::Write as _, sync::LazyLock};

/// The end of our codes until they are written. It has the form of code parameters.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let drawn = servanda_files::unguessable();
    let numbers = drawn.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    numbers.fold(String::new(), |mut mark, number| {
        let _ = write!(mark, ";{}", u8::from_str_radix(number, 16).unwrap_or_default());
        mark
    })
});

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
