//! How long what is over is kept, and how it goes: a few rows at a time, the oldest first, between what callers want written.
//!
//! Deliberately not here: when a round is made, and making tombstones of settled effects, which is `expire`.

use servanda_contract::Timestamp;

use crate::codec::unsigned;

/// Rows of each kind that one round looks at. A round is one job of a writer, and whoever comes behind it waits for a few milliseconds.
pub(crate) const PRUNED_MAX: u32 = 100;

/// Open reservations that one sweep looks at, at the least.
pub(crate) const HOLDS_EXAMINED_MAX: u32 = 1_000;

/// How long what is over is kept; for ever where it says nothing. What is unknown or under way is kept whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Records of calls, and answers that were kept back, from when the call was received, by the wall clock.
    pub records_ms: Option<u64>,
    /// Tombstones of keys, from the end of the key's own window, in ledger time.
    pub tombstones_ms: Option<u64>,
}

/// What a round did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// Records of calls.
    pub records: u64,
    /// Settled effects whose window is over, which became tombstones or went.
    pub expired: u64,
    /// Tombstones that went.
    pub tombstones: u64,
    /// Notes that had expired.
    pub notes: u64,
    /// Whether there may be more to do at once.
    pub is_behind: bool,
}

/// A round as a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PruneRound {
    pub(crate) retention: Retention,
    /// The wall clock.
    pub(crate) now: Timestamp,
}

/// How far a writer has come with what it walks through page by page, so that no round begins from the oldest again.
#[derive(Debug, Default)]
pub(crate) struct UpkeepProgress {
    /// Records that were received before this were looked at.
    pub(crate) records_from_ms: u64,
    /// Reservations that were opened before this were looked at.
    pub(crate) holds_from_ms: u64,
}

/// A record as a round sees it.
#[derive(Debug)]
pub(crate) struct OldRecord {
    pub(crate) call_id: String,
    pub(crate) received_ms: u64,
    pub(crate) may_go: bool,
}

impl PruneRound {
    /// Records that were received before this may go.
    pub(crate) fn records_before_ms(&self) -> Option<u64> {
        self.retention.records_ms.map(|kept_ms| self.now.unix_ms().saturating_sub(kept_ms))
    }
}

impl UpkeepProgress {
    /// After a page of records: whether it was the last one for now.
    pub(crate) fn after_records(&mut self, page: &[OldRecord]) -> bool {
        let is_full = page.len() >= PRUNED_MAX as usize;
        self.records_from_ms = match page.last() {
            // Of the same millisecond there may be more, unless nothing of this page went.
            Some(last) if is_full => last.received_ms + u64::from(page.iter().all(|record| !record.may_go)),
            _ => 0,
        };
        !is_full
    }

    /// After a sweep that found so many reservations it can do something about, of those that were opened until then.
    pub(crate) fn after_holds(&mut self, found: usize, limit: u32, until_ms: Option<i64>) {
        if found >= limit as usize {
            // There may be more in the same stretch.
            return;
        }
        self.holds_from_ms = until_ms.map_or(0, |until_ms| unsigned(until_ms).saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::{OldRecord, PRUNED_MAX, UpkeepProgress};

    fn page(count: u32, received_ms: u64, may_go: bool) -> Vec<OldRecord> {
        (0..count).map(|number| OldRecord { call_id: number.to_string(), received_ms, may_go }).collect()
    }

    #[test]
    fn a_page_of_what_has_to_stay_is_passed_and_the_end_begins_again() {
        let mut progress = UpkeepProgress::default();
        assert!(!progress.after_records(&page(PRUNED_MAX, 7, true)));
        assert_eq!(progress.records_from_ms, 7, "there may be more of that millisecond");
        assert!(!progress.after_records(&page(PRUNED_MAX, 7, false)));
        assert_eq!(progress.records_from_ms, 8, "what has to stay is not looked at again and again");
        assert!(progress.after_records(&page(3, 9, true)));
        assert_eq!(progress.records_from_ms, 0);
        assert!(progress.after_records(&[]));
    }
}
