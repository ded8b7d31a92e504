//! Reads the bounded lines of one client, and writes messages as lines. [`servanda_mcp::lines`] defines what a line is,
//! and how long it may be.

use std::{io, pin::pin};

use servanda_mcp::lines::{BoundedLine, LineSplitter, on_one_line};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

/// Reads bounded lines.
#[derive(Debug)]
pub(super) struct ClientLineReader<R> {
    input: R,
    lines: LineSplitter,
}

impl<R: AsyncRead + Unpin> ClientLineReader<R> {
    pub(super) fn new(input: R, line_bytes_max: usize) -> Self {
        Self { input, lines: LineSplitter::new(line_bytes_max) }
    }

    /// The next line; `None` at the end. A last line without a line end counts. Cancel safe: what was read is kept.
    pub(super) async fn next(&mut self) -> io::Result<Option<BoundedLine>> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(Some(line));
            }
            if self.lines.is_ended() {
                return Ok(None);
            }
            let count = self.input.read(self.lines.room()).await?;
            self.lines.filled(count);
        }
    }
}

/// Writes messages as lines until all senders are gone. Flushes whenever there is nothing more to write.
pub(super) async fn write(output: impl AsyncWrite, mut messages: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    let mut output = pin!(output);
    while let Some(message) = messages.recv().await {
        let mut line = on_one_line(message);
        line.push(b'\n');
        output.write_all(&line).await?;
        if messages.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}
