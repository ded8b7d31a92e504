//! A connection over a child's standard streams: one writer, one reader, and the table of requests between them.
//!
//! The reader never waits for anybody: what cannot be passed on at once is dropped. The writer may be stuck for as long as
//! the child does not read; requests behind it keep their deadlines, because they can be withdrawn.

mod inbound;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::mpsc,
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::inbound::{Inbound, Oddities};
use crate::{
    PerformFailure,
    connect::Setting,
    frame::{Line, LineReader},
    last_words::{LINE_BYTES_MAX, LastWords},
    link::{Departure, Ended, Gone, Outgoing, Terms, WhenCancelled},
    message,
    parcel::Parcel,
    pending::{NotAdmitted, PendingRequests},
    process::{Process, Program},
};

/// How long the last output of an ended child is waited for. Longer only if somebody else holds its pipes.
const DRAIN_MS_MAX: u64 = 1_000;

/// A child that speaks MCP.
#[derive(Debug)]
pub(crate) struct StdioWire {
    in_flight_max: usize,
    pending: Arc<PendingRequests>,
    outbox: mpsc::Sender<Parcel>,
    oddities: Arc<Oddities>,
    departure: Departure,
    /// The child has ended and is reaped.
    finished: CancellationToken,
    stop: CancellationToken,
    /// A dropped connection ends its child, too.
    _stop_when_dropped: DropGuard,
}

/// What the task that owns the child needs.
struct Supervision {
    process: Process,
    pending: Arc<PendingRequests>,
    last_words: Arc<LastWords>,
    departure: Departure,
    stop: CancellationToken,
    read_done: CancellationToken,
    write_done: CancellationToken,
    errors_done: CancellationToken,
    setting: Arc<Setting>,
}

impl StdioWire {
    /// Starts the child and the tasks around it.
    pub(crate) fn start(setting: &Arc<Setting>, program: Program<'_>) -> Result<Self, String> {
        let (process, pipes) = Process::start(program)?;
        let in_flight_max = setting.spec.limits.in_flight_max;
        let pending = Arc::new(PendingRequests::new(in_flight_max));
        let (outbox, parcels) = mpsc::channel(in_flight_max.max(1));
        let oddities = Arc::new(Oddities::default());
        let last_words = Arc::new(LastWords::default());
        let departure = Departure::default();
        let stop = CancellationToken::new();
        let finished = CancellationToken::new();

        let inbound = Inbound {
            setting: Arc::clone(setting),
            pending: Arc::clone(&pending),
            outbox: outbox.downgrade(),
            oddities: Arc::clone(&oddities),
        };
        let errors = drain_errors(pipes.errors, Arc::clone(&last_words), Arc::clone(setting));
        let supervision = Supervision {
            process,
            pending: Arc::clone(&pending),
            last_words,
            departure: departure.clone(),
            stop: stop.clone(),
            read_done: spawn_until(&finished, setting, read(pipes.output, inbound)),
            write_done: spawn_until(&finished, setting, write(pipes.input, parcels, stop.clone())),
            errors_done: spawn_until(&finished, setting, errors),
            setting: Arc::clone(setting),
        };
        let guard = finished.clone().drop_guard();
        setting.tasks.spawn(async move {
            supervision.run().await;
            drop(guard);
        });
        let stop_when_dropped = stop.clone().drop_guard();
        Ok(Self {
            in_flight_max,
            pending,
            outbox,
            oddities,
            departure,
            finished,
            stop,
            _stop_when_dropped: stop_when_dropped,
        })
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) async fn exchange(&self, request: Outgoing<'_>, terms: Terms) -> Ended {
        let Outgoing { id, mut body, .. } = request;
        body.push(b'\n');
        let mut place = match self.pending.admit(id, terms.progress.clone()) {
            Ok(place) => place,
            Err(NotAdmitted::Full) => {
                return Ended::Failed(PerformFailure::Busy { in_flight_max: self.in_flight_max });
            }
            Err(NotAdmitted::Closed { why }) => return Ended::NeverLeft { why },
        };
        let parcel = Parcel::new(body);
        let _withdrawn_when_dropped = parcel.withdrawn_when_dropped();
        if let Err(ended) = self.post(parcel.clone(), &terms).await {
            return ended;
        }
        let mut cancelled = false;
        loop {
            tokio::select! {
                biased;
                told = &mut place.told => return ended(told.ok(), &parcel),
                () = terms.cancel.cancelled(), if !cancelled => {
                    if parcel.withdraw() {
                        return Ended::Failed(PerformFailure::Cancelled { sent: false });
                    }
                    self.say_cancelled(id, "the caller cancelled", &terms);
                    if terms.when_cancelled == WhenCancelled::Abandon {
                        return Ended::Failed(PerformFailure::Cancelled { sent: true });
                    }
                    cancelled = true;
                }
                () = terms.deadline_passed() => {
                    if parcel.withdraw() {
                        return Ended::Failed(not_taken());
                    }
                    self.say_cancelled(id, "the deadline passed", &terms);
                    return Ended::Failed(PerformFailure::TimedOut { note: self.oddities.note() });
                }
            }
        }
    }

    /// Sends a notification, or says that it could not be sent in time.
    pub(crate) async fn notify(&self, mut body: Vec<u8>, deadline: Instant) -> Result<(), String> {
        body.push(b'\n');
        match self.post(Parcel::new(body), &Terms::until(deadline)).await {
            Ok(()) => Ok(()),
            Err(Ended::NeverLeft { why }) => Err(why),
            Err(_) => Err("the server does not read its input".to_owned()),
        }
    }

    pub(crate) fn departure(&self) -> &Departure {
        &self.departure
    }

    /// Closes the child's input, waits for its end, enforces it. Cancel safe: the end goes on without the waiter.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.finished.cancelled().await;
    }

    /// Queues a message. The queue is full when the child does not read.
    async fn post(&self, parcel: Parcel, terms: &Terms) -> Result<(), Ended> {
        tokio::select! {
            biased;
            () = terms.cancel.cancelled() => Err(Ended::Failed(PerformFailure::Cancelled { sent: false })),
            () = terms.deadline_passed() => Err(Ended::Failed(not_taken())),
            permit = self.outbox.reserve() => match permit {
                Ok(permit) => {
                    permit.send(parcel);
                    Ok(())
                }
                // The writer has ended, and the child is about to.
                Err(_) => Err(Ended::NeverLeft { why: "the server closed its input".to_owned() }),
            },
        }
    }

    fn say_cancelled(&self, id: i64, reason: &str, terms: &Terms) {
        if terms.tell_server {
            let mut body = message::cancelled(id, reason);
            body.push(b'\n');
            // A child that does not read cannot be told anything.
            let _ = self.outbox.try_send(Parcel::new(body));
        }
    }
}

/// Spawns work that ends at the latest when the child is gone. The returned token tells when it has.
fn spawn_until(
    gone: &CancellationToken,
    setting: &Setting,
    work: impl Future<Output = ()> + Send + 'static,
) -> CancellationToken {
    let (gone, done) = (gone.clone(), CancellationToken::new());
    let guard = done.clone().drop_guard();
    setting.tasks.spawn(async move {
        tokio::select! {
            () = gone.cancelled() => {}
            () = work => {}
        }
        drop(guard);
    });
    done
}

/// What a waiter was told, seen together with whether its request left.
fn ended(told: Option<Result<Bytes, PerformFailure>>, parcel: &Parcel) -> Ended {
    match told {
        Some(Ok(result)) => Ended::Answered(result),
        Some(Err(PerformFailure::Died { why })) if parcel.withdraw() => Ended::NeverLeft { why },
        Some(Err(failure)) => Ended::Failed(failure),
        None => Ended::Failed(PerformFailure::Died { why: "the connection was closed".to_owned() }),
    }
}

fn not_taken() -> PerformFailure {
    PerformFailure::unavailable("the server did not take the request before the deadline, so nothing was sent")
}

async fn read(output: ChildStdout, inbound: Inbound) {
    let mut lines = LineReader::new(output, inbound.setting.spec.limits.message_bytes_max);
    loop {
        match lines.next().await {
            Ok(Some(Line::Whole(line))) => inbound.on_line(&line),
            Ok(Some(Line::Oversized { prefix, tail })) => inbound.on_oversized(&prefix, &tail),
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(upstream = %inbound.setting.spec.id, %error, "the server's output could not be read");
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
    }
}

/// Leaves in `rest` what was not written.
async fn write_all(input: &mut ChildStdin, rest: &mut Bytes) -> std::io::Result<()> {
    while !rest.is_empty() {
        if input.write_buf(rest).await? == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
    }
    input.flush().await
}

async fn drain_errors(errors: ChildStderr, last_words: Arc<LastWords>, setting: Arc<Setting>) {
    let mut lines = LineReader::new(errors, LINE_BYTES_MAX);
    while let Ok(Some(line)) = lines.next().await {
        let line = match line {
            Line::Whole(line) => line,
            Line::Oversized { prefix, .. } => prefix.into(),
        };
        last_words.add(&line);
        tracing::debug!(
            upstream = %setting.spec.id,
            line = %setting.redaction.quote(&String::from_utf8_lossy(&line)),
            "the server wrote to its standard error"
        );
    }
}

impl Supervision {
    /// Waits until the child ends, or ends it when the connection is of no use any more; then tells everybody.
    async fn run(mut self) {
        let ended = tokio::select! {
            biased;
            ended = self.process.ended() => ended,
            () = self.stop.cancelled() => self.process.end().await,
            () = self.read_done.cancelled() => {
                self.stop.cancel();
                format!("it closed its output, and {}", self.process.end().await)
            }
            () = self.write_done.cancelled() => {
                self.stop.cancel();
                format!("it closed its input, and {}", self.process.end().await)
            }
        };
        self.stop.cancel();
        // Answers written before the end still count, and the last words are the reason.
        let _ = tokio::time::timeout(Duration::from_millis(DRAIN_MS_MAX), async {
            self.read_done.cancelled().await;
            self.errors_done.cancelled().await;
            self.write_done.cancelled().await;
        })
        .await;
        let why = match self.last_words.telling() {
            Some(line) => {
                format!("{ended}; it had said `{}` on standard error", self.setting.redaction.quote(&line))
            }
            None => ended,
        };
        self.pending.close(&why);
        self.departure.tell(Gone::Broke { why });
    }
}
