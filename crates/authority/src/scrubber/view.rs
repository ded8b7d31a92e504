//! Text as somebody who decodes it sees it, with the way back to where each byte stands.
//!
//! Writers differ in what they escape and how (`/` or `\/`, `é` or `\u00e9`, `~` or `%7E`), but a reader undoes all of it.
//! So it is not the secret that is escaped in every way somebody may think of, but the text that is read.

/// Decoded text. Where nothing was decoded, a byte stands for itself.
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    /// Where each byte begins and ends in the text.
    places: Vec<(u32, u32)>,
}

/// What is undone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoding {
    /// Escapes of JSON strings.
    Json,
    /// `%2F`.
    Percent,
    /// The same, and `+` for a space.
    Form,
}

/// The ways in which a text is read. JSON is often inside of JSON, and addresses are inside of it.
pub(super) const READINGS: [&[Decoding]; 6] = [
    &[Decoding::Json],
    &[Decoding::Json, Decoding::Json],
    &[Decoding::Percent],
    &[Decoding::Form],
    &[Decoding::Json, Decoding::Percent],
    &[Decoding::Json, Decoding::Form],
];
/// Bytes of text that one byte of a reading may stand for: an escape of six, each of which is written as one of six.
pub(super) const EXPANSION_MAX: usize = 36;

impl View {
    /// The text read in one way; none if that is how it stands there, or how a shorter way reads it.
    pub(super) fn of(text: &[u8], reading: &[Decoding]) -> Option<Self> {
        let mut view: Option<Self> = None;
        for decoding in reading {
            let bytes = view.as_ref().map_or(text, |view| &view.bytes);
            if !bytes.iter().any(|byte| decoding.concerns(*byte)) {
                return None;
            }
            let next = decode(bytes, *decoding);
            view = Some(match view {
                None => next,
                Some(before) => next.after(&before),
            });
        }
        view
    }

    /// Where in the text a part of the reading stands.
    pub(super) fn place_of(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let (first, _) = self.places.get(start)?;
        let (_, last) = self.places.get(end.checked_sub(1)?)?;
        Some((*first as usize, *last as usize))
    }

    fn after(mut self, before: &Self) -> Self {
        for (start, end) in &mut self.places {
            if let Some((first, last)) = before.place_of(*start as usize, *end as usize) {
                (*start, *end) = (offset(first), offset(last));
            }
        }
        self
    }

    fn push(&mut self, bytes: &[u8], start: usize, end: usize) {
        self.bytes.extend_from_slice(bytes);
        self.places.extend(bytes.iter().map(|_| (offset(start), offset(end))));
    }
}

impl Decoding {
    const fn concerns(self, byte: u8) -> bool {
        match self {
            Self::Json => byte == b'\\',
            Self::Percent => byte == b'%',
            Self::Form => byte == b'+',
        }
    }
}

fn decode(text: &[u8], decoding: Decoding) -> View {
    let mut view = View { bytes: Vec::with_capacity(text.len()), places: Vec::with_capacity(text.len()) };
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let unit = match (decoding, rest) {
            (Decoding::Json, [b'\\', ..]) => json_escape(rest),
            (Decoding::Percent | Decoding::Form, [b'%', high, low, ..]) => {
                hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| Unit::byte(high * 16 + low, 3))
            }
            (Decoding::Form, [b'+', ..]) => Some(Unit::byte(b' ', 1)),
            _ => None,
        };
        // What is no escape stands for itself.
        let unit = unit.or_else(|| rest.first().map(|byte| Unit::byte(*byte, 1)));
        let Some(unit) = unit else { break };
        view.push(unit.bytes(), at, at + unit.length);
        at += unit.length;
    }
    view
}

/// What one escape stands for, and how long it is.
struct Unit {
    utf8: [u8; 4],
    utf8_length: usize,
    length: usize,
}

impl Unit {
    const fn byte(byte: u8, length: usize) -> Self {
        Self { utf8: [byte, 0, 0, 0], utf8_length: 1, length }
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

fn json_escape(rest: &[u8]) -> Option<Unit> {
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
    Some(Unit::byte(plain, 2))
}

fn unicode_escape(rest: &[u8]) -> Option<Unit> {
    let unit_at = |at: usize| {
        let escape = rest.get(at..at + 6)?.strip_prefix(b"\\u")?;
        escape.iter().try_fold(0, |value: u16, digit| Some(value * 16 + u16::from(hex_digit(*digit)?)))
    };
    let first = unit_at(0)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some(Unit::character(character, 6));
    }
    let pair = char::decode_utf16([first, unit_at(6)?]).next()?.ok()?;
    Some(Unit::character(pair, 12))
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Windows are shorter than this reaches.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
