//! Finds out which request an answer belongs to when only the two ends of the answer were kept.
//!
//! Servers write the id first (Python, Go, Rust) or last (TypeScript). An id that is not certain is not guessed.

/// What the beginning of a message says.
#[derive(Debug, PartialEq, Eq)]
enum MessageBeginning {
    /// An answer to that request.
    Answer(i64),
    /// A request or a notification.
    NotAnAnswer,
    /// Not decided yet.
    Open,
}

/// The id of the request that a message with these two ends answers.
pub(crate) fn answered_id(prefix: &[u8], tail: &[u8]) -> Option<i64> {
    match read_beginning(prefix) {
        MessageBeginning::Answer(id) => Some(id),
        MessageBeginning::NotAnAnswer => None,
        MessageBeginning::Open => read_end(tail),
    }
}

/// Reads top-level members until one whose value is not a scalar.
fn read_beginning(prefix: &[u8]) -> MessageBeginning {
    let mut cursor = ByteCursor { bytes: prefix };
    let mut id = None;
    if !cursor.skip(b'{') {
        return MessageBeginning::NotAnAnswer;
    }
    loop {
        let Some(key) = cursor.string() else { return MessageBeginning::Open };
        if !cursor.skip(b':') {
            return MessageBeginning::Open;
        }
        match (key, id) {
            (b"method" | b"params", _) => return MessageBeginning::NotAnAnswer,
            (b"result" | b"error", Some(id)) => return MessageBeginning::Answer(id),
            (b"id", _) => match cursor.integer() {
                Some(number) => id = Some(number),
                None => return MessageBeginning::NotAnAnswer,
            },
            (b"jsonrpc", _) if cursor.string().is_some() => {}
            _ => return MessageBeginning::Open,
        }
        if !cursor.skip(b',') {
            return MessageBeginning::Open;
        }
    }
}

/// Reads `,"id":N}` at the very end, with or without `,"jsonrpc":"2.0"` after it. The last brace closes the message itself,
/// so the members right before it are top-level ones.
fn read_end(tail: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(tail);
    let mut rest = text.trim_end().strip_suffix('}')?.trim_end();
    if let Some(before) = strip_member(rest, "\"jsonrpc\"", "\"2.0\"") {
        rest = before;
    }
    let digits = rest.trim_end_matches(|character: char| character.is_ascii_digit() || character == '-');
    let number = rest.get(digits.len()..)?.parse().ok()?;
    let before_key = digits.trim_end().strip_suffix(':')?.trim_end().strip_suffix("\"id\"")?;
    before_key.trim_end().ends_with([',', '{']).then_some(number)
}

fn strip_member<'a>(text: &'a str, key: &str, value: &str) -> Option<&'a str> {
    let text = text.strip_suffix(value)?.trim_end().strip_suffix(':')?.trim_end();
    Some(text.strip_suffix(key)?.trim_end().strip_suffix(',')?.trim_end())
}

struct ByteCursor<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteCursor<'a> {
    fn skip(&mut self, expected: u8) -> bool {
        self.bytes = self.bytes.trim_ascii_start();
        match self.bytes.split_first() {
            Some((first, rest)) if *first == expected => {
                self.bytes = rest;
                true
            }
            _ => false,
        }
    }

    /// A string without escapes; envelope members need none.
    fn string(&mut self) -> Option<&'a [u8]> {
        if !self.skip(b'"') {
            return None;
        }
        let end = self.bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        let (string, rest) = self.bytes.split_at_checked(end)?;
        self.bytes = rest;
        self.skip(b'"').then_some(string)
    }

    fn integer(&mut self) -> Option<i64> {
        self.bytes = self.bytes.trim_ascii_start();
        let end = self.bytes.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'-'))?;
        let (digits, rest) = self.bytes.split_at_checked(end)?;
        self.bytes = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_at_either_end_and_never_guessed() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x":"#, r#"xxx"}}"#, Some(7)),
            (r#" { "id" : 7 , "jsonrpc" : "2.0" , "result" : "#, "", Some(7)),
            (r#"{"jsonrpc":"2.0","id":7,"error":{"#, "}}", Some(7)),
            (r#"{"result":{"content":[{"#, r#"xx"}]},"jsonrpc":"2.0","id":7}"#, Some(7)),
            (r#"{"result":{"content":[{"#, r#"xx"}]},"id":7,"jsonrpc":"2.0"}"#, Some(7)),
            (r#"{"result":{"content":[{"#, "xx\"}]} , \"id\" : 7 } \r", Some(7)),
            (r#"{"jsonrpc":"2.0","result":{"#, r#"xx"}]},"id":7}"#, Some(7)),
            // An object inside the result that has an id does not give the answer's id.
            (r#"{"jsonrpc":"2.0","result":{"rows":[{"#, r#"{"id":7}]}}"#, None),
            // The server's own requests and notifications have ids of their own.
            (r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"#, "}}", None),
            (r#"{"jsonrpc":"2.0","method":"x","params":{"#, r#"},"id":7}"#, None),
            (r#"{"method":"notifications/message","params":{"#, "}}", None),
            (r#"{"jsonrpc":"2.0","id":"seven","result":{"#, "}}", None),
            (r#"{"jsonrpc":"2.0","id":7.5,"result":{"#, "}}", None),
            ("garbage", r#","id":7}"#, None),
            ("", "", None),
        ];
        for (prefix, tail, expected) in table {
            assert_eq!(answered_id(prefix.as_bytes(), tail.as_bytes()), expected, "{prefix} … {tail}");
        }
    }
}
