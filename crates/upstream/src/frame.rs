//! Reads lines whose length is bounded. A longer line is discarded while it is read: only its beginning and its end stay,
//! so that whoever waits for it can be told. What a line means is not known here.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How much of each end of a discarded line is kept.
pub(crate) const EDGE_BYTES_MAX: usize = 1024;

/// A line, or what is left of one that was too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
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

/// Reads bounded lines. Not cancel safe: dropping [`LineReader::next`] may lose a line.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    source: R,
    chunk: Box<[u8]>,
    /// The unread part of `chunk`.
    unread: std::ops::Range<usize>,
    line: PartialLine,
}

/// The line that is being read.
///
/// INVARIANT: `bytes` never has more capacity than `bytes_max`, so no server decides how much memory it takes here.
#[derive(Debug)]
struct PartialLine {
    bytes_max: usize,
    bytes: Vec<u8>,
    /// The last bytes, once the line is too long; `bytes` then holds the first ones.
    tail: Option<Vec<u8>>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(source: R, bytes_max: usize) -> Self {
        let line = PartialLine { bytes_max, bytes: Vec::new(), tail: None };
        Self { source, chunk: vec![0; CHUNK_BYTES].into_boxed_slice(), unread: 0..0, line }
    }

    /// The next line; none at the end. A last line without a line end counts.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let unread = self.chunk.get(self.unread.clone()).unwrap_or_default();
            if let Some(length) = unread.iter().position(|byte| *byte == b'\n') {
                let line = self.line.finish_with(unread.get(..length).unwrap_or_default());
                self.unread.start += length + 1;
                return Ok(Some(line));
            }
            self.line.append(unread);
            self.unread = 0..self.source.read(&mut self.chunk).await?;
            if self.unread.is_empty() {
                return Ok(if self.line.is_empty() { None } else { Some(self.line.finish_with(&[])) });
            }
        }
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

    /// Keeps the edges of what there is so far and frees the rest.
    fn give_up(&mut self) {
        self.tail = Some(last(&self.bytes, EDGE_BYTES_MAX).to_vec());
        self.bytes.truncate(EDGE_BYTES_MAX);
        self.bytes.shrink_to_fit();
    }

    fn finish_with(&mut self, part: &[u8]) -> Line {
        // Most lines lie within one chunk: one copy of the right size.
        if self.is_empty() && part.len() <= self.bytes_max {
            return Line::Whole(Bytes::copy_from_slice(part));
        }
        self.append(part);
        let bytes = std::mem::take(&mut self.bytes);
        match self.tail.take() {
            None => Line::Whole(Bytes::from(bytes)),
            Some(tail) => Line::Oversized { prefix: bytes, tail },
        }
    }
}

/// Makes room for `length` bytes: doubling, but never beyond `bytes_max`. The caller has checked `length <= bytes_max`.
pub(crate) fn grow(bytes: &mut Vec<u8>, length: usize, bytes_max: usize) {
    if length > bytes.capacity() {
        let capacity = bytes.capacity().saturating_mul(2).clamp(length, bytes_max.max(length));
        bytes.reserve_exact(capacity - bytes.len());
    }
}

fn last(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(count)..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(input: &[u8], bytes_max: usize) -> Vec<Line> {
        let mut reader = LineReader::new(input, bytes_max);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        lines
    }

    fn whole(text: &str) -> Line {
        Line::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[tokio::test]
    async fn lines_are_split() {
        let table: [(&str, Vec<Line>); 6] = [
            ("", vec![]),
            ("a\nb\n", vec![whole("a"), whole("b")]),
            ("a\nb", vec![whole("a"), whole("b")]),
            ("\n\n", vec![whole(""), whole("")]),
            ("a\r\n", vec![whole("a\r")]),
            ("12345678\n", vec![whole("12345678")]),
        ];
        for (input, expected) in table {
            assert_eq!(read_all(input.as_bytes(), 8).await, expected, "{input:?}");
        }
    }

    #[tokio::test]
    async fn a_long_line_leaves_its_edges_and_the_next_line_is_whole() {
        let long = format!("{}{}{}", "a".repeat(2_000), "b".repeat(500_000), "c".repeat(2_000));
        let lines = read_all(format!("{long}\nnext\n").as_bytes(), 10_000).await;
        let expected = Line::Oversized { prefix: vec![b'a'; EDGE_BYTES_MAX], tail: vec![b'c'; EDGE_BYTES_MAX] };
        assert_eq!(lines, vec![expected, whole("next")]);
    }

    #[tokio::test]
    async fn one_byte_too_many_is_too_long() {
        let lines = read_all(b"123456789\nnext\n", 8).await;
        let expected = Line::Oversized { prefix: b"123456789".to_vec(), tail: b"123456789".to_vec() };
        assert_eq!(lines, vec![expected, whole("next")]);
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
            assert!(matches!(line.finish_with(&[]), Line::Oversized { .. }));
        }
    }
}
