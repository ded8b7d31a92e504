//! How long finished data is kept, and how it is removed: a few rows at a time, oldest first, between the
//! writes that callers wait for.
//!
//! Deliberately not here: when a round is made, and turning settled effects into tombstones, which is `expire`.

use servanda_approval::DENIAL_HOLD_MS;
use servanda_contract::Timestamp;

use crate::{call_index::span_of, codec::unsigned};

/// Rows of each kind that one round looks at. A round is one job of a writer, and the next job waits a few
/// milliseconds for it.
pub(crate) const PRUNED_MAX: u32 = 100;

/// Terms of calls that one round looks at.
pub(crate) const TERMS_EXAMINED_MAX: u32 = 16;

/// Open reservations that one sweep looks at, at least.
pub(crate) const HOLDS_EXAMINED_MAX: u32 = 1_000;

/// How long finished data is kept; forever if unset. Unknown effects and calls under way are always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Records of calls, what they are found by, their counts, and quarantined answers: counted from when the call was received, by the wall clock. Tickets of approvals that are
    /// over: as long, from their last change, by the store's clock.
    pub records_ms: Option<u64>,
    /// Tombstones of keys: counted from the end of the key's own window, in ledger time.
    pub tombstones_ms: Option<u64>,
}

/// What one round removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// Records of calls.
    pub records: u64,
    /// Settled effects whose window is over. They became tombstones or were removed.
    pub expired: u64,
    /// Tombstones that were removed.
    pub tombstones: u64,
    /// Tickets of approvals that were over.
    pub tickets: u64,
    /// Notes that had expired.
    pub notes: u64,
    /// Whether there may be more to remove right away.
    pub is_behind: bool,
}

/// A round as a job of a writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PruneRound {
    pub(crate) retention: Retention,
    /// The wall clock.
    pub(crate) now: Timestamp,
}

/// How far a writer has come with the rows it walks through page by page, so that no round starts from the
/// oldest again.
#[derive(Debug, Default)]
pub(crate) struct UpkeepProgress {
    /// Records received before this have been looked at.
    pub(crate) records_from_ms: u64,
    /// Reservations opened before this have been looked at.
    pub(crate) holds_from_ms: u64,
    /// Terms up to this one have been looked at; none if all are still to be.
    pub(crate) terms_after: Option<i32>,
}

/// A record as a round sees it.
#[derive(Debug)]
pub(crate) struct OldRecord {
    pub(crate) call_id: String,
    pub(crate) received_ms: u64,
    pub(crate) may_go: bool,
}

impl PruneRound {
    /// Records received before this may be removed.
    pub(crate) fn records_before_ms(&self) -> Option<u64> {
        self.retention.records_ms.map(|kept_ms| self.now.unix_ms().saturating_sub(kept_ms))
    }

    /// What records are found by is removed for spans before this.
    pub(crate) fn spans_before(&self) -> Option<i64> {
        self.records_before_ms().map(span_of)
    }

    /// Tickets that are over and have not changed since this moment of the store's clock may be removed. A denial is remembered for as long
    /// as it holds.
    pub(crate) fn tickets_before_ms(&self, now_ms: u64) -> Option<u64> {
        self.retention.records_ms.map(|kept_ms| now_ms.saturating_sub(kept_ms.max(DENIAL_HOLD_MS)))
    }
}

impl UpkeepProgress {
    /// Moves on after a page of records. Returns whether it was the last page for now.
    pub(crate) fn after_records(&mut self, page: &[OldRecord]) -> bool {
        let is_full = page.len() >= PRUNED_MAX as usize;
        self.records_from_ms = match page.last() {
            // There may be more records of the same millisecond, unless this whole page has to stay.
            Some(last) if is_full => last.received_ms + u64::from(page.iter().all(|record| !record.may_go)),
            _ => 0,
        };
        !is_full
    }

    /// Moves on after a sweep that found `found` reservations to close, among those opened until `until_ms`.
    pub(crate) fn after_holds(&mut self, found: usize, limit: u32, until_ms: Option<i64>) {
        if found >= limit as usize {
            // There may be more in the same range.
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
        assert_eq!(progress.records_from_ms, 8, "records that have to stay are passed only once");
        assert!(progress.after_records(&page(3, 9, true)));
        assert_eq!(progress.records_from_ms, 0);
        assert!(progress.after_records(&[]));
    }
}
