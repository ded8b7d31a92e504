//! The stdio door: one client, one message a line, both eras.
//!
//! Responsible for one connection: lines in, lines out, the legacy handshake, and cancellation by id. A line that is
//! not a message never ends the connection. It is answered only if the answer cannot start a storm: responses and noise
//! are never answered.

mod background;
mod connection;
mod lines;
mod malformed;
mod options;
mod output;

use std::{io, sync::Arc, time::Duration};

use servanda_engine::Gateway;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use self::connection::StdioDoorConnection;
pub use self::options::StdioOptions;

/// Messages that a slow reader may be behind before the door stops reading from it.
const OUTPUT_QUEUE_MAX: usize = 256;

/// How long a client may take to read the last messages.
const GIVE_UP_MS_MAX: u64 = 1000;

/// Serves one client until its input ends or `shutdown` is cancelled, then lets its calls finish for as long as the
/// options allow.
///
/// Fails if the input cannot be read, the output cannot be written, or the client does not read it. Dropping the future
/// cancels the tokens of the unanswered requests; calls already dispatched go on.
pub async fn serve<G: Gateway>(
    gateway: Arc<G>,
    options: StdioOptions,
    input: impl AsyncRead,
    output: impl AsyncWrite,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(OUTPUT_QUEUE_MAX);
    let end_max = Duration::from_millis(options.drain_ms_max.saturating_add(GIVE_UP_MS_MAX));
    let conversation = StdioDoorConnection::new(gateway, options, sender);
    let ending = shutdown.child_token();
    let talk = async {
        let heard = conversation.run(input, shutdown).await;
        ending.cancel();
        heard
    };
    let both = async { tokio::join!(talk, lines::write(output, receiver)) };
    let overdue = async {
        ending.cancelled().await;
        tokio::time::sleep(end_max).await;
    };
    tokio::select! {
        (heard, written) = both => written.and(heard),
        () = overdue => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers")),
    }
}
