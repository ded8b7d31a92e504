//! A connection over a child's standard streams, and the tasks around the child: one reads, one writes, one drains its standard error, and
//! one ends it.

mod executable;
mod lines;
pub(crate) mod process;
mod stderr_tail;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::faults;
use servanda_mcp::lines::BoundedLine;
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::mpsc,
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    lines::ChildLineReader,
    process::{ServerProcess, ServerProgram},
    stderr_tail::{LINE_BYTES_MAX, StderrTail},
};
use crate::{
    UpstreamRequester,
    conversation::{
        Conversations,
        duplex::Duplex,
        inbound::InboundRouter,
        loss::{ConnectionLoss, LossReason},
        pending::PendingRequests,
        startup_signals::StartupSignals,
    },
    credentials::RedactedCredentials,
    request::{ExchangeEnd, WireRequest, WireRequestTerms, parcel::Parcel},
    shared::SharedContext,
};

/// How long the gateway waits for the last output of an ended child. It takes longer only if another process holds the pipes.
const DRAIN_MS_MAX: u64 = 1_000;

/// The beginning of the reason when the pipes of a process were closed before its end was noticed.
pub(crate) const CLOSED_OUTPUT: &str = "it closed its output, and ";
pub(crate) const CLOSED_INPUT: &str = "it closed its input, and ";

/// A child that speaks MCP.
#[derive(Debug)]
pub(crate) struct StdioWire {
    duplex: Duplex,
    signals: Arc<StartupSignals>,
    /// The child has ended and is reaped.
    finished: CancellationToken,
    stop: CancellationToken,
    /// A dropped connection ends its child, too.
    _stop_when_dropped: DropGuard,
    /// Credentials that the child knows for as long as it lives, and may repeat at any time.
    _held: Option<RedactedCredentials>,
}

/// What the task that owns the child needs.
struct Supervision {
    process: ServerProcess,
    pending: Arc<PendingRequests>,
    stderr_tail: Arc<StderrTail>,
    loss: ConnectionLoss,
    stop: CancellationToken,
    read_done: CancellationToken,
    write_done: CancellationToken,
    errors_done: CancellationToken,
    context: Arc<SharedContext>,
}

impl StdioWire {
    /// Starts the child and the tasks around it.
    pub(crate) fn start(
        context: &Arc<SharedContext>,
        requester: Option<UpstreamRequester>,
        program: ServerProgram<'_>,
        held: Option<RedactedCredentials>,
    ) -> Result<Self, String> {
        let shown = held.as_ref().map_or(&[][..], |held| &held.presented.environment);
        let program = ServerProgram { credentials: shown, ..program };
        let (process, pipes) = ServerProcess::start(program)?;
        let (duplex, inbound, parcels) = Duplex::new(context, requester);
        let signals = Arc::clone(&inbound.signals);
        let stderr_tail = Arc::new(StderrTail::default());
        let stop = CancellationToken::new();
        let finished = CancellationToken::new();

        let errors = drain_errors(pipes.errors, Arc::clone(&stderr_tail), Arc::clone(&signals), Arc::clone(context));
        let supervision = Supervision {
            process,
            pending: Arc::clone(&duplex.pending),
            stderr_tail,
            loss: duplex.loss().clone(),
            stop: stop.clone(),
            read_done: spawn_until(&finished, context, read(pipes.output, inbound)),
            write_done: spawn_until(&finished, context, write(pipes.input, parcels, stop.clone())),
            errors_done: spawn_until(&finished, context, errors),
            context: Arc::clone(context),
        };
        let guard = finished.clone().drop_guard();
        context.tasks.spawn(async move {
            supervision.run().await;
            drop(guard);
        });
        let stop_when_dropped = stop.clone().drop_guard();
        Ok(Self { duplex, signals, finished, stop, _stop_when_dropped: stop_when_dropped, _held: held })
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) fn exchange<'a>(
        &'a self,
        request: WireRequest<'a>,
        terms: WireRequestTerms,
    ) -> impl Future<Output = ExchangeEnd> + Send + 'a {
        self.duplex.exchange(request, terms)
    }

    /// Sends a notification, or reports that it could not be sent in time.
    pub(crate) async fn notify(&self, body: Vec<u8>, deadline: Instant) -> Result<(), String> {
        self.duplex.notify(body, deadline).await
    }

    pub(crate) fn loss(&self) -> &ConnectionLoss {
        self.duplex.loss()
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        self.duplex.conversations()
    }

    pub(crate) fn signals(&self) -> &StartupSignals {
        &self.signals
    }

    /// Closes the child's input, waits for its end, and enforces it. Cancel safe: the ending continues when the future is dropped.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.finished.cancelled().await;
    }
}

/// Spawns work that ends at the latest when the child is gone. The returned token is cancelled when the work has ended.
fn spawn_until(
    gone: &CancellationToken,
    context: &SharedContext,
    work: impl Future<Output = ()> + Send + 'static,
) -> CancellationToken {
    let (gone, done) = (gone.clone(), CancellationToken::new());
    let guard = done.clone().drop_guard();
    context.tasks.spawn(async move {
        tokio::select! {
            () = gone.cancelled() => {}
            () = work => {}
        }
        drop(guard);
    });
    done
}

async fn read(output: ChildStdout, inbound: InboundRouter) {
    let mut lines = ChildLineReader::new(output, inbound.context.spec.limits.message_bytes_max);
    loop {
        match lines.next().await {
            Ok(Some(BoundedLine::Whole(line))) => inbound.on_line(&line),
            Ok(Some(BoundedLine::Oversized { prefix, tail })) => inbound.on_oversized(&prefix, &tail),
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(upstream = %inbound.context.spec.id, %error, "the server's output could not be read");
                return;
            }
        }
    }
}

/// Writes parcels in order until told to stop. Returning closes the child's input.
async fn write(mut input: ChildStdin, mut parcels: mpsc::Receiver<Parcel>, stop: CancellationToken) {
    loop {
        let parcel = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            parcel = parcels.recv() => parcel,
        };
        let Some(parcel) = parcel else { return };
        let Some(bytes) = parcel.take() else { continue };
        if faults::at("upstream.before_write").is_err() {
            return parcel.put_back(bytes);
        }
        let mut rest = bytes.clone();
        let written = tokio::select! {
            biased;
            () = stop.cancelled() => Err(std::io::ErrorKind::Interrupted.into()),
            written = write_all(&mut input, &mut rest) => written,
        };
        if written.is_err() {
            if rest.len() == bytes.len() {
                parcel.put_back(bytes);
            }
            return;
        }
        if faults::at("upstream.after_write").is_err() {
            return;
        }
    }
}

/// Writes `rest`, and leaves in it what was not written.
async fn write_all(input: &mut ChildStdin, rest: &mut Bytes) -> std::io::Result<()> {
    while !rest.is_empty() {
        if input.write_buf(rest).await? == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
    }
    input.flush().await
}

async fn drain_errors(
    errors: ChildStderr,
    stderr_tail: Arc<StderrTail>,
    signals: Arc<StartupSignals>,
    context: Arc<SharedContext>,
) {
    let mut lines = ChildLineReader::new(errors, LINE_BYTES_MAX);
    while let Ok(Some(line)) = lines.next().await {
        signals.record_output();
        let line = match line {
            BoundedLine::Whole(line) => context.redaction.clean(&line).to_vec(),
            BoundedLine::Oversized { prefix, .. } => context.redaction.clean_cut(&prefix),
        };
        stderr_tail.add(&line);
        tracing::debug!(
            upstream = %context.spec.id,
            line = %context.redaction.quote(&String::from_utf8_lossy(&line)),
            "the server wrote to its standard error"
        );
    }
}

impl Supervision {
    /// Waits until the child ends, or ends it when the connection is no longer used; then reports the loss to all requests.
    async fn run(mut self) {
        let ended = tokio::select! {
            biased;
            ended = self.process.ended() => ended,
            () = self.stop.cancelled() => self.process.end(&self.context.end_pace).await,
            () = self.read_done.cancelled() => {
                self.stop.cancel();
                format!("{CLOSED_OUTPUT}{}", self.process.end(&self.context.end_pace).await)
            }
            () = self.write_done.cancelled() => {
                self.stop.cancel();
                format!("{CLOSED_INPUT}{}", self.process.end(&self.context.end_pace).await)
            }
        };
        self.stop.cancel();
        // Answers written before the end still count, and the last lines on standard error give the reason.
        let _ = tokio::time::timeout(Duration::from_millis(DRAIN_MS_MAX), async {
            self.read_done.cancelled().await;
            self.errors_done.cancelled().await;
            self.write_done.cancelled().await;
        })
        .await;
        let why = match self.stderr_tail.error_line() {
            Some(line) => {
                format!("{ended}; it had said `{}` on standard error", self.context.redaction.quote(&line))
            }
            None => ended,
        };
        self.pending.close(&why);
        self.loss.report(LossReason::Broke { why });
    }
}
