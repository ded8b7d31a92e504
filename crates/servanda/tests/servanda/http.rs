//! An HTTP client small enough to trust: one connection per request, bounded reads, and every byte of the answer kept.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::{sightings::saw, world::PATIENCE};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

/// An answer whose body is still being read.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    stream: BufReader<TcpStream>,
    /// Read from the body and not yet returned.
    waiting: String,
}

impl Question {
    pub(crate) fn post(body: &Value) -> Self {
        let headers = vec![
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        Self { method: "POST", path: "/mcp".to_owned(), headers, body: body.to_string() }
    }

    pub(crate) fn get() -> Self {
        let headers = vec![("accept", "text/event-stream".to_owned())];
        Self { method: "GET", path: "/mcp".to_owned(), headers, body: String::new() }
    }

    /// A request for a page that is not an MCP endpoint.
    pub(crate) fn page(path: &str) -> Self {
        Self { path: path.to_owned(), headers: Vec::new(), ..Self::get() }
    }

    /// A form.
    pub(crate) fn form(path: &str, parameters: &[(&str, &str)]) -> Self {
        let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
        let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let headers = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
        Self { method: "POST", path: path.to_owned(), headers, body: pairs.join("&") }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sends it and reads the answer's head.
    pub(crate) fn ask(&self, address: SocketAddr) -> Exchange {
        Exchange::begin(self.send(address))
    }

    /// Sends it.
    pub(crate) fn send(&self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut head = format!("{} {} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.extend(["content-length: ", &self.body.len().to_string(), "\r\n\r\n", &self.body]);
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }
}

impl Exchange {
    fn begin(stream: TcpStream) -> Self {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {line:?}")).parse().unwrap();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.insert(name.to_lowercase(), value.trim().to_owned()),
                None => break,
            };
        }
        Self { status, headers, stream, waiting: String::new() }
    }

    /// The first message of the answer, in either form: a slow answer comes as a stream.
    pub(crate) fn answer(mut self) -> String {
        let streams = self.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        if streams { self.next_event().unwrap_or_default() } else { self.text() }
    }

    /// The whole body.
    pub(crate) fn text(mut self) -> String {
        while self.read_more() {}
        saw("an answer", format!("{} {}", self.status, self.waiting));
        self.waiting
    }

    /// The next message of an event stream as it was written; none at its end. Comments are skipped, and so are empty events, which only
    /// set a position to resume at.
    pub(crate) fn next_event(&mut self) -> Option<String> {
        loop {
            if let Some((frame, rest)) = self.waiting.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.waiting = rest;
                let known =
                    |line: &&str| [":", "id: ", "retry: ", "data: "].iter().any(|known| line.starts_with(known));
                assert!(frame.lines().all(|line| known(&line)), "not an event: {frame}");
                let message = frame.lines().find_map(|line| line.strip_prefix("data: "));
                if let Some(message) = message.filter(|message| !message.is_empty()) {
                    saw("a message of a stream", message);
                    return Some(message.to_owned());
                }
            } else if !self.read_more() {
                return None;
            }
        }
    }

    /// Reads one more piece of the body; returns whether there was one.
    fn read_more(&mut self) -> bool {
        if self.headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
            return self.read_chunk();
        }
        let length = self.headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        self.waiting.push_str(&String::from_utf8(body).unwrap());
        self.headers.remove("content-length");
        false
    }

    fn read_chunk(&mut self) -> bool {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; length];
        self.stream.read_exact(&mut chunk).unwrap();
        self.waiting.push_str(&String::from_utf8(chunk).unwrap());
        let mut end = String::new();
        self.stream.read_line(&mut end).unwrap();
        length > 0
    }
}
