//! What the log says about calls and background work while the ledger does not answer them: a line when that begins, and a line with a count
//! when it is over, instead of a line a call or a line a round. The ledger tells about itself; this tells what it meant.

use servanda_contract::CallId;
use servanda_effects::{FailureStreak, JournalError};

/// Work beside the calls that asks the ledger again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackgroundWork {
    Heartbeat,
    HeldBackTools,
    DueCallbacks,
    Orphans,
    ExpiredEffects,
}

impl BackgroundWork {
    const COUNT: usize = 5;

    const fn number(self) -> usize {
        match self {
            Self::Heartbeat => 0,
            Self::HeldBackTools => 1,
            Self::DueCallbacks => 2,
            Self::Orphans => 3,
            Self::ExpiredEffects => 4,
        }
    }

    const fn failure(self) -> &'static str {
        match self {
            Self::Heartbeat => "this process could not send its heartbeat to the ledger",
            Self::HeldBackTools => {
                "the list of tools that are held back could not be read; the last known list stays in force"
            }
            Self::DueCallbacks => "the callbacks that are due could not be read",
            Self::Orphans => "orphaned effects could not be listed",
            Self::ExpiredEffects => "expired effects could not be deleted",
        }
    }
}

/// What calls met since the ledger last took something of the kind.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// Records that were not durable when their callers were answered.
    late_records: FailureStreak,
    /// Ends of effects that were not on record when their callers were answered.
    late_ends: FailureStreak,
    /// Ends of effects that had to be offered again.
    repeated_ends: FailureStreak,
    /// Notices of ends that receivers will not get.
    lost_notices: FailureStreak,
    /// Calls that were refused unread, because their records could not be stored.
    unread_calls: FailureStreak,
    /// Rounds of background work that failed.
    background: [FailureStreak; BackgroundWork::COUNT],
}

impl Outages {
    /// A round of background work ended; it comes again.
    pub(crate) fn background_ended<T>(&self, work: BackgroundWork, ended: &Result<T, JournalError>) {
        let Some(streak) = self.background.get(work.number()) else { return };
        match ended {
            Ok(_) => {
                if let Some(count) = streak.worked() {
                    tracing::info!(count, "over: {}; so often", work.failure());
                }
            }
            Err(error) if streak.failed() => tracing::warn!(%error, "{}; the gateway tries again", work.failure()),
            Err(error) => tracing::debug!(%error, "{}", work.failure()),
        }
    }

    /// A record is not durable yet. Without an error, the ledger has not answered in time.
    pub(crate) fn record_is_late(&self, call_id: &CallId, error: Option<&JournalError>) {
        let reason = error.map_or("the ledger is too slow", JournalError::reason);
        if self.late_records.failed() {
            tracing::error!(%call_id, reason, "the record of a finished call is not on record yet; it waits in memory, and others may follow");
        } else {
            tracing::debug!(%call_id, reason, "the record of a finished call is not on record yet");
        }
    }

    pub(crate) fn record_is_kept(&self) {
        if let Some(count) = self.late_records.worked() {
            tracing::info!(count, "records of finished calls are on record in time again; so many were late");
        }
    }

    /// An end is not on record in time.
    pub(crate) fn end_is_late(&self, call_id: &CallId) {
        if self.late_ends.failed() {
            tracing::error!(%call_id, "the end of a call is not on record yet, so its caller is not told that it is done; others may follow");
        } else {
            tracing::debug!(%call_id, "the end of a call is not on record yet, so its caller is not told that it is done");
        }
    }

    /// An end could not be put on record, and is offered again.
    pub(crate) fn end_is_repeated(&self, call_id: &CallId, error: &JournalError) {
        if self.repeated_ends.failed() {
            tracing::error!(%call_id, %error, "the end of an effect could not be put on record; it is offered again, and others may follow");
        } else {
            tracing::debug!(%call_id, %error, "the end of an effect could not be put on record; it is offered again");
        }
    }

    pub(crate) fn end_is_kept(&self) {
        if let Some(attempts) = self.repeated_ends.worked() {
            let late = self.late_ends.worked().unwrap_or_default();
            tracing::info!(
                attempts,
                late,
                "ends of effects are on record again; attempts that failed, and callers that were not told in time"
            );
        }
    }

    /// A receiver will not be told how a call ended. Without an error, the ledger has not answered in time.
    pub(crate) fn notice_is_lost(&self, call_id: &CallId, error: Option<&JournalError>) {
        let reason = error.map_or("the ledger is too slow", JournalError::reason);
        if self.lost_notices.failed() {
            tracing::error!(%call_id, reason, "a callback will not be told how a call ended; others may follow");
        } else {
            tracing::debug!(%call_id, reason, "a callback will not be told how a call ended");
        }
    }

    pub(crate) fn notice_is_kept(&self) {
        if let Some(count) = self.lost_notices.worked() {
            tracing::error!(count, "callbacks are told again how calls end; so many notices were not stored");
        }
    }

    /// A call is refused unread.
    pub(crate) fn call_is_unread(&self, reason: &str) {
        if self.unread_calls.failed() {
            tracing::error!(reason, "calls are refused unread, because their records could not be stored");
        }
    }

    /// A call is read.
    pub(crate) fn call_is_read(&self) {
        if let Some(count) = self.unread_calls.worked() {
            tracing::warn!(count, "calls are read again; so many were refused unread, and have no record");
        }
    }
}
