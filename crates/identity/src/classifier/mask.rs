//! Removes a tool's own name from a text, for classification without names. It does not touch words that merely resemble the
//! name.

/// The replacement for the name.
const MASK: &str = "this";

/// The text without the name, wherever it is written as an identifier.
///
/// A name of one plain word (`search`) is also an English word: it is removed only where it is quoted as code, because removing
/// every "search" from a sentence would remove the sentence's verb, not the name.
pub(super) fn masked(text: &str, name: &str) -> String {
    if name.is_empty() {
        return text.to_owned();
    }
    let plain = name.chars().all(|character| character.is_ascii_lowercase());
    if plain {
        return ['`', '"', '\'']
            .iter()
            .fold(text.to_owned(), |text, quote| text.replace(&format!("{quote}{name}{quote}"), MASK));
    }
    replace_ignoring_case(text, name)
}

fn replace_ignoring_case(text: &str, name: &str) -> String {
    // ASCII only, so that both texts keep their byte offsets.
    let (haystack, needle) = (text.to_ascii_lowercase(), name.to_ascii_lowercase());
    let mut masked = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in haystack.match_indices(&needle) {
        masked.push_str(text.get(from..at).unwrap_or_default());
        masked.push_str(MASK);
        from = at + needle.len();
    }
    masked.push_str(text.get(from..).unwrap_or_default());
    masked
}
