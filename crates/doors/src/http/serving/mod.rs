//! Accepts connections, as many as there is room for and only for as long as they ask something; when asked to stop, lets
//! go of them in order: nobody new, streams that only listen are closed, requests finish, and what does not finish in
//! time is given up. Until then newcomers are told that the gateway drains, and health checks are answered.
//!
//! One task accepts, so that limits hold over all threads. What it accepts is served on one thread to its end.

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

/// How long a connection that has asked nothing is waited for when the door closes: its first request may be there already, and its
/// thread has not looked yet.
const FIRST_REQUEST_MAX: Duration = Duration::from_millis(100);

/// How often it is looked whether a connection has come to wait while a new one has no place.
const ROOM_LOOK: Duration = Duration::from_millis(250);

/// How long requests may take to finish, by default.
pub const DRAIN_MS_MAX: u64 = 10_000;
/// How long answers that were given up may take to be written.
const GIVE_UP_MS_MAX: u64 = 1000;
/// How long to wait when the system has no connection to give, as when there are too many open files.
const ACCEPT_PAUSE_MS: u64 = 1000;

/// Requests under way on one HTTP/2 connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 64;

/// Connections that are told at once that the gateway drains.
const NEWCOMERS_MAX: usize = 64;

/// How the HTTP door's connections are served, whatever is served on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingOptions {
    /// Connections open at once. Beyond that, a new connection ends one without a request under way; if there is none, it waits.
    pub connections_max: usize,
    /// How long a connection may take to send the head of its first request.
    pub first_head_read_ms_max: u64,
    /// How long an idle connection may take to send the head of its next request.
    pub head_read_ms_max: u64,
    /// How long a client may take nothing of an answer that is ready. After that its connection keeps no place and is ended.
    pub stall_ms_max: u64,
    /// How long requests may finish when shutdown was asked for.
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
    /// Tokens of this thread's own: who waits for a token locks it.
    draining: Arc<DrainSignals>,
    shared_timer: Arc<SharedTimer>,
    closing: CancellationToken,
    /// Connections that outlast everything are dropped.
    end: CancellationToken,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceScope {
    Everything,
    /// Questions about the gateway's health; all else is turned away.
    Health,
}

/// Serves until `shutdown` is cancelled and what was under way has finished, as long as `serving` lets it take.
///
/// Dropping the future stops accepting; connections already open live on until they end by themselves, or their thread does.
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

/// Serves one connection whose bytes come another way than over a socket of this door, to its end or until `shutdown` is cancelled and
/// its request has finished.
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

/// The hosts of connections: one for each thread, and one for the runtime that accepts.
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

    /// Has a connection served to its end, on a thread if there is one.
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
        // Another runtime's connection would wake that runtime first, for every byte.
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

/// A zero would end every connection at once.
fn stall_max(serving: &ServingOptions) -> Duration {
    Duration::from_millis(serving.stall_ms_max.max(1))
}

fn protocol(head_read_max: Duration) -> Builder<TokioExecutor> {
    let mut protocol = Builder::new(TokioExecutor::new());
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(head_read_max);
    // HTTP/2 has no such limit: a client that is gone is found out by not answering.
    let mut http2 = protocol.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(head_read_max).keep_alive_timeout(head_read_max);
    http2.max_concurrent_streams(STREAMS_PER_CONNECTION_MAX);
    protocol
}

/// The next connection.
async fn next_connection(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((connection, peer)) => return (connection, peer.ip()),
            // The client was gone before it was its turn.
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
    /// For connections that come while the door drains.
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

    /// The next connection, once there is room for it. If there is none, a connection without a request under way is ended.
    async fn accept(&self, listener: &TcpListener, room: &Arc<Semaphore>) -> AcceptedConnection {
        let (connection, peer) = next_connection(listener).await;
        loop {
            // Looked at again: a connection may come to wait, or stall, after this one arrived.
            let is_made = room.available_permits() > 0 || self.connections.make_room();
            let look_again = if is_made { 2 * LAST_ANSWER_MAX } else { ROOM_LOOK };
            match tokio::time::timeout(look_again, Arc::clone(room).acquire_owned()).await {
                Ok(Ok(place)) => return ((connection, self.connections.enter(peer)), place),
                Ok(Err(_)) => return pending().await,
                Err(_) => {}
            }
        }
    }

    /// Answers new connections while the door drains: with the health of the gateway, or that it is shutting down. They are closed
    /// when this future is dropped, because no call of theirs was taken.
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
        let request_head = DoorRequestHead { parts, peer, draining, shared_timer: shared_timer };
        if self.serves == ServiceScope::Everything {
            return self.router.answer(request_head, body).await;
        }
        let keeps_alive = request_head.parts.version < Version::HTTP_2;
        let (mut response, standing) = match request_head.parts.uri.path() {
            health::ALIVE | health::WELL | health::READY => self.router.answer(request_head, body).await,
            _ => (health::draining_response(), AuthOutcome::Rejected),
        };
        if keeps_alive {
            // A connection that stayed open would be ended in the middle of its next request.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        (response, standing)
    }

    /// Serves one connection to its end.
    async fn serve_connection(self: &Arc<Self>, connection: TcpStream, connection_guard: &ConnectionGuard) {
        // An answer is several small writes; without this each can wait 40 ms for the acknowledgement of the last.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection goes without TCP_NODELAY");
        }
        self.talk(connection, connection_guard).await;
    }

    /// The same, whatever carries the bytes.
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
                // Who was not let in must not keep a place by leaving the answer unread.
                if standing == AuthOutcome::Rejected {
                    busy.release_connection();
                }
                Ok::<_, Infallible>(answer.map(|body| PacedBody::new(body, busy)))
            }
        });
        let mut talk = pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        // Hyper's own limit begins only when it knows which HTTP is spoken, and some never say.
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
                        tracing::debug!(error, "a connection ended badly");
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
                    tracing::debug!("a connection is ended: its client does not take its answers");
                    return;
                }
                () = self.closing.cancelled(), if !leaving => {
                    if !asked.is_cancelled() {
                        // A connection without a request under way need not be waited for.
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
