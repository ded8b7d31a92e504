//! Reads server-sent events from chunks, bounded: their names and data, and what is needed to resume a broken stream. It does not know what
//! an event means.

use bytes::Bytes;
use memchr::memchr2;
use servanda_mcp::lines::grow;

/// The longest event id that is kept. A stream with longer ones cannot be resumed.
const ID_BYTES_MAX: usize = 1024;
/// The longest event name that is kept. A longer one counts as empty.
const NAME_BYTES_MAX: usize = 64;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Its name; empty for an ordinary message.
    pub(crate) name: String,
    /// Its lines of data, joined.
    pub(crate) data: Bytes,
}

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
    /// The name of the event under construction.
    name: String,
    data: EventData,
    after_carriage_return: bool,
    at_start: bool,
    /// The id that becomes the last one when the next event completes.
    next_id: Option<String>,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

/// The data of the event under construction. Nearly all events have one line of data, which may be long: it is not copied.
#[derive(Debug, Default)]
enum EventData {
    #[default]
    None,
    /// The first line, and where its value begins.
    OneLine { line: Vec<u8>, value_start: usize },
    /// The values of all lines, joined.
    Joined(Vec<u8>),
}

impl EventReader {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            name: String::new(),
            data: EventData::None,
            after_carriage_return: false,
            at_start: true,
            next_id: None,
            last_id: None,
            retry_ms: None,
        }
    }

    /// The id of the last complete event that had one: where a broken stream can be resumed.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants the gateway to wait before its stream is resumed.
    pub(crate) fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Begins a new stream that continues the last one: incomplete data is forgotten, the position is not.
    pub(crate) fn resume(&mut self) {
        let (last_id, retry_ms) = (self.last_id.take(), self.retry_ms);
        *self = Self { next_id: last_id.clone(), last_id, retry_ms, ..Self::new(self.bytes_max) };
    }

    /// Reads a chunk and passes every completed event with data to `each`, in order, until `each` returns false; the rest of the chunk is
    /// then dropped.
    pub(crate) fn read(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(SseEvent) -> bool,
    ) -> Result<(), EventTooLarge> {
        if self.after_carriage_return && !chunk.is_empty() {
            self.after_carriage_return = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = memchr2(b'\n', b'\r', chunk) {
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

    /// Adds the rest of a line; an empty line completes the event.
    fn end_line(&mut self, part: &[u8]) -> Result<Option<SseEvent>, EventTooLarge> {
        append(&mut self.line, part, self.bytes_max)?;
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        }
        if text.is_empty() {
            return Ok(self.complete());
        }
        let (field, value) = match text.iter().position(|byte| *byte == b':') {
            Some(end) => {
                let (field, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
                let value = rest.get(1..).unwrap_or_default();
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (text, &[][..]),
        };
        match field {
            b"data" => {
                let value_start = line.len() - value.len();
                self.add_data(line, value_start)?;
            }
            b"event" => self.name = bounded_text(value, NAME_BYTES_MAX).unwrap_or_default(),
            // The standard says to ignore an id with a NUL in it.
            b"id" if !value.contains(&0) => {
                self.next_id = bounded_text(value, ID_BYTES_MAX).filter(|id| !id.is_empty());
            }
            b"retry" => {
                self.retry_ms = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).or(self.retry_ms);
            }
            // A comment, or an unknown field.
            _ => {}
        }
        Ok(None)
    }

    /// Completes the event. An event without data is no event, but its id counts.
    fn complete(&mut self) -> Option<SseEvent> {
        self.last_id.clone_from(&self.next_id);
        let name = std::mem::take(&mut self.name);
        let data = match std::mem::take(&mut self.data) {
            EventData::None => return None,
            EventData::OneLine { line, value_start } => Bytes::from(line).slice(value_start..),
            EventData::Joined(data) => data.into(),
        };
        Some(SseEvent { name, data })
    }

    /// Adds a line of data, which ends with its value.
    fn add_data(&mut self, line: Vec<u8>, value_start: usize) -> Result<(), EventTooLarge> {
        let mut joined = match std::mem::take(&mut self.data) {
            EventData::None => {
                self.data = EventData::OneLine { line, value_start };
                return Ok(());
            }
            EventData::OneLine { line, value_start } => line.get(value_start..).unwrap_or_default().to_vec(),
            EventData::Joined(data) => data,
        };
        append(&mut joined, b"\n", self.bytes_max)?;
        append(&mut joined, line.get(value_start..).unwrap_or_default(), self.bytes_max)?;
        self.data = EventData::Joined(joined);
        Ok(())
    }
}

impl EventData {
    /// The memory that it takes.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        match self {
            Self::None => 0,
            Self::OneLine { line, .. } => line.capacity(),
            Self::Joined(data) => data.capacity(),
        }
    }
}

fn bounded_text(value: &[u8], bytes_max: usize) -> Option<String> {
    (value.len() <= bytes_max).then(|| String::from_utf8(value.to_vec()).ok()).flatten()
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
                events.push(String::from_utf8(event.data.to_vec()).unwrap());
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

    #[test]
    fn the_place_and_the_pause_are_kept() {
        // stream, last id, pause
        let table: [(&str, Option<&str>, Option<u64>); 9] = [
            ("data: a\n\n", None, None),
            ("id: 1\ndata: a\n\n", Some("1"), None),
            ("id: 1\ndata:\n\n", Some("1"), None),
            ("id: 1\nretry: 500\n\n", Some("1"), Some(500)),
            ("id: 1\ndata: a\n\ndata: b\n\n", Some("1"), None),
            ("id: 1\ndata: a\n\nid: 2\ndata: b\n", Some("1"), None),
            ("id: 1\ndata: a\n\nid\ndata: b\n\n", None, None),
            ("id: 1\n\nid: \0\n\n", Some("1"), None),
            ("retry: 500\nretry: soon\n\n", None, Some(500)),
        ];
        for (text, last_id, retry_ms) in table {
            let mut reader = EventReader::new(64);
            reader.read(text.as_bytes(), |_| true).unwrap();
            assert_eq!((reader.last_id(), reader.retry_ms()), (last_id, retry_ms), "{text:?}");
        }
    }

    #[test]
    fn a_resumed_stream_begins_anew_but_knows_its_place() {
        let mut reader = EventReader::new(64);
        reader.read(b"id: 1\nretry: 5\ndata: a\n\nid: 2\ndata: half", |_| true).unwrap();
        reader.resume();
        let mut events = Vec::new();
        reader
            .read(b"event: message\ndata: b\n\n", |event| {
                events.push(event);
                true
            })
            .unwrap();
        assert_eq!(events, [SseEvent { name: "message".to_owned(), data: Bytes::from_static(b"b") }]);
        assert_eq!((reader.last_id(), reader.retry_ms()), (Some("1"), Some(5)));
    }

    #[test]
    fn an_id_that_is_too_long_is_no_place() {
        let mut reader = EventReader::new(10_000);
        let long = format!("id: {}\ndata: a\n\n", "x".repeat(ID_BYTES_MAX + 1));
        reader.read(long.as_bytes(), |_| true).unwrap();
        assert_eq!(reader.last_id(), None);
    }
}
