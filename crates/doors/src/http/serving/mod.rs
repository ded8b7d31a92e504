//! Accepts connections up to a limit, and closes those that send no requests. On shutdown it closes in order: new
//! connections are refused, streams that only listen are closed, running requests finish, and those that do not finish
//! in time are given up. Until then new connections are told that the gateway drains, and health checks are answered.
//!
//! One task accepts, so that limits hold over all threads. A connection is served on one thread to its end.

mod connections;
mod paced_body;
mod progress;
mod shared_timer;
mod threads;

use std::{
    convert::Infallible,
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Version, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use servanda_engine::Gateway;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(super) use self::shared_timer::SharedTimer;
pub use self::threads::DoorThreads;
use self::{
    connections::{ConnectionGuard, HttpConnections},
    paced_body::PacedBody,
};
use super::{AuthOutcome, DoorRequestHead, DoorResponse, Router, health};

/// How long a connection whose place is needed may take to write its last answer.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long the closing door waits for a connection that has sent no request: its first request may have arrived
/// without its thread having read it.
const FIRST_REQUEST_MAX: Duration = Duration::from_millis(100);

/// How often the door checks for a waiting connection while a new one has no place.
const ROOM_LOOK: Duration = Duration::from_millis(250);

/// How long running requests may take to finish, by default.
pub const DRAIN_MS_MAX: u64 = 10_000;
/// How long the answers to requests that were given up may take to be written.
const GIVE_UP_MS_MAX: u64 = 1000;
/// How long to pause when the system cannot accept a connection, for example because too many files are open.
const ACCEPT_PAUSE_MS: u64 = 1000;

/// Requests in progress on one HTTP/2 connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 64;

/// New connections that are answered at once while the gateway drains.
const NEWCOMERS_MAX: usize = 64;

/// How the HTTP door serves connections, independent of what it serves on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingOptions {
    /// Connections open at once. Beyond that, a new connection ends one without a request in progress; if there is
    /// none, it waits.
    pub connections_max: usize,
    /// How long a connection may take to send the head of its first request.
    pub first_head_read_ms_max: u64,
    /// How long an idle connection may take to send the head of its next request.
    pub head_read_ms_max: u64,
    /// How long a client may leave a ready answer unread. After that its connection keeps no place and is ended.
    pub stall_ms_max: u64,
    /// How long running requests may take to finish after shutdown was requested.
    pub drain_ms_max: u64,
    /// Which threads serve connections.
    pub threads: DoorThreads,
}

/// How far shutdown has come, for the requests it concerns.
#[derive(Debug, Clone, Default)]
pub(super) struct DrainSignals {
    /// Streams that only listen end now.
    pub(super) closing: CancellationToken,
    /// Everything ends now.
    pub(super) give_up: CancellationToken,
}

/// What all connections of one thread share.
struct ConnectionServer<G> {
    protocol: Builder<TokioExecutor>,
    router: Router<G>,
    serves: ServiceScope,
    first_head_read_max: Duration,
    connections: Arc<HttpConnections>,
    /// This thread's own tokens, because waiting on a token locks it.
    draining: Arc<DrainSignals>,
    shared_timer: Arc<SharedTimer>,
    closing: CancellationToken,
    /// Cancelled to drop the connections that are still open at the very end.
    end: CancellationToken,
}

/// Which requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceScope {
    Everything,
    /// Health checks only; all other requests are refused.
    Health,
}

/// Serves until `shutdown` is cancelled and the running requests have finished, for as long as `serving` allows.
///
/// Dropping the future stops accepting; open connections live on until they end by themselves, or their thread does.
pub async fn serve_with<G: Gateway>(
    listener: TcpListener,
    router: Router<G>,
    shutdown: CancellationToken,
    serving: ServingOptions,
) -> io::Result<()> {
    let draining = DrainSignals { closing: shutdown.child_token(), give_up: CancellationToken::new() };
    let end = CancellationToken::new();
    let hosts = ConnectionServers::new(&router, &serving, &draining, &end);
    let newcomers = ConnectionServer::for_newcomers(&router, &serving, &draining);
    let room = Arc::new(Semaphore::new(serving.connections_max.clamp(1, Semaphore::MAX_PERMITS)));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = hosts.here.accept(&listener, &room) => accepted,
        };
        hosts.hand_over(&connections, &serving.threads, accepted);
    }
    connections.close();
    let finished = async {
        if tokio::time::timeout(Duration::from_millis(serving.drain_ms_max), connections.wait()).await.is_ok() {
            return;
        }
        draining.give_up.cancel();
        tracing::warn!("requests were still running at the end of shutdown and were given up");
        if tokio::time::timeout(Duration::from_millis(GIVE_UP_MS_MAX), connections.wait()).await.is_err() {
            end.cancel();
            connections.wait().await;
        }
    };
    tokio::select! {
        () = finished => Ok(()),
        never = newcomers.refuse_newcomers(&listener) => match never {},
    }
}

/// Serves one connection whose bytes do not come from a socket of this door. Returns when the connection ends, or when
/// `shutdown` is cancelled and its request has finished.
pub async fn serve_stream<G: Gateway>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router<G>,
    shutdown: CancellationToken,
    serving: ServingOptions,
) {
    let draining = DrainSignals { closing: shutdown, give_up: CancellationToken::new() };
    let servers = ConnectionServers::new(&router, &serving, &draining, &CancellationToken::new());
    let connection_guard = servers.here.connections.enter(IpAddr::V4(Ipv4Addr::LOCALHOST));
    servers.here.talk(stream, &connection_guard).await;
}

impl Default for ServingOptions {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            first_head_read_ms_max: 10_000,
            head_read_ms_max: 30_000,
            stall_ms_max: 30_000,
            drain_ms_max: DRAIN_MS_MAX,
            threads: DoorThreads::none(),
        }
    }
}

/// A connection that was accepted, and its place among all of them.
type AcceptedConnection = ((TcpStream, ConnectionGuard), OwnedSemaphorePermit);

/// One server for each thread, and one for the runtime that accepts.
struct ConnectionServers<G> {
    here: Arc<ConnectionServer<G>>,
    threads: Vec<Arc<ConnectionServer<G>>>,
}

impl<G: Gateway> ConnectionServers<G> {
    fn new(router: &Router<G>, serving: &ServingOptions, draining: &DrainSignals, end: &CancellationToken) -> Self {
        let connections = HttpConnections::new(serving.connections_max, stall_max(serving));
        let host = || {
            let draining =
                DrainSignals { closing: draining.closing.child_token(), give_up: draining.give_up.child_token() };
            Arc::new(ConnectionServer {
                protocol: protocol(head_read_max(serving)),
                router: router.clone(),
                serves: ServiceScope::Everything,
                first_head_read_max: first_head_read_max(serving),
                connections: Arc::clone(&connections),
                closing: draining.closing.clone(),
                draining: Arc::new(draining),
                shared_timer: Arc::default(),
                end: end.child_token(),
            })
        };
        Self { here: host(), threads: (0..serving.threads.count()).map(|_| host()).collect() }
    }

    /// Hands a connection over to be served to its end, on a thread of its own if there are any.
    fn hand_over(
        &self,
        connections: &TaskTracker,
        threads: &DoorThreads,
        ((connection, connection_guard), place): AcceptedConnection,
    ) {
        let Some(thread) = threads.take_slot() else {
            let host = Arc::clone(&self.here);
            connections.spawn(async move {
                host.serve_connection(connection, &connection_guard).await;
                drop((connection_guard, place));
            });
            return;
        };
        let host = Arc::clone(self.threads.get(thread.number).unwrap_or(&self.here));
        let runtime = thread.runtime.clone();
        // A connection registered with another runtime would wake that runtime first, for every byte.
        let serving = async move {
            match connection.into_std().and_then(TcpStream::from_std) {
                Ok(connection) => host.serve_connection(connection, &connection_guard).await,
                Err(error) => tracing::error!(%error, "a connection cannot be served on its thread"),
            }
            drop((connection_guard, place, thread));
        };
        connections.spawn_on(serving, &runtime);
    }
}

fn head_read_max(serving: &ServingOptions) -> Duration {
    Duration::from_millis(serving.head_read_ms_max)
}

fn first_head_read_max(serving: &ServingOptions) -> Duration {
    Duration::from_millis(serving.first_head_read_ms_max.min(serving.head_read_ms_max))
}

/// Zero would end every connection at once.
fn stall_max(serving: &ServingOptions) -> Duration {
    Duration::from_millis(serving.stall_ms_max.max(1))
}

fn protocol(head_read_max: Duration) -> Builder<TokioExecutor> {
    let mut protocol = Builder::new(TokioExecutor::new());
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(head_read_max);
    // HTTP/2 has no such limit: a client that is gone is detected because it does not answer pings.
    let mut http2 = protocol.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(head_read_max).keep_alive_timeout(head_read_max);
    http2.max_concurrent_streams(STREAMS_PER_CONNECTION_MAX);
    protocol
}

/// Accepts the next connection.
async fn next_connection(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((connection, peer)) => return (connection, peer.ip()),
            // The client left before it was accepted.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {
            }
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }
}

impl<G: Gateway> ConnectionServer<G> {
    /// For connections that arrive while the door drains.
    fn for_newcomers(router: &Router<G>, serving: &ServingOptions, draining: &DrainSignals) -> Self {
        Self {
            protocol: protocol(head_read_max(serving)),
            router: router.clone(),
            serves: ServiceScope::Health,
            first_head_read_max: first_head_read_max(serving),
            connections: HttpConnections::new(NEWCOMERS_MAX, stall_max(serving)),
            draining: Arc::new(draining.clone()),
            shared_timer: Arc::default(),
            closing: CancellationToken::new(),
            end: CancellationToken::new(),
        }
    }

    /// Accepts the next connection, once there is room for it. If there is none, a connection without a request in
    /// progress is ended.
    async fn accept(&self, listener: &TcpListener, room: &Arc<Semaphore>) -> AcceptedConnection {
        let (connection, peer) = next_connection(listener).await;
        loop {
            // Checked again, because a connection may start to wait, or stall, after this one arrived.
            let is_made = room.available_permits() > 0 || self.connections.make_room();
            let look_again = if is_made { 2 * LAST_ANSWER_MAX } else { ROOM_LOOK };
            match tokio::time::timeout(look_again, Arc::clone(room).acquire_owned()).await {
                Ok(Ok(place)) => return ((connection, self.connections.enter(peer)), place),
                Ok(Err(_)) => return pending().await,
                Err(_) => {}
            }
        }
    }

    /// Answers new connections while the door drains: with the gateway's health, or with the news that it is shutting
    /// down. They are closed when this future is dropped, because none of their calls was accepted.
    async fn refuse_newcomers(self, listener: &TcpListener) -> Infallible {
        let (host, room) = (Arc::new(self), Arc::new(Semaphore::new(NEWCOMERS_MAX)));
        let mut talks = JoinSet::new();
        loop {
            let ((connection, connection_guard), place) = host.accept(listener, &room).await;
            let host = Arc::clone(&host);
            while talks.try_join_next().is_some() {}
            talks.spawn(async move {
                host.serve_connection(connection, &connection_guard).await;
                drop((connection_guard, place));
            });
        }
    }

    async fn answer(&self, request: hyper::Request<Incoming>, peer: IpAddr) -> (DoorResponse, AuthOutcome) {
        let (parts, body) = request.into_parts();
        let (draining, shared_timer) = (Arc::clone(&self.draining), Arc::clone(&self.shared_timer));
        let request_head = DoorRequestHead { parts, peer, draining, shared_timer };
        if self.serves == ServiceScope::Everything {
            return self.router.answer(request_head, body).await;
        }
        let keeps_alive = request_head.parts.version < Version::HTTP_2;
        let (mut response, standing) = match request_head.parts.uri.path() {
            health::ALIVE | health::WELL | health::READY => self.router.answer(request_head, body).await,
            _ => (health::draining_response(), AuthOutcome::Rejected),
        };
        if keeps_alive {
            // A connection kept open would be closed in the middle of its next request.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        (response, standing)
    }

    /// Serves one connection to its end.
    async fn serve_connection(self: &Arc<Self>, connection: TcpStream, connection_guard: &ConnectionGuard) {
        // An answer is several small writes; without this each can wait 40 ms for the acknowledgement of the last.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set on a connection");
        }
        self.talk(connection, connection_guard).await;
    }

    /// Serves any byte stream.
    async fn talk(
        self: &Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection_guard: &ConnectionGuard,
    ) {
        let asked = CancellationToken::new();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            if !asked.is_cancelled() {
                asked.cancel();
            }
            let (host, peer, busy) =
                (Arc::clone(self), connection_guard.connection.peer, connection_guard.connection.begin_request());
            async move {
                let (answer, standing) = host.answer(request, peer).await;
                // A rejected caller must not keep a place by leaving the answer unread.
                if standing == AuthOutcome::Rejected {
                    busy.release_connection();
                }
                Ok::<_, Infallible>(answer.map(|body| PacedBody::new(body, busy)))
            }
        });
        let mut talk = pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        // Hyper's own limit begins only when it knows the HTTP version, and some clients never send enough to tell.
        let mut silent = pin!(async {
            if tokio::time::timeout(self.first_head_read_max, asked.cancelled()).await.is_ok() {
                pending::<()>().await;
            }
        });
        let mut stalled = pin!(connection_guard.connection.stalls());
        let mut leaving = false;
        loop {
            tokio::select! {
                biased;
                outcome = talk.as_mut() => {
                    if let Err(error) = outcome {
                        tracing::debug!(error, "a connection ended with an error");
                    }
                    return;
                }
                () = self.end.cancelled() => return,
                () = connection_guard.connection.ended.cancelled() => {
                    // Its last answer may still be on its way.
                    if asked.is_cancelled() {
                        talk.as_mut().graceful_shutdown();
                        let _ = tokio::time::timeout(LAST_ANSWER_MAX, talk.as_mut()).await;
                    }
                    return;
                }
                () = silent.as_mut() => return,
                () = stalled.as_mut() => {
                    tracing::debug!("a connection is closed: its client does not read its answers");
                    return;
                }
                () = self.closing.cancelled(), if !leaving => {
                    if !asked.is_cancelled() {
                        // A connection without a request in progress need not be waited for.
                        tokio::select! {
                            biased;
                            _ = talk.as_mut() => return,
                            () = asked.cancelled() => {}
                            () = tokio::time::sleep(FIRST_REQUEST_MAX) => return,
                        }
                    }
                    leaving = true;
                    talk.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
