//! The results of the latest writes and when they came: enough to tell whether a call that changes something
//! could be recorded.
//!
//! Results are noted from writes that happen anyway, among them the heartbeat every few seconds, so that
//! reading the health costs the store nothing. Deliberately not here: how old a result may be before the
//! gateway is not ready.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use servanda_effects::{
    JournalError,
    effect::{AppliedChange, EffectReply},
};

/// The results of the latest writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteHealth {
    /// How long ago the store last accepted a write; none if it has not yet.
    pub accepted_ms_ago: Option<u64>,
    /// How long ago the store last failed to accept a write, if it has accepted none since.
    pub refused_ms_ago: Option<u64>,
    /// How long ago this process last began to write its heartbeat; none if it has not yet.
    pub beat_began_ms_ago: Option<u64>,
}

/// Notes the results of writes.
#[derive(Debug)]
pub(crate) struct WriteMonitor {
    since: Instant,
    accepted: AtomicMoment,
    refused: AtomicMoment,
    beat_began: AtomicMoment,
}

/// Milliseconds since the monitor started, counted from one; zero means never.
#[derive(Debug, Default)]
struct AtomicMoment(AtomicU64);

impl Default for WriteMonitor {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            accepted: AtomicMoment::default(),
            refused: AtomicMoment::default(),
            beat_began: AtomicMoment::default(),
        }
    }
}

impl WriteMonitor {
    /// A beat is about to be written.
    pub(crate) fn beat_begins(&self) {
        self.beat_began.set(self.now());
    }

    /// A beat ended.
    pub(crate) fn beat_ended(&self, beat: &Result<(), JournalError>) {
        match beat {
            Ok(()) => self.accepted.set(self.now()),
            Err(_) => self.refused.set(self.now()),
        }
    }

    /// Notes the result of a change. A change that wrote nothing proves nothing about writing, and one that
    /// failed because of its content says nothing about the store.
    pub(crate) fn change_ended(&self, change: &Result<AppliedChange, JournalError>) {
        match change {
            Ok(applied)
                if matches!(applied.reply, EffectReply::Mine(_) | EffectReply::Ask(_) | EffectReply::Settled) =>
            {
                self.accepted.set(self.now());
            }
            Err(error) if !error.is_bad_content() => self.refused.set(self.now()),
            Ok(_) | Err(_) => {}
        }
    }

    /// The results so far.
    pub(crate) fn health(&self) -> WriteHealth {
        let now = self.now();
        let ago = |moment: Option<u64>| moment.map(|moment| now.saturating_sub(moment));
        let (accepted, refused) = (self.accepted.get(), self.refused.get());
        WriteHealth {
            accepted_ms_ago: ago(accepted),
            refused_ms_ago: ago(refused.filter(|refused| accepted.is_none_or(|accepted| *refused >= accepted))),
            beat_began_ms_ago: ago(self.beat_began.get()),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl AtomicMoment {
    fn set(&self, moment: u64) {
        self.0.store(moment, Ordering::Relaxed);
    }

    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|moment| *moment > 0)
    }
}

#[cfg(test)]
mod tests {
    use servanda_effects::{
        JournalError,
        effect::{AppliedChange, EffectReply},
    };

    use super::WriteMonitor;

    #[test]
    fn the_latest_word_of_the_store_counts_and_only_its_own() {
        let watch = WriteMonitor::default();
        assert_eq!(watch.health(), super::WriteHealth::default());
        let came_to = |reply: EffectReply| Ok(AppliedChange { reply, effect: None });
        let refused = |watch: &WriteMonitor| watch.health().refused_ms_ago.is_some();
        let next_moment = || std::thread::sleep(std::time::Duration::from_millis(2));
        watch.change_ended(&came_to(EffectReply::KeyExpired));
        assert_eq!(watch.health().accepted_ms_ago, None, "nothing was written");
        watch.beat_ended(&Ok(()));
        assert!(watch.health().accepted_ms_ago.is_some() && !refused(&watch));
        next_moment();
        watch.change_ended(&Err(JournalError::bad_content("a row that cannot be read")));
        assert!(!refused(&watch), "the store is well");
        watch.change_ended(&Err(JournalError::new("database or disk is full")));
        assert!(refused(&watch));
        watch.change_ended(&came_to(EffectReply::KeyExpired));
        assert!(refused(&watch), "a read is no write");
        next_moment();
        watch.change_ended(&came_to(EffectReply::Settled));
        assert!(!refused(&watch));
        next_moment();
        watch.beat_ended(&Err(JournalError::in_doubt("lost")));
        assert!(refused(&watch));
        assert_eq!(watch.health().beat_began_ms_ago, None);
        watch.beat_begins();
        assert!(watch.health().beat_began_ms_ago.is_some());
    }
}
