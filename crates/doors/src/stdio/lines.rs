//! Lines of bytes, with a limit on their length.

use std::{io, pin::pin};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use crate::splice;

/// How much is asked for in one read.
const READ_BYTES: usize = 16 * 1024;

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    buffer: BytesMut,
    /// How much of the buffer is known to have no line break.
    searched: usize,
    line_bytes_max: usize,
    /// Whether the rest of a line that was too long is being skipped.
    skipping: bool,
    ended: bool,
}

/// A line, or where one would have been.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Without its line break.
    Whole(Bytes),
    /// It was too long. The bytes it began with.
    TooLong(Bytes),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, line_bytes_max: usize) -> Self {
        Self { input, buffer: BytesMut::new(), searched: 0, line_bytes_max, skipping: false, ended: false }
    }

    /// The next line, nothing at the end of the input. Cancel safe: what was read stays in the buffer.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(READ_BYTES);
            self.ended = self.input.read_buf(&mut self.buffer).await? == 0;
        }
    }

    fn take_line(&mut self) -> Option<Line> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let found = unsearched.iter().position(|byte| *byte == b'\n').map(|offset| self.searched + offset);
            // The end of the input ends the last line.
            let line_end = found.or_else(|| (self.ended && !self.buffer.is_empty()).then_some(self.buffer.len()));
            let Some(line_end) = line_end else {
                self.searched = self.buffer.len();
                return self.take_beginning();
            };
            let mut line = self.buffer.split_to(line_end);
            self.buffer.advance(1.min(self.buffer.len()));
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > self.line_bytes_max {
                line.truncate(READ_BYTES);
                return Some(Line::TooLong(line.freeze()));
            }
            return Some(Line::Whole(line.freeze()));
        }
    }

    /// Of a line without end in sight: drops what is skipped, and begins to skip what is too long.
    fn take_beginning(&mut self) -> Option<Line> {
        if self.skipping {
            self.buffer.clear();
            self.searched = 0;
            return None;
        }
        if self.buffer.len() <= self.line_bytes_max {
            return None;
        }
        self.skipping = true;
        self.searched = 0;
        let mut beginning = std::mem::take(&mut self.buffer);
        beginning.truncate(READ_BYTES);
        Some(Line::TooLong(beginning.freeze()))
    }
}

/// Writes messages as lines until nobody sends any more. Flushes whenever there is nothing more to write.
pub(super) async fn write(output: impl AsyncWrite, mut messages: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    let mut output = pin!(output);
    while let Some(message) = messages.recv().await {
        let mut line = splice::single_line(message);
        line.push(b'\n');
        output.write_all(&line).await?;
        if messages.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(input: &[u8], line_bytes_max: usize) -> Vec<Line> {
        let mut lines = Lines::new(input, line_bytes_max);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line);
        }
        read
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn lines_end_with_a_break_or_with_the_input() {
        assert_eq!(lines_of(b"", 4).await, []);
        assert_eq!(lines_of(b"\n", 4).await, [whole("")]);
        assert_eq!(lines_of(b"one\r\ntwo", 4).await, [whole("one\r"), whole("two")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_reported_once_and_the_next_is_read() {
        let read = lines_of(b"12345\n1234\n", 4).await;
        assert_eq!(read, [Line::TooLong(Bytes::from_static(b"12345")), whole("1234")]);

        let long = [vec![b'x'; 3 * READ_BYTES], b"\nnext\n".to_vec()].concat();
        let read = lines_of(&long, READ_BYTES).await;
        assert!(matches!(read.as_slice(), [Line::TooLong(_), Line::Whole(next)] if next == "next"), "{read:?}");
    }
}
