//! Finds out whether a gateway listens at an address, and whether it belongs to a configuration. A gateway reports a digest of its file's
//! path, so that `connect` does not send a client to another project's gateway. This is no proof, because any program can repeat the
//! digest; it helps people who run several gateways on one machine.

use std::{net::SocketAddr, path::Path, time::Duration};

use servanda_contract::{Digest, digest::DigestDomain};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// How long it has to answer, and how long its answer may be.
const ANSWER_MS_MAX: u64 = 2_000;
const ANSWER_BYTES_MAX: u64 = 4_096;

/// What answers at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListeningGateway {
    /// Nothing, or something that is no gateway.
    NoGateway,
    /// The gateway of this configuration, or one that does not say which configuration it has.
    Ours,
    /// The gateway of another configuration.
    Another,
}

/// What a gateway with this configuration file reports.
pub(crate) fn configuration(file: &Path) -> String {
    let full = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    Digest::compute(DigestDomain::Configuration, &[full.as_os_str().as_encoded_bytes()]).short()
}

/// Asks whatever listens at the address.
pub(crate) async fn ask(address: SocketAddr, file: &Path) -> ListeningGateway {
    let asked = tokio::time::timeout(Duration::from_millis(ANSWER_MS_MAX), answer(address)).await;
    let Some(answer) = asked.ok().flatten() else { return ListeningGateway::NoGateway };
    // Gateways of earlier versions answer `ok` or `{"status":"alive"}`. A gateway that has lost its store is a gateway too.
    let was_ours = answer.ends_with(r#"{"status":"alive"}"#) || answer.ends_with("ok");
    let is_gateway = answer.contains(r#""checks":{"process":"#) || (answer.starts_with("HTTP/1.1 200") && was_ours);
    match (is_gateway, answer.split_once(r#""configuration":""#)) {
        (false, _) => ListeningGateway::NoGateway,
        (true, Some((_, said))) if !said.starts_with(&configuration(file)) => ListeningGateway::Another,
        (true, _) => ListeningGateway::Ours,
    }
}

async fn answer(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}
