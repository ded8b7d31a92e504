//! Makes a connection: name, TCP, TLS, and the version of HTTP that TLS agreed on. All of it within one time. To a server in this
//! process: a pipe in memory.

use std::{io, net::SocketAddr, time::Duration};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{DuplexStream, duplex},
    net::{TcpStream, lookup_host},
    sync::mpsc,
};

use super::{
    error::{HttpError, chain},
    inline::InlineConnection,
    origin::Origin,
    pool::OriginConnection,
    tls::Tls,
    transport::OriginStream,
};

/// How long the addresses of the first family are tried alone (RFC 8305 calls it the connection attempt delay).
const OTHER_FAMILY_AFTER_MS: u64 = 300;
/// How a peer that is gone without a word is noticed on a stream that is silent for long.
const KEEPALIVE_MS: u64 = 15_000;
const KEEPALIVE_PROBES_MAX: u32 = 3;
/// The same where something was sent and the peer does not acknowledge it.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MS_MAX: u64 = 30_000;

/// What a pipe in memory holds in each direction before its writer waits.
const PIPE_BYTES: usize = 64 * 1024;

/// Where a server in this process takes its ends of connections. One that finds it full is refused.
pub type InProcessListener = mpsc::Sender<DuplexStream>;

/// Makes a connection to a server in this process.
pub(super) async fn dial_in_process(listener: &InProcessListener) -> Result<OriginConnection, HttpError> {
    let (ours, servers) = duplex(PIPE_BYTES);
    let refused = |_| HttpError::NotConnected("the server in this process takes no connection".to_owned());
    listener.try_send(servers).map_err(refused)?;
    inline(OriginStream::InProcess(ours)).await
}

/// Makes a connection. Cancel safe: nothing but the connection is lost.
pub(super) async fn dial(origin: &Origin, tls: Option<&Tls>, ms_max: u64) -> Result<OriginConnection, HttpError> {
    let dialing = async {
        let tcp = connect(origin).await?;
        let Some(tls) = tls else { return inline(OriginStream::Plain(tcp)).await };
        let not_agreed = |error: io::Error| HttpError::NotConnected(format!("TLS handshake: {}", chain(&error)));
        let stream = tls.connect(tcp).await.map_err(not_agreed)?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let transport = OriginStream::Encrypted(Box::new(stream));
        if is_http2 { shared(transport).await } else { inline(transport).await }
    };
    let late = || HttpError::NotConnected(format!("no connection was made within {ms_max} ms"));
    tokio::time::timeout(Duration::from_millis(ms_max), dialing).await.map_err(|_| late())?
}

async fn inline(transport: OriginStream) -> Result<OriginConnection, HttpError> {
    let (sender, connection) = http1::handshake(TokioIo::new(transport)).await.map_err(|error| not_begun(&error))?;
    Ok(OriginConnection::Inline(Box::new(InlineConnection::new(sender, connection))))
}

async fn shared(transport: OriginStream) -> Result<OriginConnection, HttpError> {
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(transport)).await.map_err(|error| not_begun(&error))?;
    // It ends when the last sender and the last stream are gone, or with the server.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = chain(&error), "an HTTP/2 connection ended");
        }
    });
    Ok(OriginConnection::Shared(sender))
}

fn not_begun(error: &hyper::Error) -> HttpError {
    HttpError::NotConnected(chain(error))
}

/// The first address that takes a connection, in the order of the resolver; the other family joins in after a while.
async fn connect(origin: &Origin) -> Result<TcpStream, HttpError> {
    let unknown = |error: io::Error| HttpError::NotConnected(format!("dns error: {error}"));
    let addresses: Vec<SocketAddr> = lookup_host((origin.host(), origin.port())).await.map_err(unknown)?.collect();
    let first_is_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (preferred, others): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == first_is_v4);
    let stream = if others.is_empty() { first_of(&preferred).await } else { race(&preferred, &others).await };
    let stream = stream.map_err(|error| HttpError::NotConnected(format!("tcp connect error: {error}")))?;
    let _ = prepare(&stream);
    Ok(stream)
}

async fn first_of(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn race(preferred: &[SocketAddr], others: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut first = std::pin::pin!(first_of(preferred));
    match tokio::time::timeout(Duration::from_millis(OTHER_FAMILY_AFTER_MS), &mut first).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(_)) => return first_of(others).await,
        Err(_) => {}
    }
    let mut second = std::pin::pin!(first_of(others));
    tokio::select! {
        stream = &mut first => match stream {
            Ok(stream) => Ok(stream),
            Err(_) => second.await,
        },
        stream = &mut second => match stream {
            Ok(stream) => Ok(stream),
            Err(_) => first.await,
        },
    }
}

/// What a socket can do without this, it does worse; so it is tried, not demanded.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let every = Duration::from_millis(KEEPALIVE_MS);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(every).with_interval(every).with_retries(KEEPALIVE_PROBES_MAX),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(Duration::from_millis(UNACKNOWLEDGED_MS_MAX)))?;
    Ok(())
}
