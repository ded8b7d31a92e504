//! Lines of bytes with a bounded length: on standard streams a message is one line. A longer line is discarded while it
//! is read; only its beginning and its end are kept, so that its sender, or the request that waits for it, can be told.
//! Deliberately not here: what a line means, and where the bytes come from.

use std::ops::Range;

use bytes::Bytes;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many bytes of each end of a discarded line are kept.
pub const EDGE_BYTES_MAX: usize = 1024;

/// A line, or the edges of one that was too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundedLine {
    /// Without its line end.
    Whole(Bytes),
    /// Longer than allowed.
    Oversized {
        /// Its first bytes.
        prefix: Vec<u8>,
        /// Its last bytes.
        tail: Vec<u8>,
    },
}

/// Finds the lines in an input that is read chunk by chunk: while [`LineSplitter::next_line`] finds none and the input
/// has not ended, read into [`LineSplitter::room`] and report with [`LineSplitter::filled`] how much was read. Nothing
/// is lost if reading is cancelled in between.
#[derive(Debug)]
pub struct LineSplitter {
    chunk: Box<[u8]>,
    /// The unread part of `chunk`.
    unread: Range<usize>,
    line: PartialLine,
    ended: bool,
}

/// The line that is being read.
///
/// INVARIANT: `bytes` never has more capacity than `bytes_max`, so the other side does not decide how much memory it
/// takes here.
#[derive(Debug)]
struct PartialLine {
    bytes_max: usize,
    bytes: Vec<u8>,
    /// The last bytes, once the line is too long; `bytes` then holds the first ones.
    tail: Option<Vec<u8>>,
}

impl LineSplitter {
    /// Lines of at most `bytes_max` bytes, without their line ends.
    pub fn new(bytes_max: usize) -> Self {
        let line = PartialLine { bytes_max, bytes: Vec::new(), tail: None };
        Self { chunk: vec![0; CHUNK_BYTES].into_boxed_slice(), unread: 0..0, line, ended: false }
    }

    /// The next line; `None` if more has to be read, or if the input has ended. A last line without a line end counts.
    pub fn next_line(&mut self) -> Option<BoundedLine> {
        let unread = self.chunk.get(self.unread.clone()).unwrap_or_default();
        if let Some(length) = unread.iter().position(|byte| *byte == b'\n') {
            let line = self.line.finish_with(unread.get(..length).unwrap_or_default());
            self.unread.start += length + 1;
            return Some(line);
        }
        self.line.append(unread);
        self.unread = 0..0;
        (self.ended && !self.line.is_empty()).then(|| self.line.finish_with(&[]))
    }

    /// The buffer for the next bytes, once [`LineSplitter::next_line`] has found no line.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.chunk
    }

    /// Reports that `count` bytes were read into [`LineSplitter::room`]; zero means that the input has ended.
    pub fn filled(&mut self, count: usize) {
        self.unread = 0..count.min(self.chunk.len());
        self.ended |= count == 0;
    }

    /// Whether the input has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

impl PartialLine {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.tail.is_none()
    }

    fn append(&mut self, part: &[u8]) {
        if self.tail.is_none() {
            let length = self.bytes.len() + part.len();
            if length <= self.bytes_max {
                grow(&mut self.bytes, length, self.bytes_max);
                self.bytes.extend_from_slice(part);
                return;
            }
            self.give_up();
            let room = EDGE_BYTES_MAX.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(part.get(..room).unwrap_or(part));
        }
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(last(part, EDGE_BYTES_MAX));
            let surplus = tail.len().saturating_sub(EDGE_BYTES_MAX);
            tail.drain(..surplus);
        }
    }

    /// Keeps the edges of the line so far and frees the rest.
    fn give_up(&mut self) {
        self.tail = Some(last(&self.bytes, EDGE_BYTES_MAX).to_vec());
        self.bytes.truncate(EDGE_BYTES_MAX);
        self.bytes.shrink_to_fit();
    }

    fn finish_with(&mut self, part: &[u8]) -> BoundedLine {
        // Most lines are within one chunk: one copy of the right size.
        if self.is_empty() && part.len() <= self.bytes_max {
            return BoundedLine::Whole(Bytes::copy_from_slice(part));
        }
        self.append(part);
        let bytes = std::mem::take(&mut self.bytes);
        match self.tail.take() {
            None => BoundedLine::Whole(Bytes::from(bytes)),
            Some(tail) => BoundedLine::Oversized { prefix: bytes, tail },
        }
    }
}

/// Makes room for `length` bytes: doubling, but never beyond `bytes_max`. The caller has checked `length <= bytes_max`.
pub fn grow(bytes: &mut Vec<u8>, length: usize, bytes_max: usize) {
    if length > bytes.capacity() {
        let capacity = bytes.capacity().saturating_mul(2).clamp(length, bytes_max.max(length));
        bytes.reserve_exact(capacity - bytes.len());
    }
}

/// Replaces a message's line ends by spaces: on standard streams a message is a line, and in an event stream a line end
/// ends the field. In JSON a raw line end can only be between tokens, so a space means the same.
pub fn on_one_line(mut message: Vec<u8>) -> Vec<u8> {
    blank_line_ends(&mut message);
    message
}

/// Appends JSON on one line.
pub(crate) fn push_on_one_line(bytes: &mut Vec<u8>, json: &[u8]) {
    let start = bytes.len();
    bytes.extend_from_slice(json);
    blank_line_ends(bytes.get_mut(start..).unwrap_or_default());
}

fn blank_line_ends(bytes: &mut [u8]) {
    for byte in bytes {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

fn last(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(count)..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all lines, at most `chunk_bytes` at a time.
    fn read_all(mut input: &[u8], bytes_max: usize, chunk_bytes: usize) -> Vec<BoundedLine> {
        let mut lines = LineSplitter::new(bytes_max);
        let mut read = Vec::new();
        loop {
            match lines.next_line() {
                Some(line) => read.push(line),
                None if lines.is_ended() => return read,
                None => {
                    let room = lines.room();
                    let (part, rest) = input.split_at(input.len().min(chunk_bytes).min(room.len()));
                    room[..part.len()].copy_from_slice(part);
                    lines.filled(part.len());
                    input = rest;
                }
            }
        }
    }

    fn whole(text: &str) -> BoundedLine {
        BoundedLine::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn lines_end_with_a_line_end_or_with_the_input() {
        let table: [(&str, Vec<BoundedLine>); 7] = [
            ("", vec![]),
            ("\n", vec![whole("")]),
            ("a\nb\n", vec![whole("a"), whole("b")]),
            ("a\nb", vec![whole("a"), whole("b")]),
            ("\n\n", vec![whole(""), whole("")]),
            ("a\r\n", vec![whole("a\r")]),
            ("12345678\n", vec![whole("12345678")]),
        ];
        for (input, expected) in table {
            for chunk_bytes in [1, 3, CHUNK_BYTES] {
                assert_eq!(read_all(input.as_bytes(), 8, chunk_bytes), expected, "{input:?} by {chunk_bytes}");
            }
        }
    }

    #[test]
    fn a_long_line_leaves_its_edges_and_the_next_line_is_whole() {
        let long = format!("{}{}{}", "a".repeat(2_000), "b".repeat(500_000), "c".repeat(2_000));
        let expected = BoundedLine::Oversized { prefix: vec![b'a'; EDGE_BYTES_MAX], tail: vec![b'c'; EDGE_BYTES_MAX] };
        for chunk_bytes in [1_000, CHUNK_BYTES] {
            let lines = read_all(format!("{long}\nnext\n{long}").as_bytes(), 10_000, chunk_bytes);
            assert_eq!(lines, [expected.clone(), whole("next"), expected.clone()], "by {chunk_bytes}");
        }
    }

    #[test]
    fn one_byte_too_many_is_too_long() {
        for chunk_bytes in [1, CHUNK_BYTES] {
            let lines = read_all(b"123456789\nnext\n", 8, chunk_bytes);
            let expected = BoundedLine::Oversized { prefix: b"123456789".to_vec(), tail: b"123456789".to_vec() };
            assert_eq!(lines, [expected, whole("next")]);
        }
    }

    #[test]
    fn the_buffer_never_outgrows_the_limit() {
        let bytes_max = 300_000;
        for part_bytes in [1_000, 4_096, 65_536] {
            let mut line = PartialLine { bytes_max, bytes: Vec::new(), tail: None };
            let part = vec![b'x'; part_bytes];
            for _ in 0..(100 * 1024 * 1024 / part_bytes).min(5_000) {
                line.append(&part);
                assert!(line.bytes.capacity() <= bytes_max, "{}", line.bytes.capacity());
                let tail_capacity = line.tail.as_ref().map_or(0, Vec::capacity);
                assert!(tail_capacity <= 4 * EDGE_BYTES_MAX, "{tail_capacity}");
            }
            assert!(matches!(line.finish_with(&[]), BoundedLine::Oversized { .. }));
        }
    }

    #[test]
    fn line_ends_become_spaces() {
        assert_eq!(on_one_line(b"{\r\n\"a\":1}\n".to_vec()), b"{  \"a\":1} ");
        let mut bytes = b"a\n".to_vec();
        push_on_one_line(&mut bytes, b"b\n");
        assert_eq!(bytes, b"a\nb ", "what was there stays");
    }
}
