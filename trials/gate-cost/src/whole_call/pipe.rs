//! Messages of HTTP/1.1 on a pipe, for both ends that are not the gateway: read whole, with no more work than it takes to find their ends,
//! because that work is counted too.

use std::{ops::Range, str};

use tokio::io::{AsyncReadExt as _, DuplexStream};

/// What a pipe holds in each direction.
pub(super) const PIPE_BYTES: usize = 64 * 1024;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Where the parts of a message are in the bytes that were read.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) head: Range<usize>,
    pub(super) body: Range<usize>,
}

/// Reads the next message; none where the other end has closed the pipe. Nobody here sends a message before the last was answered.
pub(super) async fn read(pipe: &mut DuplexStream, buffer: &mut Vec<u8>) -> Option<Parts> {
    buffer.clear();
    loop {
        if let Some(parts) = parts(buffer) {
            return Some(parts);
        }
        buffer.reserve(1024);
        if pipe.read_buf(buffer).await.expect("a pipe in memory") == 0 {
            return None;
        }
    }
}

fn parts(bytes: &[u8]) -> Option<Parts> {
    let head_bytes = bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END)?;
    let begin = head_bytes + HEAD_END.len();
    let head = text(&bytes[..head_bytes]);
    let length = field(head, "content-length").map_or(0, |length| length.parse().expect("a length"));
    (bytes.len() >= begin + length).then_some(Parts { head: 0..head_bytes, body: begin..begin + length })
}

/// A field of a head.
pub(super) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// What is sent here is text.
pub(super) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("text")
}
