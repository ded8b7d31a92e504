//! A call as the command that makes it again. Records have the digest of the arguments and not the arguments: these are filled in only from
//! the ticket of an approval, and only for a person who may see each of them.

use servanda_contract::{CallRecord, legibility};

/// Stands where arguments are not known.
pub(super) const PLACEHOLDER: &str = "ARGUMENTS";

/// The longest arguments that are filled in.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;

/// A command to copy.
pub(super) struct CopiedCall {
    /// The command.
    pub(super) command: String,
    /// Whether the arguments are in it.
    pub(super) has_arguments: bool,
}

/// The command for a call. None if the tool's name has characters that a person cannot see: what is copied must be what is read.
pub(super) fn command(record: &CallRecord, arguments: Option<&[u8]>) -> Option<CopiedCall> {
    if legibility::reveal(&record.tool) != record.tool || record.tool.contains(char::is_control) {
        return None;
    }
    let key = record.caller.credential.as_deref().and_then(|id| id.strip_prefix("operator:").or(Some(id)));
    let acting_as =
        key.filter(|id| id.starts_with("key:")).map_or_else(String::new, |id| format!(" --as {}", quoted(id)));
    let known =
        arguments.filter(|bytes| bytes.len() <= ARGUMENTS_BYTES_MAX).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let filled = known.map_or_else(|| PLACEHOLDER.to_owned(), ascii);
    let command = format!("servanda call{acting_as} {} {}", quoted(&record.tool), quoted(&filled));
    Some(CopiedCall { command, has_arguments: known.is_some() })
}

/// The same JSON in ASCII: every other character, which can only be in a string, becomes its escape.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            let mut units = [0; 2];
            text.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

/// A text as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::{ascii, quoted};

    #[test]
    fn words_are_one_word_whatever_is_in_them() {
        for (text, expected) in [
            ("company__pay", "company__pay"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(rm -r ~)", "'$(rm -r ~)'"),
            ("--as", "'--as'"),
            ("a;b", "'a;b'"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn json_in_ascii_means_the_same() {
        for text in [r#"{"a":"b"}"#, "{\"n\":\"\u{202e}é\u{1F600}\"}"] {
            let plain = ascii(text);
            assert!(plain.is_ascii());
            let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
            assert_eq!(read(&plain), read(text));
        }
    }
}
