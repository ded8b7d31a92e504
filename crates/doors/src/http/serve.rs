//! Accepts connections, as many as there is room for and only for as long as they ask something; when asked to stop, lets
//! go of them in order: nobody new, streams that only listen are closed, requests finish, and what does not finish in
//! time is given up. Until then newcomers are told that the gateway drains, and health checks are answered.

use std::{convert::Infallible, future::pending, io, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::Request,
    http::{HeaderValue, Version, header},
    middleware::{Next, from_fn},
    response::Response,
};
use hyper::{
    body::Incoming,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connections::{Connections, LetIn, Seat},
    health,
    wrong_credentials::Peer,
};
use crate::options::Serving;

/// How long a connection whose place is needed may take to write its last answer.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(1);

/// How often it is looked whether a connection has come to wait while a new one has no place.
const ROOM_LOOK: Duration = Duration::from_millis(250);

/// How long [`serve`] lets requests finish.
pub const DRAIN_MS_MAX: u64 = 10_000;
/// How long answers that were given up may take to be written.
const GIVE_UP_MS_MAX: u64 = 1000;
/// How long to wait when the system has no connection to give, as when there are too many open files.
const ACCEPT_PAUSE_MS: u64 = 1000;

/// Requests under way on one HTTP/2 connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 64;

/// Connections that are told at once that the gateway drains.
const NEWCOMERS_MAX: usize = 64;

/// How far shutdown has come, for the requests it concerns.
#[derive(Debug, Clone, Default)]
pub(super) struct Draining {
    /// Streams that only listen end now.
    pub(super) closing: CancellationToken,
    /// Everything ends now.
    pub(super) give_up: CancellationToken,
}

/// What all connections share.
struct Host {
    protocol: Builder<TokioExecutor>,
    router: Router,
    first_head_read_max: Duration,
    connections: Arc<Connections>,
    closing: CancellationToken,
    /// Connections that outlast everything are dropped.
    end: CancellationToken,
}

/// Serves until `shutdown` is cancelled and what was under way has finished, for at most [`DRAIN_MS_MAX`].
///
/// Dropping the future stops accepting; connections already open live on until they end by themselves.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    serve_with(listener, router, shutdown, Serving::default()).await
}

/// The same with a limit of one's own for how long requests may finish.
pub async fn serve_draining(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    drain_max: Duration,
) -> io::Result<()> {
    let drain_ms_max = u64::try_from(drain_max.as_millis()).unwrap_or(u64::MAX);
    serve_with(listener, router, shutdown, Serving { drain_ms_max, ..Serving::default() }).await
}

/// The same with all limits of one's own.
pub async fn serve_with(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    serving: Serving,
) -> io::Result<()> {
    let draining = Draining { closing: shutdown.child_token(), give_up: CancellationToken::new() };
    let head_read_max = Duration::from_millis(serving.head_read_ms_max);
    let first_head_read_max = Duration::from_millis(serving.first_head_read_ms_max.min(serving.head_read_ms_max));
    // A zero would end every connection at once.
    let stall_max = Duration::from_millis(serving.stall_ms_max.max(1));
    let router = router.layer(Extension(draining.clone()));
    let newcomers = Host {
        protocol: protocol(head_read_max),
        router: router.clone().layer(from_fn(only_health)),
        first_head_read_max,
        connections: Connections::new(NEWCOMERS_MAX, stall_max),
        closing: CancellationToken::new(),
        end: CancellationToken::new(),
    };
    let host = Arc::new(Host {
        protocol: protocol(head_read_max),
        router,
        first_head_read_max,
        connections: Connections::new(serving.connections_max, stall_max),
        closing: draining.closing.clone(),
        end: CancellationToken::new(),
    });
    let room = Arc::new(Semaphore::new(serving.connections_max.clamp(1, Semaphore::MAX_PERMITS)));
    let connections = TaskTracker::new();
    loop {
        let ((connection, seat), place) = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = host.accept(&listener, &room) => accepted,
        };
        let host = Arc::clone(&host);
        connections.spawn(async move {
            host.attend(connection, &seat).await;
            drop((seat, place));
        });
    }
    connections.close();
    let finished = async {
        if tokio::time::timeout(Duration::from_millis(serving.drain_ms_max), connections.wait()).await.is_ok() {
            return;
        }
        draining.give_up.cancel();
        tracing::warn!("requests were still running at the end of shutdown and were given up");
        if tokio::time::timeout(Duration::from_millis(GIVE_UP_MS_MAX), connections.wait()).await.is_err() {
            host.end.cancel();
            connections.wait().await;
        }
    };
    tokio::select! {
        () = finished => Ok(()),
        never = newcomers.turn_away(&listener) => match never {},
    }
}

/// Lets questions about the gateway's health through, and nothing else.
async fn only_health(request: Request, next: Next) -> Response {
    let keeps_alive = request.version() < Version::HTTP_2;
    let mut response = match request.uri().path() {
        health::ALIVE | health::WELL | health::READY => next.run(request).await,
        _ => health::turned_away(),
    };
    if keeps_alive {
        // A connection that stayed open would be ended in the middle of its next request.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
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
async fn next(listener: &TcpListener) -> (TcpStream, IpAddr) {
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

impl Host {
    /// The next connection, once there is room for it. If there is none, a connection without a request under way is ended.
    async fn accept(&self, listener: &TcpListener, room: &Arc<Semaphore>) -> ((TcpStream, Seat), OwnedSemaphorePermit) {
        let (connection, peer) = next(listener).await;
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
    async fn turn_away(self, listener: &TcpListener) -> Infallible {
        let (host, room) = (Arc::new(self), Arc::new(Semaphore::new(NEWCOMERS_MAX)));
        let mut talks = JoinSet::new();
        loop {
            let ((connection, seat), place) = host.accept(listener, &room).await;
            let host = Arc::clone(&host);
            while talks.try_join_next().is_some() {}
            talks.spawn(async move {
                host.attend(connection, &seat).await;
                drop((seat, place));
            });
        }
    }

    /// Serves one connection to its end.
    async fn attend(&self, connection: TcpStream, seat: &Seat) {
        // An answer is several small writes; without this each can wait 40 ms for the acknowledgement of the last.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection goes without TCP_NODELAY");
        }
        let asked = CancellationToken::new();
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            asked.cancel();
            request.extensions_mut().insert(Peer(seat.connection.peer));
            let busy = seat.connection.ask();
            let answer = router.call(request);
            async move {
                let answer = answer.await?;
                // Who was not let in must not keep a place by leaving the answer unread.
                if answer.extensions().get::<LetIn>().is_none() {
                    busy.give_place_up();
                }
                Ok::<_, Infallible>(answer.map(|body| busy.until_written(body)))
            }
        });
        let mut talk = pin!(self.protocol.serve_connection(TokioIo::new(connection), service));
        // Hyper's own limit begins only when it knows which HTTP is spoken, and some never say.
        let mut silent = pin!(async {
            if tokio::time::timeout(self.first_head_read_max, asked.cancelled()).await.is_ok() {
                pending::<()>().await;
            }
        });
        let mut stalled = pin!(seat.connection.stalls());
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
                () = seat.connection.ended.cancelled() => {
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
                    // Whoever has not asked anything by now need not be waited for.
                    if !asked.is_cancelled() {
                        return;
                    }
                    leaving = true;
                    talk.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
