//! Words in shell syntax, so that a person sees exactly what would run. Hidden characters are spelled out.

use std::{collections::BTreeSet, fmt::Write as _};

use servanda_contract::legibility::hidden_characters;

/// A word in shell syntax, with hidden characters spelled out.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "@%+=:,./_-${}".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if hidden_characters(word).is_empty() && !word.contains(['\n', '\t']) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut text = String::from("$'");
    let found: BTreeSet<usize> = hidden_characters(word).iter().map(|hidden| hidden.position).collect();
    for (position, character) in word.chars().enumerate() {
        match character {
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            '\'' | '\\' => text.extend(['\\', character]),
            _ if !found.contains(&position) => text.push(character),
            _ => {
                let _ = write!(text, "\\U{:08x}", u32::from(character));
            }
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_shows_whatever_is_in_it() {
        for (word, expected) in [
            ("npx", "npx"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("# docs\ntouch W", "$'# docs\\ntouch W'"),
            ("\t\\'\r\u{1b}[2J\u{202e}", "$'\\t\\\\\\'\\r\\U0000001b[2J\\U0000202e'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
