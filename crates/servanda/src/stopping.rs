//! How a command is told to stop: the first signal lets running work finish, the second ends it at once. Also how the time is divided among
//! the phases of stopping.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::Duration,
};

use servanda_engine::Engine;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    failure::CommandFailure,
    screen::{Screen, count},
};

/// The time to stop is divided into this many parts; each phase must be over after a number of them.
const PARTS: u32 = 16;
const CALL_PARTS: u32 = 10;
const SERVER_PARTS: u32 = 13;
const RECORD_PARTS: u32 = 14;
/// The last part is for the process itself.
const ALL_PARTS: u32 = 15;

/// After this time, the user is told that something other than a call is awaited.
const TOLD_AFTER_MS: u64 = 1_000;

/// Whether and how soon a command must stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// Cancelled by the first signal: running work is finished.
    pub requested: CancellationToken,
    /// Cancelled by the second signal: nothing is awaited any more.
    pub hurry: CancellationToken,
    since: Arc<OnceLock<Instant>>,
    drain_max: Duration,
}

/// When each phase must be over, so that the whole is over in time. A phase that needs less time leaves more to the next.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "moments, which `by` says of each")]
pub(crate) struct ShutdownDeadlines {
    /// Running calls have ended or are cut off.
    pub calls_by: Instant,
    /// Background tasks and the upstreams' servers have ended.
    pub servers_by: Instant,
    /// The calls that were cut off are recorded.
    pub records_by: Instant,
    /// The ledger is closed.
    pub all_by: Instant,
}

struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// None if the process was started so that it outlives the terminal.
    terminal_end: Option<Signal>,
}

impl Stop {
    /// Listens for SIGINT, SIGTERM and SIGHUP from now on. Stopping takes at most `drain_ms_max`.
    pub(crate) fn on_signals(drain_ms_max: u64) -> Result<Self, CommandFailure> {
        let mut signals = StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // `nohup` ignores SIGHUP; listening for it would undo that.
            terminal_end: if hang_up_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        };
        let stop = Self {
            requested: CancellationToken::new(),
            hurry: CancellationToken::new(),
            since: Arc::new(OnceLock::new()),
            drain_max: Duration::from_millis(drain_ms_max),
        };
        let heard = stop.clone();
        tokio::spawn(async move {
            signals.next().await;
            heard.begin();
            heard.requested.cancel();
            signals.next().await;
            heard.hurry.cancel();
        });
        Ok(stop)
    }

    /// Begins the stop, unless it has begun: its time counts from here.
    pub(crate) fn begin(&self) -> Instant {
        *self.since.get_or_init(Instant::now)
    }

    /// When each phase must be over. The stop has begun.
    pub(crate) fn deadlines(&self) -> ShutdownDeadlines {
        ShutdownDeadlines::new(self.begin(), self.drain_max)
    }

    /// How long a door waits for requests before it drops them: until calls that were cut off are recorded and answered.
    pub(crate) fn door_max(&self) -> Duration {
        self.drain_max * RECORD_PARTS / PARTS
    }

    /// Waits until the stop has begun and the time for calls is over. Does not begin it.
    pub(crate) async fn calls_are_over(&self) {
        self.requested.cancelled().await;
        tokio::time::sleep_until(self.deadlines().calls_by).await;
    }

    /// After the stop has begun, reports what is awaited. Never ends by itself.
    pub(crate) async fn report_waiting(&self, engine: &Engine, screen: Screen) -> Infallible {
        self.requested.cancelled().await;
        let mut calls = engine.calls_in_flight();
        if calls == 0 {
            tokio::time::sleep(Duration::from_millis(TOLD_AFTER_MS)).await;
            calls = engine.calls_in_flight();
        }
        let what =
            if calls == 0 { "requests under way".to_owned() } else { format!("{} in flight", count(calls, "call")) };
        let seconds = self.drain_max.as_secs_f64();
        screen.say(format_args!("stopping: waiting for {what}, up to {seconds} s in all; stop again to end at once"));
        std::future::pending().await
    }
}

impl ShutdownDeadlines {
    fn new(since: Instant, drain_max: Duration) -> Self {
        let after = |parts: u32| since + drain_max * parts / PARTS;
        Self {
            calls_by: after(CALL_PARTS),
            servers_by: after(SERVER_PARTS),
            records_by: after(RECORD_PARTS),
            all_by: after(ALL_PARTS),
        }
    }
}

impl StopSignals {
    async fn next(&mut self) {
        let terminal_end = async {
            match &mut self.terminal_end {
                Some(terminal_end) => terminal_end.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = terminal_end => {}
        }
    }
}

/// Whether the process was started so that it outlives the terminal. If that cannot be read, it was not.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is signal 1, the lowest bit of the mask.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_is_over_before_the_next_and_all_in_time() {
        let began = Instant::now();
        for drain_max in [500, 8_000, 85_000].map(Duration::from_millis) {
            let ShutdownDeadlines { calls_by, servers_by, records_by, all_by } =
                ShutdownDeadlines::new(began, drain_max);
            assert_eq!(calls_by - began, drain_max * 5 / 8);
            assert!(calls_by < servers_by && servers_by < records_by && records_by < all_by);
            assert!(all_by < began + drain_max);
        }
    }
}
