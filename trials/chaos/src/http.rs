//! Minimal HTTP/1.1 for both sides of a trial, written by hand: a library would repair what the trial breaks on purpose.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

/// More than any message of a trial has.
const BODY_BYTES_MAX: usize = 64 << 20;

/// A request or a response.
#[derive(Debug)]
pub struct Message {
    /// The first line.
    pub start: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// A client's connection, kept open between questions.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Wire {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request and waits at most `patience` for the whole answer. A connection that failed is not used again.
    pub async fn ask(&mut self, request: &[u8], patience: Duration) -> io::Result<Message> {
        let asked = timeout(patience, self.exchange(request)).await;
        let answer = asked.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")));
        if !matches!(&answer, Ok(message) if message.header("connection") != Some("close")) {
            self.stream = None;
        }
        answer
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Message> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            BufReader::new(stream)
        };
        stream.write_all(request).await?;
        let message = read_message(&mut stream, true).await?;
        self.stream = Some(stream);
        message.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer"))
    }
}

/// A request with a JSON body.
pub fn post(path: &str, address: SocketAddr, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    text.push_str(&lines(headers));
    (text + &format!("content-length: {}\r\n\r\n{body}", body.len())).into_bytes()
}

/// A request for a page.
pub fn page(path: &str, address: SocketAddr, headers: &[(&str, &str)]) -> Vec<u8> {
    (format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n") + &lines(headers) + "\r\n").into_bytes()
}

/// A request with a form.
pub fn form(path: &str, address: SocketAddr, headers: &[(&str, &str)], fields: &[(String, String)]) -> Vec<u8> {
    let escaped = |text: &str| text.bytes().fold(String::new(), |escaped, byte| escaped + &format!("%{byte:02X}"));
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    let (body, kind) = (pairs.collect::<Vec<_>>().join("&"), "application/x-www-form-urlencoded");
    let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {kind}\r\n") + &lines(headers);
    (head + &format!("content-length: {}\r\n\r\n{body}", body.len())).into_bytes()
}

fn lines(headers: &[(&str, &str)]) -> String {
    headers.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]).collect()
}

/// Reads one message; none at a clean end.
pub async fn read_message(stream: &mut BufReader<TcpStream>, is_response: bool) -> io::Result<Option<Message>> {
    let Some(start) = read_line(stream).await? else { return Ok(None) };
    let mut message = Message { start, headers: Vec::new(), body: Vec::new() };
    loop {
        let line = read_line(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            message.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let chunked = message.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
    let length = message.header("content-length").and_then(|length| length.parse::<usize>().ok());
    match (chunked, length) {
        (true, _) => message.body = read_chunks(stream).await?,
        (false, Some(length)) if length <= BODY_BYTES_MAX => {
            message.body.resize(length, 0);
            stream.read_exact(&mut message.body).await?;
        }
        (false, Some(_)) => return Err(io::ErrorKind::InvalidData.into()),
        (false, None) if is_response && ![202, 204].contains(&message.status()) => {
            stream.read_to_end(&mut message.body).await?;
        }
        (false, None) => {}
    }
    Ok(Some(message))
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
}

async fn read_chunks(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = line.split(';').next().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let size = size.filter(|size| body.len() + size <= BODY_BYTES_MAX).ok_or(io::ErrorKind::InvalidData)?;
        let end = body.len() + size;
        body.resize(end, 0);
        stream.read_exact(&mut body[end - size..]).await?;
        read_line(stream).await?;
        if size == 0 {
            return Ok(body);
        }
    }
}
