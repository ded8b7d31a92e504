//! The smallest parts of the stored encoding: numbers, texts and fields. This module does not know what the
//! fields mean.
//!
//! A number is a LEB128 varint in its shortest form. A text says its form: plain, or packed as the bytes of its
//! hex digits, because most identifiers are hex and packing halves their size. A field is its tag, its length
//! and its content.

use servanda_contract::{Digest, digest::hex};

/// A text with at least this many hex digits is worth packing.
const PACKED_DIGITS_MIN: usize = 16;
/// Digits of each group of a UUID.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// The forms of a text.
const PLAIN: u64 = 0;
const HEX: u64 = 1;
const PREFIXED_HEX: u64 = 2;
const UUID: u64 = 3;

/// Bytes that cannot be decoded, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedBytes(pub(super) &'static str);

/// Appends to bytes.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
}

/// Takes bytes from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
}

impl Encoder {
    /// One with room for so many bytes, so that it need not grow.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.bytes.push(low_bits(number));
    }

    /// Writes the signed distance of a number from another.
    pub(super) fn distance(&mut self, number: u64, from: u64) {
        let distance = number.wrapping_sub(from).cast_signed();
        self.number(((distance << 1) ^ (distance >> 63)).cast_unsigned());
    }

    pub(super) fn digest(&mut self, digest: &Digest) {
        self.bytes.extend_from_slice(digest.as_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        let prefix_length = text.bytes().rposition(|byte| byte == b'_');
        let digits = prefix_length.and_then(|length| text.get(length + 1..)).unwrap_or(text);
        if is_packable(digits) {
            let form = if prefix_length.is_none() { HEX } else { PREFIXED_HEX };
            self.form(digits.len() / 2, form);
            if let Some(prefix) = prefix_length.and_then(|length| text.get(..length)) {
                self.number(prefix.len() as u64);
                self.bytes.extend_from_slice(prefix.as_bytes());
            }
            self.packed(digits);
        } else if is_uuid(text) {
            self.form(16, UUID);
            text.split('-').for_each(|group| self.packed(group));
        } else {
            self.form(text.len(), PLAIN);
            self.bytes.extend_from_slice(text.as_bytes());
        }
    }

    pub(super) fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>) {
        self.number(texts.len() as u64);
        texts.for_each(|text| self.text(text));
    }

    /// Writes a field. Its content is whatever `write` appends.
    pub(super) fn field(&mut self, tag: u8, write: impl FnOnce(&mut Self)) {
        self.byte(tag);
        let start = self.bytes.len();
        // One byte is enough for the length of nearly every field, so that its content need not be moved.
        self.byte(0);
        write(self);
        let length = (self.bytes.len() - start - 1) as u64;
        match self.bytes.get_mut(start) {
            Some(place) if length < 0x80 => *place = low_bits(length),
            _ => {
                let mut longer = Self::default();
                longer.number(length);
                self.bytes.splice(start..=start, longer.bytes);
            }
        }
    }

    /// Writes hex digits as bytes, two digits each.
    fn packed(&mut self, digits: &str) {
        let (pairs, _) = digits.as_bytes().as_chunks::<2>();
        self.bytes.extend(pairs.iter().map(|[high, low]| digit_value(*high) << 4 | digit_value(*low)));
    }

    fn form(&mut self, length: usize, form: u64) {
        self.number((length as u64) << 2 | form);
    }
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Fails if bytes are left.
    pub(super) fn end(&self) -> Result<(), MalformedBytes> {
        if self.is_at_end() { Ok(()) } else { Err(MalformedBytes("a field is longer than its content")) }
    }

    pub(super) fn byte(&mut self) -> Result<u8, MalformedBytes> {
        let (first, rest) = self.rest.split_first().ok_or(MalformedBytes("it ends too early"))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, MalformedBytes> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits != 0 && bits.leading_zeros() < shift {
                return Err(MalformedBytes("a number is too large"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                // A number has only one form, so that equal records are equal bytes.
                let is_shortest = byte != 0 || shift == 0;
                return is_shortest.then_some(number).ok_or(MalformedBytes("a number is longer than it has to be"));
            }
        }
        Err(MalformedBytes("a number is too long"))
    }

    /// Reads a number by its distance from another.
    pub(super) fn distance(&mut self, from: u64) -> Result<u64, MalformedBytes> {
        let folded = self.number()?;
        let distance = (folded >> 1) ^ (folded & 1).wrapping_neg();
        Ok(from.wrapping_add(distance))
    }

    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, MalformedBytes> {
        T::try_from(self.number()?).map_err(|_| MalformedBytes("a number is too large"))
    }

    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], MalformedBytes> {
        let length = usize::try_from(length).map_err(|_| MalformedBytes("a length is too large"))?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MalformedBytes("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], MalformedBytes> {
        self.take(BYTES as u64)?.try_into().map_err(|_| MalformedBytes("it ends too early"))
    }

    pub(super) fn digest(&mut self) -> Result<Digest, MalformedBytes> {
        self.array::<32>().map(Digest::from)
    }

    pub(super) fn text(&mut self) -> Result<String, MalformedBytes> {
        let number = self.number()?;
        let length = number >> 2;
        match number & 3 {
            PLAIN => plain(self.take(length)?).map(str::to_owned),
            HEX => self.take(length).map(hex),
            PREFIXED_HEX => {
                let prefix_length = self.number()?;
                let prefix = plain(self.take(prefix_length)?)?;
                Ok(format!("{prefix}_{}", hex(self.take(length)?)))
            }
            _ if length == 16 => Ok(hyphenated(&hex(self.take(length)?))),
            _ => Err(MalformedBytes("a UUID has the wrong length")),
        }
    }

    pub(super) fn texts<T: FromIterator<String>>(&mut self) -> Result<T, MalformedBytes> {
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }

    /// Reads the next field: its tag and its content.
    pub(super) fn field(&mut self) -> Result<(u8, Self), MalformedBytes> {
        let tag = self.byte()?;
        let length = self.number()?;
        Ok((tag, Self { rest: self.take(length)? }))
    }
}

/// FNV-1a over all bytes. It detects every change of one byte and every truncation, but does not protect
/// against malice.
pub(super) fn check_sum(bytes: &[u8]) -> [u8; 4] {
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, mix).to_le_bytes()
}

fn plain(bytes: &[u8]) -> Result<&str, MalformedBytes> {
    std::str::from_utf8(bytes).map_err(|_| MalformedBytes("a text is not UTF-8"))
}

fn low_bits(number: u64) -> u8 {
    number.to_le_bytes().first().map_or(0, |byte| byte & 0x7f)
}

/// Whether a text is an even number of lower-case hex digits, and enough of them.
fn is_packable(text: &str) -> bool {
    text.len() >= PACKED_DIGITS_MIN && text.len().is_multiple_of(2) && text.bytes().all(is_digit)
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The value of a hex digit.
fn digit_value(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 }
}

/// Whether a text is a UUID in its usual form.
fn is_uuid(text: &str) -> bool {
    const LENGTH: usize = 36;
    text.len() == LENGTH
        && text.split('-').map(str::len).eq(UUID_GROUPS)
        && text.bytes().all(|byte| byte == b'-' || is_digit(byte))
}

fn hyphenated(digits: &str) -> String {
    let mut rest = digits;
    let mut groups = Vec::new();
    for length in UUID_GROUPS {
        let (group, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        groups.push(group);
        rest = behind;
    }
    groups.join("-")
}
