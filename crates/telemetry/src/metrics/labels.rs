//! The values of labels: short, without characters that control a terminal or a page, and escaped where they are written (T34).

use std::fmt::Write as _;

/// The longest label value, in characters. A longer name is cut.
pub const LABEL_CHARS_MAX: usize = 128;

/// The value of the series that takes what a full metric cannot tell apart.
pub(super) const OTHER: &str = "other";
/// The tool of calls whose name means no tool. Agents choose those names, so they are no labels.
pub(super) const NO_TOOL: &str = "none";

/// The beginning of a name, as long as a label may be. A map keyed by names takes no longer ones.
pub(super) fn cut(name: &str) -> &str {
    name.char_indices().nth(LABEL_CHARS_MAX).map_or(name, |(end, _)| name.get(..end).unwrap_or_default())
}

/// Writes `name="value"`, after a comma if something is there already.
pub(super) fn write_label(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    // Writing to a string cannot fail.
    let _ = write!(out, "{name}=\"");
    for character in cut(value).chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            // A newline would be legal when escaped; nothing that names a tool or a caller needs one.
            shown if is_hidden(shown) => out.push('\u{fffd}'),
            shown => out.push(shown),
        }
    }
    out.push('"');
}

/// Characters that control something, separate lines, change the direction of text or cannot be seen.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
