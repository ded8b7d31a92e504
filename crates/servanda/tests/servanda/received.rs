//! A request that the product sent, as a server on this machine receives it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
};

/// A request: its first line and headers, and its body.
pub(crate) struct Received {
    head: Vec<String>,
    pub(crate) body: String,
}

impl Received {
    /// Reads a request; none if it is not one.
    pub(crate) fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let mut received = Self { head, body: String::new() };
        let mut body = vec![0; received.header("content-length")?.parse().unwrap()];
        reader.read_exact(&mut body).ok()?;
        received.body = String::from_utf8(body).unwrap();
        Some(received)
    }

    /// Method, path and version.
    pub(crate) fn line(&self) -> Option<&str> {
        self.head.first().map(String::as_str)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let of_name = |line: &&String| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
        self.head.iter().find(of_name).and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned())
    }
}
