//! Text as a decoder sees it, with a map back to the place of each byte.
//!
//! Writers differ in what they escape and how (`/` or `\/`, `é` or `\u00e9`, `~` or `%7E`), but a reader undoes all of
//! it. So the code does not escape the secret in every possible way; it decodes the text.

/// Decoded text. A byte that was not decoded stands for itself.
pub(super) struct DecodedView {
    pub(super) bytes: Vec<u8>,
    /// The begin and end of each byte in the text.
    places: Vec<(u32, u32)>,
}

/// What is decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoding {
    /// Escapes of JSON strings.
    Json,
    /// `%2F`.
    Percent,
    /// The same, and `+` for a space.
    Form,
    /// `&#x2F;`, `&#47;` and `&amp;`.
    Html,
    /// Line ends, which writers of base64 and hex insert.
    Lines,
    /// Blanks, which writers insert between the groups of base64 and hex and before its lines.
    Blanks,
    /// What writers of hex insert between bytes or pairs of them: `73:33`, `7333 6372`, `0x73, 0x33`, `\\x73\\x33`.
    Separators,
}

/// How a text is decoded: first by the one decoding, and the result by each of the others. JSON is often inside of
/// JSON, and addresses are inside of it.
pub(super) const READINGS: [(Decoding, &[Decoding]); 7] = [
    (
        Decoding::Json,
        &[
            Decoding::Json,
            Decoding::Percent,
            Decoding::Form,
            Decoding::Html,
            Decoding::Lines,
            Decoding::Separators,
            Decoding::Blanks,
        ],
    ),
    (Decoding::Percent, &[Decoding::Percent, Decoding::Html]),
    (Decoding::Form, &[]),
    (Decoding::Html, &[Decoding::Html]),
    (Decoding::Lines, &[]),
    (Decoding::Separators, &[]),
    (Decoding::Blanks, &[]),
];
/// Bytes of text that one decoded byte may stand for: an entity of ten, each of which is written as an escape of six.
/// An entity whose characters are all written as entities again is longer, and is missed at the border of two windows.
pub(super) const EXPANSION_MAX: usize = 60;
/// Bytes of the longest entity that is decoded.
const ENTITY_BYTES_MAX: usize = 10;

impl DecodedView {
    /// The text after one decoding; `None` if the decoding changes nothing.
    pub(super) fn decode_text(text: &[u8], decoding: Decoding) -> Option<Self> {
        decoding.concerns(text).then(|| decode(text, decoding))
    }

    /// This view after another decoding; `None` if the decoding changes nothing.
    pub(super) fn decode_again(&self, decoding: Decoding) -> Option<Self> {
        Self::decode_text(&self.bytes, decoding).map(|next| next.after(self))
    }

    /// The span of the text that a part of the view came from.
    pub(super) fn span_of(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let (first, _) = self.places.get(start)?;
        let (_, last) = self.places.get(end.checked_sub(1)?)?;
        Some((*first as usize, *last as usize))
    }

    fn after(mut self, before: &Self) -> Self {
        for (start, end) in &mut self.places {
            if let Some((first, last)) = before.span_of(*start as usize, *end as usize) {
                (*start, *end) = (offset(first), offset(last));
            }
        }
        self
    }

    fn copy(&mut self, bytes: &[u8], start: usize) {
        self.bytes.extend_from_slice(bytes);
        self.places.extend((start..start + bytes.len()).map(|at| (offset(at), offset(at + 1))));
    }

    fn push(&mut self, bytes: &[u8], start: usize, end: usize) {
        self.bytes.extend_from_slice(bytes);
        self.places.extend(bytes.iter().map(|_| (offset(start), offset(end))));
    }
}

impl Decoding {
    /// Whether an escape may begin with this byte.
    const fn may_begin_with(self, byte: u8) -> bool {
        match self {
            Self::Json => byte == b'\\',
            Self::Percent => byte == b'%',
            Self::Form => matches!(byte, b'%' | b'+'),
            Self::Html => byte == b'&',
            Self::Lines => matches!(byte, b'\r' | b'\n'),
            Self::Blanks => is_blank(byte),
            Self::Separators => is_separator(byte) || matches!(byte, b'0' | b'\\'),
        }
    }

    fn concerns(self, text: &[u8]) -> bool {
        match self {
            Self::Json => text.contains(&b'\\'),
            Self::Percent => text.contains(&b'%'),
            Self::Form => text.contains(&b'+'),
            Self::Html => text.contains(&b'&'),
            Self::Lines => text.contains(&b'\n'),
            Self::Blanks => text.iter().any(|byte| is_blank(*byte)),
            Self::Separators => has_separated_hex(text),
        }
    }
}

fn decode(text: &[u8], decoding: Decoding) -> DecodedView {
    let mut view = DecodedView { bytes: Vec::with_capacity(text.len()), places: Vec::with_capacity(text.len()) };
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        // Most bytes stand for themselves and are copied together.
        let plain = rest.iter().position(|byte| decoding.may_begin_with(*byte)).unwrap_or(rest.len());
        if let Some(taken) = rest.get(..plain).filter(|taken| !taken.is_empty()) {
            view.copy(taken, at);
            at += plain;
            continue;
        }
        let unit = match (decoding, rest) {
            (Decoding::Json, [b'\\', ..]) => json_escape(rest),
            (Decoding::Percent | Decoding::Form, [b'%', high, low, ..]) => {
                hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| DecodedEscape::byte(high * 16 + low, 3))
            }
            (Decoding::Form, [b'+', ..]) => Some(DecodedEscape::byte(b' ', 1)),
            (Decoding::Html, [b'&', ..]) => entity(rest),
            (Decoding::Lines, [b'\r' | b'\n', ..]) => Some(DecodedEscape::nothing(1)),
            (Decoding::Blanks, [byte, ..]) if is_blank(*byte) => Some(DecodedEscape::nothing(1)),
            (Decoding::Separators, [b'0' | b'\\', b'x', ..]) => Some(DecodedEscape::nothing(2)),
            (Decoding::Separators, [byte, ..]) if is_separator(*byte) => Some(DecodedEscape::nothing(1)),
            _ => None,
        };
        // A byte that begins no escape stands for itself.
        let unit = unit.or_else(|| rest.first().map(|byte| DecodedEscape::byte(*byte, 1)));
        let Some(unit) = unit else { break };
        view.push(unit.bytes(), at, at + unit.length);
        at += unit.length;
    }
    view
}

/// What one escape stands for, and its length.
struct DecodedEscape {
    utf8: [u8; 4],
    utf8_length: usize,
    length: usize,
}

impl DecodedEscape {
    const fn byte(byte: u8, length: usize) -> Self {
        Self { utf8: [byte, 0, 0, 0], utf8_length: 1, length }
    }

    const fn nothing(length: usize) -> Self {
        Self { utf8: [0; 4], utf8_length: 0, length }
    }

    fn character(character: char, length: usize) -> Self {
        let mut utf8 = [0; 4];
        let utf8_length = character.encode_utf8(&mut utf8).len();
        Self { utf8, utf8_length, length }
    }

    fn bytes(&self) -> &[u8] {
        self.utf8.get(..self.utf8_length).unwrap_or_default()
    }
}

/// Whether the text has three hex bytes, or two pairs of them, with separators in between.
fn has_separated_hex(text: &[u8]) -> bool {
    let is_hex = |digits: Option<&[u8]>| digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let is_apart = |window: &[u8], at: usize| window.get(at).is_some_and(|byte| is_separator(*byte));
    let has_three = |window: &[u8]| {
        let apart = is_apart(window, 2) && is_apart(window, 5);
        apart && is_hex(window.get(..2)) && is_hex(window.get(3..5)) && is_hex(window.get(6..8))
    };
    let has_pairs = |window: &[u8]| is_apart(window, 4) && is_hex(window.get(..4)) && is_hex(window.get(5..));
    text.windows(8).any(has_three)
        || text.windows(9).any(has_pairs)
        || text.windows(2).any(|pair| matches!(pair, b"0x" | b"\\x"))
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b' ' | b'-' | b',' | b'_' | b'.')
}

fn entity(rest: &[u8]) -> Option<DecodedEscape> {
    const NAMED: [(&[u8], char); 8] = [
        (b"amp", '&'),
        (b"lt", '<'),
        (b"gt", '>'),
        (b"quot", '"'),
        (b"apos", '\''),
        (b"sol", '/'),
        (b"equals", '='),
        (b"plus", '+'),
    ];
    // Readers also accept an entity without its semicolon, if the next byte cannot belong to it.
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
    let inside = rest.get(1..)?.iter().take(ENTITY_BYTES_MAX).take_while(|byte| is_inside(byte)).count();
    let name = rest.get(1..=inside)?;
    let length = match rest.get(inside + 1..)? {
        [b';', ..] | [b' ', b'&', ..] => inside + 2,
        _ => inside + 1,
    };
    let character = match name {
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
        _ => NAMED.iter().find(|(known, _)| *known == name).map(|(_, character)| *character)?,
    };
    Some(DecodedEscape::character(character, length))
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits
        .iter()
        .try_fold(0_u32, |value, digit| value.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?))
}

fn json_escape(rest: &[u8]) -> Option<DecodedEscape> {
    let plain = match rest.get(1)? {
        byte @ (b'"' | b'\\' | b'/') => *byte,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => return unicode_escape(rest),
        _ => return None,
    };
    Some(DecodedEscape::byte(plain, 2))
}

fn unicode_escape(rest: &[u8]) -> Option<DecodedEscape> {
    let unit_at = |at: usize| {
        let escape = rest.get(at..at + 6)?.strip_prefix(b"\\u")?;
        escape.iter().try_fold(0, |value: u16, digit| Some(value * 16 + u16::from(hex_digit(*digit)?)))
    };
    let first = unit_at(0)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some(DecodedEscape::character(character, 6));
    }
    let pair = char::decode_utf16([first, unit_at(6)?]).next()?.ok()?;
    Some(DecodedEscape::character(pair, 12))
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Windows are shorter than this limit.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
