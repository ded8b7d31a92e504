//! Reads the lines that a child writes. [`servanda_mcp::lines`] knows what a line is and how long it may be.

use std::io;

use servanda_mcp::lines::{BoundedLine, LineSplitter};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads bounded lines.
#[derive(Debug)]
pub(super) struct ChildLineReader<R> {
    source: R,
    lines: LineSplitter,
}

impl<R: AsyncRead + Unpin> ChildLineReader<R> {
    pub(super) fn new(source: R, bytes_max: usize) -> Self {
        Self { source, lines: LineSplitter::new(bytes_max) }
    }

    /// The next line; none at the end. A last line without a line end counts. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<BoundedLine>> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(Some(line));
            }
            if self.lines.is_ended() {
                return Ok(None);
            }
            let count = self.source.read(self.lines.room()).await?;
            self.lines.filled(count);
        }
    }
}
