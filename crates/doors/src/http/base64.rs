//! Reads the base64 of header values: standard alphabet, padded. One direction only, a screenful, so it is ours.

/// The bytes, or nothing where the text is not base64 in its one canonical form.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut groups = text.as_bytes().chunks(4).peekable();
    while let Some(group) = groups.next() {
        let [first, second, third, fourth] = *<&[u8; 4]>::try_from(group).ok()?;
        let last = groups.peek().is_none();
        let value = |digit| sextet(digit).map(u32::from);
        match (third, fourth) {
            (b'=', b'=') if last => {
                let [_, byte, rest @ ..] = (value(first)? << 18 | value(second)? << 12).to_be_bytes();
                bytes.push(byte);
                all_zero(rest)?;
            }
            (third, b'=') if last => {
                let bits = value(first)? << 18 | value(second)? << 12 | value(third)? << 6;
                let [_, one, two, rest] = bits.to_be_bytes();
                bytes.extend([one, two]);
                all_zero([rest])?;
            }
            (third, fourth) => {
                let bits = value(first)? << 18 | value(second)? << 12 | value(third)? << 6 | value(fourth)?;
                let [_, decoded @ ..] = bits.to_be_bytes();
                bytes.extend(decoded);
            }
        }
    }
    Some(bytes)
}

/// Two texts for one value would be a way around a comparison of headers made elsewhere.
fn all_zero<const N: usize>(rest: [u8; N]) -> Option<()> {
    (rest == [0; N]).then_some(())
}

fn sextet(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn decodes_what_is_canonical_and_nothing_else() {
        for (text, expected) in [
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
            ("Zg==Zg==", None),
            ("Z===", None),
            ("====", None),
            ("Zm-v", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
