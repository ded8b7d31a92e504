//! Texts as values of HTTP headers: `Mcp-Name` and `Mcp-Param-…` repeat parts of the body. Text that a header cannot
//! carry is wrapped as `=?base64?…?=`, as the specification says.
//!
//! Only canonical base64 is decoded: two encodings of one value would be a way around a comparison of headers made
//! elsewhere.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Encodes a text as a header value: visible ASCII.
pub fn encode(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(text)))
}

/// Decodes a header value. `None` if it is wrapped and cannot be decoded.
pub fn decode(written: &str) -> Option<Cow<'_, str>> {
    match written.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(written)),
    }
}

/// Whether a text arrives unchanged: visible ASCII and inner spaces, and not itself in the wrapped form.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
        && text.trim() == text
        && !(text.starts_with(OPEN) && text.ends_with(CLOSE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            assert_eq!(encode(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_canonical_base64_is_decoded() {
        for (encoded, expected) in [
            ("", Some("")),
            ("Zg==", Some("f")),
            ("Zm8=", Some("fo")),
            ("Zm9v", Some("foo")),
            ("Zm9vYg==", Some("foob")),
            ("SGVsbG8sIOS4lueVjA==", Some("Hello, 世界")),
            ("PT9iYXNlNjQ/bGl0ZXJhbD89", Some("=?base64?literal?=")),
            ("Zh==", None),
            ("Zm9=", None),
            ("Zg", None),
            ("Zg=", None),
            ("Zg==Zg==", None),
            ("Z===", None),
            ("====", None),
            ("Zm-v", None),
            ("Zm 9v", None),
            ("/w==", None),
        ] {
            assert_eq!(decode(&format!("{OPEN}{encoded}{CLOSE}")).as_deref(), expected, "{encoded}");
        }
        for plain in ["SGVsbG8=", "=?base64?SGVsbG8=", "=?base64?=", ""] {
            assert_eq!(decode(plain).as_deref(), Some(plain), "not wrapped");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(text: String) {
            let encoded = encode(&text);
            prop_assert!(encoded.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
            prop_assert_eq!(decode(&encoded).unwrap(), text.as_str());
        }
    }
}
