//! Reads server-sent events from chunks, bounded. Only `data` matters to MCP: names, ids and retry hints are skipped.

use crate::frame::grow;

/// An event was longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// The events read so far and the one that is being read.
///
/// INVARIANT: neither the line nor the event under construction takes more than `bytes_max`.
#[derive(Debug)]
pub(crate) struct EventReader {
    bytes_max: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_carriage_return: bool,
    at_start: bool,
}

impl EventReader {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_carriage_return: false,
            at_start: true,
        }
    }

    /// Takes a chunk and hands the data of every event that it completes to `each`, in order, until `each` says stop by
    /// returning false; the rest of the chunk is then dropped.
    pub(crate) fn read(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(Vec<u8>) -> bool,
    ) -> Result<(), EventTooLarge> {
        if self.after_carriage_return && !chunk.is_empty() {
            self.after_carriage_return = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (part, rest) = chunk.split_at_checked(end).unwrap_or((chunk, &[]));
            chunk = if let Some(rest) = rest.strip_prefix(b"\r\n") {
                rest
            } else {
                self.after_carriage_return = rest == b"\r";
                rest.get(1..).unwrap_or_default()
            };
            if let Some(event) = self.end_line(part)?
                && !each(event)
            {
                return Ok(());
            }
        }
        append(&mut self.line, chunk, self.bytes_max)
    }

    /// Takes the rest of a line; an empty line completes the event.
    fn end_line(&mut self, part: &[u8]) -> Result<Option<Vec<u8>>, EventTooLarge> {
        append(&mut self.line, part, self.bytes_max)?;
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        }
        if text.is_empty() {
            return Ok(std::mem::take(&mut self.has_data).then(|| std::mem::take(&mut self.data)));
        }
        let value = match text.strip_prefix(b"data") {
            Some([]) => &[][..],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            // A comment, or another field.
            _ => return Ok(None),
        };
        if self.has_data {
            append(&mut self.data, b"\n", self.bytes_max)?;
        }
        self.has_data = true;
        append(&mut self.data, value, self.bytes_max)?;
        Ok(None)
    }
}

fn append(bytes: &mut Vec<u8>, part: &[u8], bytes_max: usize) -> Result<(), EventTooLarge> {
    let length = bytes.len() + part.len();
    if length > bytes_max {
        return Err(EventTooLarge);
    }
    grow(bytes, length, bytes_max);
    bytes.extend_from_slice(part);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_in_chunks(text: &[u8], chunk_bytes: usize, bytes_max: usize) -> Result<Vec<String>, EventTooLarge> {
        let mut reader = EventReader::new(bytes_max);
        let mut events = Vec::new();
        for chunk in text.chunks(chunk_bytes) {
            reader.read(chunk, |event| {
                events.push(String::from_utf8(event).unwrap());
                true
            })?;
            assert!(reader.line.capacity() <= bytes_max && reader.data.capacity() <= bytes_max);
        }
        Ok(events)
    }

    #[test]
    fn events_are_read_whatever_the_chunks_and_line_ends() {
        let table: [(&str, &[&str]); 11] = [
            ("data: a\n\n", &["a"]),
            ("data:a\r\n\r\ndata:b\r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("data\n\n", &[""]),
            ("data: \n\n", &[""]),
            (": keep-alive\n\ndata: a\n\n", &["a"]),
            ("event: message\nid: 7\nretry: 10\ndata: a\n\n", &["a"]),
            ("\u{feff}data: a\n\n", &["a"]),
            ("database: x\n\ndata:  b\n\n", &[" b"]),
            ("data: unfinished\n", &[]),
        ];
        for (text, expected) in table {
            for chunk_bytes in [1, 2, 3, 7, 1_000] {
                let events = read_in_chunks(text.as_bytes(), chunk_bytes, 64).unwrap();
                assert_eq!(events, expected, "{text:?} in chunks of {chunk_bytes}");
            }
        }
    }

    #[test]
    fn an_event_is_bounded_in_one_line_and_in_many() {
        assert_eq!(read_in_chunks(&[b'x'; 1_000], 10, 64), Err(EventTooLarge));
        let many = "data: 12345678\n".repeat(10);
        assert_eq!(read_in_chunks(many.as_bytes(), 10, 64), Err(EventTooLarge));
    }

    #[test]
    fn reading_stops_when_told() {
        let mut reader = EventReader::new(64);
        let mut seen = 0;
        let outcome = reader.read(b"data: a\n\ndata: b\n\n", |_| {
            seen += 1;
            false
        });
        assert_eq!((outcome, seen), (Ok(()), 1));
    }
}
