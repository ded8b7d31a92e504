//! Values of the headers that repeat parts of the body: `Mcp-Name` and `Mcp-Param-…`. What a header cannot carry is wrapped
//! as `=?base64?…?=`, as the specification says.

use hyper::header::HeaderValue;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// The header value of a text.
pub(crate) fn header_value(text: &str) -> Option<HeaderValue> {
    if is_plain(text) {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("{OPEN}{}{CLOSE}", base64(text.as_bytes()))).ok()
}

/// Whether a text arrives unchanged: visible ASCII and inner spaces, and not itself in the form of a wrapped one.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
        && text.trim() == text
        && !(text.starts_with(OPEN) && text.ends_with(CLOSE))
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
    fn texts_as_header_values() {
        let table = [
            ("get_weather", "get_weather"),
            ("a b", "a b"),
            ("a", "a"),
            ("", "=?base64??="),
            (" a", "=?base64?IGE=?="),
            ("wetter_für", "=?base64?d2V0dGVyX2bDvHI=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("a\tb", "=?base64?YQli?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ];
        for (text, expected) in table {
            assert_eq!(header_value(text).unwrap().to_str().unwrap(), expected, "{text:?}");
        }
    }
}
