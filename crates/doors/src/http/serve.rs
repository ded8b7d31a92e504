//! Accepts connections and, when asked to stop, lets go of them in order: nobody new, streams that only listen are
//! closed, requests finish, and what does not finish in time is given up.

use std::{future::IntoFuture, io, time::Duration};

use axum::{Extension, Router, serve::ListenerExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long [`serve`] lets requests finish.
pub const DRAIN_MS_MAX: u64 = 10_000;
/// How long answers that were given up may take to be written.
const GIVE_UP_MS_MAX: u64 = 1000;

/// How far shutdown has come, for the requests it concerns.
#[derive(Debug, Clone, Default)]
pub(super) struct Draining {
    /// Streams that only listen end now.
    pub(super) closing: CancellationToken,
    /// Everything ends now.
    pub(super) give_up: CancellationToken,
}

/// Serves until `shutdown` is cancelled and what was under way has finished, for at most [`DRAIN_MS_MAX`].
///
/// Dropping the future stops accepting; connections already open live on until they end by themselves.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    serve_draining(listener, router, shutdown, Duration::from_millis(DRAIN_MS_MAX)).await
}

/// The same with a limit of one's own for how long requests may finish.
pub async fn serve_draining(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    drain_max: Duration,
) -> io::Result<()> {
    let draining = Draining { closing: shutdown.child_token(), give_up: CancellationToken::new() };
    let listener = listener.tap_io(|connection| {
        // An answer is several small writes; without this each can wait 40 ms for the acknowledgement of the last.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection goes without TCP_NODELAY");
        }
    });
    let router = router.layer(Extension(draining.clone()));
    let server = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let mut server = server.into_future();
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(drain_max).await;
    };
    tokio::select! {
        outcome = &mut server => return outcome,
        () = drained => draining.give_up.cancel(),
    }
    tracing::warn!("requests were still running at the end of shutdown and were given up");
    tokio::time::timeout(Duration::from_millis(GIVE_UP_MS_MAX), server).await.unwrap_or(Ok(()))
}
