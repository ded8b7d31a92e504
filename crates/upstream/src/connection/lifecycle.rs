//! The life of an upstream's connection: none, connecting, ready, down, closed; and the pauses between attempts.
//!
//! One task owns it. Callers look at the phase, ask for a connection, and wait for the next phase.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use servanda_mcp::{Era, ProtocolVersion};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    backoff::pause_ms,
    connect::{ConnectError, ConnectTarget, connect},
    link::Link,
    listening,
};
use crate::{
    MissingCredential, UpstreamRequester,
    conversation::loss::LossReason,
    eras::HandshakeOutcome,
    shared::SharedContext,
    stdio::{CLOSED_INPUT, CLOSED_OUTPUT},
};

/// A connection that lasted this long does not count as a quick death.
const STABLE_MS_MIN: u64 = 10_000;
/// The longest pause before the next attempt that a caller waits for. With a longer pause the caller is told at once that the server is
/// down, because a quick answer is worth more than the chance that the server comes back.
const SAT_OUT_MS_MAX: u64 = 1_000;

/// The state of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamStatus {
    /// It has not been needed yet, or it is shut down.
    NotConnected,
    /// It is being started or reached.
    Connecting,
    /// It can be called.
    Ready {
        /// The era of the protocol it speaks.
        era: Era,
        /// The revision it speaks.
        version: ProtocolVersion,
        /// Its own name for itself.
        server_name: String,
        /// Its own version of itself.
        server_version: String,
    },
    /// It was lost or could not be reached. The next call tries again.
    Down {
        /// Why.
        why: String,
        /// How many times in a row.
        failures: u32,
        /// How long until the next attempt is allowed.
        next_attempt_ms: u64,
    },
}

/// Where the connection is in its life.
#[derive(Clone)]
pub(crate) enum ConnectionPhase {
    Idle,
    Connecting,
    Ready(Arc<Link>),
    Down(Arc<ConnectionFailure>),
    Closed,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct ConnectionFailure {
    pub(crate) why: String,
    /// The missing credential, if that is the reason.
    pub(crate) lack: Option<MissingCredential>,
    pub(crate) failures: u32,
    pub(crate) next_attempt: Instant,
}

/// The phase, and how many attempts have failed so far: a caller that waits for an attempt learns from the count that it is over.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionState {
    pub(crate) phase: ConnectionPhase,
    pub(crate) attempts_failed: u64,
}

/// What a caller that needs a connection does in a phase.
#[derive(Debug)]
pub(crate) enum ConnectionStep {
    /// Use this connection.
    Use(Arc<Link>),
    /// Wait for the next phase. Ask for an attempt first if none is running.
    Wait {
        /// Whether to ask.
        ask: bool,
    },
    /// Give up.
    GiveUp {
        /// Why.
        why: String,
        /// The missing credential, if that is the reason.
        lack: Option<MissingCredential>,
    },
}

/// The task that owns the connection.
pub(crate) struct ConnectionLifecycle {
    pub(crate) context: Arc<SharedContext>,
    /// The requester that the connection is for; none for the shared one.
    pub(crate) requester: Option<UpstreamRequester>,
    pub(crate) state: watch::Sender<ConnectionState>,
    pub(crate) demand: Arc<Notify>,
    pub(crate) stop: CancellationToken,
}

/// What a caller does. It came when `attempts_failed_before` attempts had failed, and waits for at most one more.
pub(crate) fn next_step(
    stage: &ConnectionState,
    attempts_failed_before: u64,
    now: Instant,
    deadline: Instant,
) -> ConnectionStep {
    match &stage.phase {
        ConnectionPhase::Ready(link) if !link.loss().is_reported() => ConnectionStep::Use(Arc::clone(link)),
        ConnectionPhase::Closed => ConnectionStep::GiveUp { why: "it is shut down".to_owned(), lack: None },
        ConnectionPhase::Down(setback) if stage.attempts_failed > attempts_failed_before => {
            ConnectionStep::GiveUp { why: setback.why.clone(), lack: setback.lack.clone() }
        }
        ConnectionPhase::Down(setback)
            if setback.next_attempt > deadline.min(now + Duration::from_millis(SAT_OUT_MS_MAX)) =>
        {
            let wait_ms = setback.next_attempt.saturating_duration_since(now).as_millis();
            let why = format!("{}; the next attempt is in {wait_ms} ms", setback.why);
            ConnectionStep::GiveUp { why, lack: setback.lack.clone() }
        }
        ConnectionPhase::Idle | ConnectionPhase::Down(_) => ConnectionStep::Wait { ask: true },
        ConnectionPhase::Connecting | ConnectionPhase::Ready(_) => ConnectionStep::Wait { ask: false },
    }
}

/// What is known after a connection was lost.
struct LostConnection {
    /// The era that the next connection tries first.
    era: Era,
    /// How many failures there were in a row.
    failures: u32,
}

impl ConnectionState {
    pub(crate) fn status(&self, now: Instant) -> UpstreamStatus {
        match &self.phase {
            ConnectionPhase::Idle | ConnectionPhase::Closed => UpstreamStatus::NotConnected,
            ConnectionPhase::Connecting => UpstreamStatus::Connecting,
            ConnectionPhase::Ready(link) => UpstreamStatus::Ready {
                era: link.peer.era(),
                version: link.peer.version,
                server_name: link.peer.server_name.clone(),
                server_version: link.peer.server_version.clone(),
            },
            ConnectionPhase::Down(setback) => UpstreamStatus::Down {
                why: setback.why.clone(),
                failures: setback.failures,
                next_attempt_ms: milliseconds(setback.next_attempt.saturating_duration_since(now)),
            },
        }
    }
}

impl ConnectionLifecycle {
    /// Runs until stopped: connects when a connection is needed, and keeps it until it is lost.
    pub(crate) async fn run(self) {
        let mut known = self.presumed_era();
        let mut first = true;
        let mut failures = 0;
        let mut told = None;
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = self.demanded() => {}
            }
            let pause = Duration::from_millis(pause_ms(failures, &self.context.spec.limits));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = self.pause_passed(pause) => {}
            }
            // All callers that have asked so far wait for this attempt. A leftover request must not start another attempt later.
            let _ = self.demand.notified().now_or_never();
            self.enter(ConnectionPhase::Connecting, false);
            if first && failures == 0 && self.is_shared() {
                known = self.context.era_notes.read().await;
            }
            let connected = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                connected = self.connect(known) => connected,
            };
            match connected {
                Ok(link) => {
                    let Some(after) = self.hold_until_lost(Arc::new(link), first, failures, &mut told).await else {
                        break;
                    };
                    known = Some(after.era);
                    failures = after.failures;
                    first = false;
                }
                Err(ConnectError { why, handshake, lack }) => {
                    // Whatever era it spoke before, it may be another server when it comes back.
                    known = self.presumed_era();
                    self.learn(None, handshake);
                    // A missing credential is no fault of the server's, and it may be supplied at any moment.
                    failures = if lack.is_some() { 1 } else { failures.saturating_add(1) };
                    self.log_failure(&mut told, "the upstream is not available", &why, failures);
                    self.enter(self.down_phase(why, lack, failures), true);
                }
            }
        }
        self.enter(ConnectionPhase::Closed, false);
    }

    fn is_shared(&self) -> bool {
        self.requester.is_none()
    }

    /// Waits until a connection is needed: a caller asks for it, or something is watched that only this connection announces.
    async fn demanded(&self) {
        tokio::select! {
            () = self.demand.notified() => {}
            () = self.context.watches.wait_until_any(), if self.is_shared() => {}
        }
    }

    async fn connect(&self, known: Option<Era>) -> Result<Link, ConnectError> {
        let endpoint = self.context.endpoint().map_err(|why| ConnectError {
            why,
            handshake: HandshakeOutcome::NotBegun,
            lack: None,
        })?;
        let connect_ms_max = self.context.spec.limits.connect_ms_max;
        let deadline = Instant::now() + Duration::from_millis(connect_ms_max);
        let destination = ConnectTarget { context: &self.context, endpoint, requester: self.requester.as_ref() };
        Box::pin(connect(destination, known, deadline)).await
    }

    /// The era that is tried first when nothing is known. A legacy user's own connection keeps the user's era if the server has it.
    fn presumed_era(&self) -> Option<Era> {
        self.requester.as_ref().map(|requester| requester.era).filter(|era| *era == Era::Legacy)
    }

    /// Records what was learnt about the server's eras. The shared connection shows whether the server is modern; the others show whether
    /// it has the legacy era. What the server shows a single user says nothing about other users.
    fn learn(&self, era: Option<Era>, handshake: HandshakeOutcome) {
        if self.is_shared() {
            self.context.known_eras.set(era);
        } else if !self.context.is_personal() {
            self.context.known_eras.learn(handshake);
        }
    }

    /// Keeps a connection until it is lost. Returns what is known then; none if the upstream is shut down.
    async fn hold_until_lost(
        &self,
        link: Arc<Link>,
        first: bool,
        failures: u32,
        told: &mut Option<String>,
    ) -> Option<LostConnection> {
        let since = Instant::now();
        tracing::info!(
            upstream = %self.context.spec.id, version = %link.peer.version, server = link.peer.server_name, "connected"
        );
        let mut era = link.peer.era();
        self.learn(Some(era), HandshakeOutcome::Agreed);
        listening::start(&self.context, &link, self.is_shared().then_some(listening::SharedConnection { first }));
        self.enter(ConnectionPhase::Ready(Arc::clone(&link)), false);
        if self.is_shared() {
            if !first {
                self.context.announcement_bus.announce_lists();
            }
            self.context.era_notes.write(era).await;
        }
        let gone = loop {
            tokio::select! {
                biased;
                gone = link.loss().reported() => break gone,
                () = self.stop.cancelled() => {
                    self.enter(ConnectionPhase::Closed, false);
                    link.wire.close().await;
                    return None;
                }
                () = self.context.known_eras.doubted(), if self.is_shared() => link.loss().report(LossReason::Disowned),
                // This connection stays legacy; the next one begins with the modern era.
                () = link.found_modern(), if self.is_shared() && era == Era::Legacy => {
                    era = Era::Modern;
                    self.context.era_notes.write(era).await;
                }
            }
        };
        link.wire.close().await;
        let stable = since.elapsed() >= Duration::from_millis(STABLE_MS_MIN);
        if stable {
            *told = None;
        }
        let failures = match gone {
            LossReason::Disowned => {
                self.enter(ConnectionPhase::Idle, false);
                if stable { 0 } else { failures }
            }
            LossReason::Broke { why } => {
                let failures = if stable { 1 } else { failures.saturating_add(1) };
                self.log_failure(told, "the upstream was lost", &why, failures);
                self.enter(self.down_phase(why, None, failures), false);
                failures
            }
        };
        Some(LostConnection { era, failures })
    }

    /// Logs a failure. A failure with the same reason as the last one is logged at debug level only: a server that stays down is tried
    /// again and again, and the log need not count that.
    fn log_failure(&self, told: &mut Option<String>, what: &str, why: &str, failures: u32) {
        let upstream = &self.context.spec.id;
        // Chance decides which end of a dying process is noticed first, so the two count as one reason.
        let reason = why.strip_prefix(CLOSED_OUTPUT).or_else(|| why.strip_prefix(CLOSED_INPUT)).unwrap_or(why);
        if told.as_deref() == Some(reason) {
            tracing::debug!(%upstream, why, failures, "{what}");
        } else {
            tracing::warn!(%upstream, why, failures, "{what}");
            *told = Some(reason.to_owned());
        }
    }

    async fn pause_passed(&self, pause: Duration) {
        let next_attempt = match &self.state.borrow().phase {
            ConnectionPhase::Down(setback) => setback.next_attempt,
            _ => Instant::now() + pause,
        };
        tokio::time::sleep_until(next_attempt).await;
    }

    fn down_phase(&self, why: String, lack: Option<MissingCredential>, failures: u32) -> ConnectionPhase {
        let pause = Duration::from_millis(pause_ms(failures, &self.context.spec.limits));
        ConnectionPhase::Down(Arc::new(ConnectionFailure { why, lack, failures, next_attempt: Instant::now() + pause }))
    }

    fn enter(&self, phase: ConnectionPhase, attempt_failed: bool) {
        self.state.send_modify(|stage| {
            stage.phase = phase;
            stage.attempts_failed += u64::from(attempt_failed);
        });
    }
}

impl fmt::Debug for ConnectionPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Idle => "Idle",
            Self::Connecting => "Connecting",
            Self::Ready(_) => "Ready",
            Self::Down(_) => "Down",
            Self::Closed => "Closed",
        })
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_waits_for_one_attempt_within_its_deadline() {
        let now = Instant::now();
        let deadline = now + Duration::from_secs(10);
        let down = |pause_ms| {
            let next_attempt = now + Duration::from_millis(pause_ms);
            ConnectionPhase::Down(Arc::new(ConnectionFailure {
                why: "refused".to_owned(),
                lack: None,
                failures: 3,
                next_attempt,
            }))
        };
        let table = [
            (ConnectionPhase::Idle, 0, Ok(true)),
            (ConnectionPhase::Connecting, 0, Ok(false)),
            (down(800), 0, Ok(true)),
            (down(800), 1, Err("refused")),
            (down(1_600), 0, Err("refused; the next attempt is in 1600 ms")),
            (down(20_000), 0, Err("refused; the next attempt is in 20000 ms")),
            (ConnectionPhase::Closed, 0, Err("it is shut down")),
        ];
        for (phase, attempts_failed, expected) in table {
            let stage = ConnectionState { phase, attempts_failed };
            match (next_step(&stage, 0, now, deadline), expected) {
                (ConnectionStep::Wait { ask }, Ok(expected)) => assert_eq!(ask, expected),
                (ConnectionStep::GiveUp { why, .. }, Err(expected)) => assert_eq!(why, expected),
                (step, expected) => panic!("{stage:?}: {step:?} instead of {expected:?}"),
            }
        }
    }
}
