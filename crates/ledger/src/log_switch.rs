//! Whether the verifiable log is written. The writers of a store share the switch; it is set when the ledger is opened for a gateway, and by
//! its configuration afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::leaves::LeafWriter;

/// How long leaves may wait for their place and their signature before no high-risk call begins. Checkpoints come a second apart.
const UNSIGNED_MS_MAX: u64 = 30_000;

/// Whether the log is written, and what writes its leaves.
#[derive(Debug, Clone)]
pub(crate) struct LogSwitch {
    is_on: Arc<AtomicBool>,
    /// Whether leaves may have been written that are not in the tree.
    has_news: Arc<AtomicBool>,
    /// Since when leaves of this process have waited to be signed, in milliseconds from `since` and counted from one; zero if none waits.
    unsigned_since_ms: Arc<AtomicU64>,
    since: Instant,
    writer: LeafWriter,
}

impl LogSwitch {
    /// Off at first.
    pub(crate) fn new(writer: LeafWriter) -> Self {
        Self {
            is_on: Arc::default(),
            has_news: Arc::new(AtomicBool::new(true)),
            unsigned_since_ms: Arc::default(),
            since: Instant::now(),
            writer,
        }
    }

    pub(crate) fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Notes that leaves were written.
    pub(crate) fn note_news(&self) {
        self.has_news.store(true, Ordering::Release);
        if self.unsigned_since_ms.load(Ordering::Relaxed) == 0 {
            self.unsigned_since_ms.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Notes that the log was signed. What was written meanwhile is news, and waits from the next look on.
    pub(crate) fn note_signed(&self) {
        self.unsigned_since_ms.store(0, Ordering::Relaxed);
    }

    /// Why the log cannot keep up, if leaves have waited for too long.
    pub(crate) fn why_behind(&self) -> Option<String> {
        let unsigned_since_ms = self.unsigned_since_ms.load(Ordering::Relaxed);
        if unsigned_since_ms == 0 || !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        let waited_ms = self.now_ms().saturating_sub(unsigned_since_ms);
        (waited_ms >= UNSIGNED_MS_MAX)
            .then(|| format!("its last signature is {} s older than a leaf", waited_ms / 1_000))
    }

    /// Whether leaves were written since the last time that this was asked.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::AcqRel)
    }

    /// What writes leaves; none if the log is switched off.
    pub(crate) fn writer(&self) -> Option<&LeafWriter> {
        self.is_on.load(Ordering::Relaxed).then_some(&self.writer)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::Ordering,
        time::{Duration, Instant},
    };

    use servanda_audit::leaf::LeafSalts;

    use super::{LogSwitch, UNSIGNED_MS_MAX};
    use crate::leaves::LeafWriter;

    #[test]
    fn leaves_that_wait_too_long_for_a_signature_are_told_until_they_are_signed() {
        let mut switch = LogSwitch::new(LeafWriter::new(LeafSalts::random().unwrap()));
        switch.set(true);
        // The process has run for a while, so that the moment below is long ago.
        switch.since = Instant::now().checked_sub(Duration::from_millis(2 * UNSIGNED_MS_MAX)).unwrap();
        switch.note_news();
        assert_eq!(switch.why_behind(), None, "it has just been written");
        switch.unsigned_since_ms.store(1, Ordering::Relaxed);
        switch.note_news();
        assert!(switch.why_behind().is_some(), "the oldest leaf counts");
        switch.set(false);
        assert_eq!(switch.why_behind(), None, "nobody waits for a log that is switched off");
        switch.set(true);
        switch.note_signed();
        assert_eq!(switch.why_behind(), None);
    }
}
