//! Log lines about messages that a server should not have sent. A server may send thousands a second, so there is one line per interval,
//! which says how many were left out before it.

use std::{
    fmt::Display,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The time between two lines about one server.
const INTERVAL: Duration = Duration::from_secs(10);

/// When the last line about one server was written, and how many were left out since.
#[derive(Debug, Default)]
pub(crate) struct ProtocolWarnings(Mutex<WarningState>);

#[derive(Debug, Default)]
struct WarningState {
    last: Option<Instant>,
    left_out: u64,
}

impl ProtocolWarnings {
    /// Logs that a message was not accepted, unless a line about this server was just written.
    pub(crate) fn warn(&self, upstream: &dyn Display, fault: &dyn Display, what: &str) {
        if let Some(left_out) = self.left_out_if_due(Instant::now()) {
            tracing::warn!(%upstream, %fault, left_out, "{what}");
        }
    }

    /// How many were left out since the last line, if it is time for one.
    fn left_out_if_due(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.last.is_some_and(|last| now.duration_since(last) < INTERVAL) {
            told.left_out += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_for_each_interval() {
        let (complaints, start) = (ProtocolWarnings::default(), Instant::now());
        assert_eq!(complaints.left_out_if_due(start), Some(0));
        let lines = (0..20_000).filter(|_| complaints.left_out_if_due(start + INTERVAL / 2).is_some()).count();
        assert_eq!(lines, 0);
        assert_eq!(complaints.left_out_if_due(start + INTERVAL), Some(20_000));
        assert_eq!(complaints.left_out_if_due(start + INTERVAL * 2), Some(0));
    }
}
