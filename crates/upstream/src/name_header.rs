//! The `Mcp-Name` header: a tool's name as a header value. Names that a header cannot carry are wrapped as
//! `=?base64?…?=`, as the specification says.

use reqwest::header::HeaderValue;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// The header value of a name.
pub(crate) fn name_header(name: &str) -> Option<HeaderValue> {
    let text = if is_plain(name) { name.to_owned() } else { format!("{OPEN}{}{CLOSE}", base64(name.as_bytes())) };
    HeaderValue::from_str(&text).ok()
}

/// Whether a name arrives unchanged: visible ASCII and inner spaces, and not itself in the form of a wrapped one.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
        && name.trim() == name
        && !(name.starts_with(OPEN) && name.ends_with(CLOSE))
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| (bits << 8) | usize::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = ALPHABET.get((bits >> (18 - 6 * place)) & 63).filter(|_| place <= group.len());
            text.push(digit.map_or('=', |digit| char::from(*digit)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_header_values() {
        let table = [
            ("get_weather", "get_weather"),
            ("a b", "a b"),
            ("a", "a"),
            ("", "=?base64??="),
            (" a", "=?base64?IGE=?="),
            ("wetter_für", "=?base64?d2V0dGVyX2bDvHI=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ];
        for (name, expected) in table {
            assert_eq!(name_header(name).unwrap().to_str().unwrap(), expected, "{name:?}");
        }
    }
}
