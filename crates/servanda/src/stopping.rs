//! How a command is told to stop: once to finish what is under way, twice to end at once.

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
    failure::Failure,
    screen::{Screen, count},
};

/// How long what is under way may still take when the gateway ends.
pub(crate) const DRAIN_MS_MAX: u64 = 10_000;
/// After which time it is told that something is waited for that is not a call.
const TOLD_AFTER_MS: u64 = 1_000;

/// Whether and how soon a command is to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// Cancelled by the first signal: what is under way is finished.
    pub told: CancellationToken,
    /// Cancelled by the second: nothing is waited for any more.
    pub hurry: CancellationToken,
    since: Arc<OnceLock<Instant>>,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where whoever started us wants us to outlive the terminal.
    terminal_end: Option<Signal>,
}

impl Stop {
    /// Listens for SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let mut signals = Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // `nohup` has it ignored; listening for it would undo that.
            terminal_end: if hang_up_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        };
        let stop =
            Self { told: CancellationToken::new(), hurry: CancellationToken::new(), since: Arc::new(OnceLock::new()) };
        let heard = stop.clone();
        tokio::spawn(async move {
            signals.next().await;
            // Only set here.
            let _ = heard.since.set(Instant::now());
            heard.told.cancel();
            signals.next().await;
            heard.hurry.cancel();
        });
        Ok(stop)
    }

    /// How long what is under way may still take, counted from the first signal if there was one.
    pub(crate) fn drain_left(&self) -> Duration {
        let waited = self.since.get().map_or(Duration::ZERO, Instant::elapsed);
        Duration::from_millis(DRAIN_MS_MAX).saturating_sub(waited)
    }

    /// Once told to stop, says what is waited for. Never ends by itself.
    pub(crate) async fn tell(&self, engine: &Engine, screen: Screen) -> Infallible {
        self.told.cancelled().await;
        let mut calls = engine.calls_in_flight();
        if calls == 0 {
            tokio::time::sleep(Duration::from_millis(TOLD_AFTER_MS)).await;
            calls = engine.calls_in_flight();
        }
        let what =
            if calls == 0 { "requests under way".to_owned() } else { format!("{} in flight", count(calls, "call")) };
        let seconds = DRAIN_MS_MAX / 1_000;
        screen.say(format_args!("stopping: waiting for {what}, up to {seconds} s; stop again to end at once"));
        std::future::pending().await
    }
}

impl Signals {
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

/// Whether whoever started us wants us to outlive the terminal. Where it cannot be asked, nobody does.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is the first signal.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
