//! Shows a user the address at which they agree, and waits on this machine until their browser returns.
//! Any program on this machine can connect to the port. A request without the state of this login is rejected, and the listener keeps
//! waiting.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use reqwest::Url;
use serde_json::json;
use servanda_effects::PortFuture;
use servanda_oauth::{callback::QUERY_BYTES_MAX, grant::ConsentBrowser};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{failure::CommandFailure, screen::Screen};

/// The path that the browser returns to.
const PATH: &str = "/callback";
/// How long one connection may take to send its request.
const VISIT_MS_MAX: u64 = 5_000;
const HEAD_BYTES_MAX: usize = QUERY_BYTES_MAX + (8 << 10);

/// A port on this machine that the browser returns to.
#[derive(Debug)]
pub(super) struct LoopbackListener {
    listener: TcpListener,
    address: SocketAddr,
    timeout_ms: u64,
    screen: Screen,
}

impl LoopbackListener {
    /// Listens on the first of these ports that is free; zero means any.
    pub(super) async fn open(ports: &[u16], timeout_ms: u64, screen: Screen) -> Result<Self, CommandFailure> {
        let mut last = None;
        for port in ports {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).await {
                Ok(listener) => {
                    let address = listener.local_addr()?;
                    return Ok(Self { listener, address, timeout_ms, screen });
                }
                Err(error) => last = Some((port, error)),
            }
        }
        let (port, error) = last.ok_or_else(|| CommandFailure::failed("there is no port to listen on"))?;
        Err(CommandFailure::failed(format!("nothing can listen on port {port}: {error}"))
            .hint("choose another with --port"))
    }

    /// The URL that the browser returns to.
    pub(super) fn redirect(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    async fn wait(&self, state: &str) -> String {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else { continue };
            let visit = Duration::from_millis(VISIT_MS_MAX);
            let Ok(Some(query)) = tokio::time::timeout(visit, redirect_query(&mut stream)).await else { continue };
            let ours = form_states(&query).any(|found| found == state);
            let (status, text) = if ours {
                ("200 OK", "You may close this window. The terminal says whether it worked.\n")
            } else {
                ("400 Bad Request", "This does not belong to the login that is waiting.\n")
            };
            let _ = tokio::time::timeout(visit, say(&mut stream, status, text)).await;
            if ours {
                return query;
            }
        }
    }
}

impl ConsentBrowser for LoopbackListener {
    fn show<'a>(&'a self, address: &'a str) -> PortFuture<'a, Option<String>> {
        Box::pin(async move {
            let shown = if self.screen.json {
                self.screen.data(json!({ "open": address }))
            } else {
                self.screen.say("open this address in a browser and agree:");
                self.screen.data(address)
            };
            shown.ok()?;
            let url = Url::parse(address).ok()?;
            let state = url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned())?;
            tokio::time::timeout(Duration::from_millis(self.timeout_ms), self.wait(&state)).await.ok()
        })
    }
}

/// The query of a request for the callback path; none for any other request.
async fn redirect_query(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut chunk = [0; 2_048];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(chunk.get(..read)?);
        if head.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if (method, path) != ("GET", PATH) {
        say(stream, "404 Not Found", "There is nothing here.\n").await;
        return None;
    }
    Some(query.to_owned())
}

async fn say(stream: &mut TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn form_states(query: &str) -> impl Iterator<Item = String> {
    let url = Url::parse(&format!("http://localhost/?{query}"));
    let states: Vec<String> = url
        .iter()
        .flat_map(Url::query_pairs)
        .filter(|(name, _)| name == "state")
        .map(|(_, value)| value.into_owned())
        .collect();
    states.into_iter()
}
