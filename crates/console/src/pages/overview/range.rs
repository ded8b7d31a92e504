//! The time that the overview covers, and the slots into which its plots divide it.

use servanda_contract::Timestamp;
use servanda_effects::call_history::CountWidth;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;

/// A time until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OverviewRange {
    /// An hour, by minutes.
    Hour,
    /// A day, by hours.
    Day,
    /// A week, by four hours.
    Week,
}

/// The slots of a range, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OverviewSlots {
    /// When the first begins.
    pub(super) from_ms: u64,
    /// How long each is.
    pub(super) slot_ms: u64,
    /// How many there are.
    pub(super) count: usize,
    /// Which counts are read for them.
    pub(super) width: CountWidth,
}

impl OverviewRange {
    pub(super) const EVERY: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// The range of an address.
    pub(super) fn read(word: Option<&str>) -> Self {
        Self::EVERY.into_iter().find(|range| word == Some(range.word())).unwrap_or(Self::Day)
    }

    /// The word in addresses. The list of calls has the same.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
        }
    }

    /// The words on the page.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Hour => "1 hour",
            Self::Day => "24 hours",
            Self::Week => "7 days",
        }
    }

    /// The slots until the end of the one that now is in.
    pub(super) const fn slots(self, now: Timestamp) -> OverviewSlots {
        let (slot_ms, count, before_ms, width) = match self {
            Self::Hour => (MINUTE_MS, 60, 59 * MINUTE_MS, CountWidth::Minute),
            Self::Day => (HOUR_MS, 24, 23 * HOUR_MS, CountWidth::Hour),
            Self::Week => (4 * HOUR_MS, 42, 41 * 4 * HOUR_MS, CountWidth::Hour),
        };
        let begun_ms = now.unix_ms() - now.unix_ms() % slot_ms;
        OverviewSlots { from_ms: begun_ms.saturating_sub(before_ms), slot_ms, count, width }
    }
}

impl OverviewSlots {
    /// When the last one ends.
    pub(super) fn until_ms(&self) -> u64 {
        self.start_ms(self.count)
    }

    /// When a slot begins.
    pub(super) fn start_ms(&self, slot: usize) -> u64 {
        self.from_ms.saturating_add(self.slot_ms.saturating_mul(u64::try_from(slot).unwrap_or(u64::MAX)))
    }

    /// The slot that a moment falls into.
    pub(super) fn slot_of(&self, at_ms: u64) -> Option<usize> {
        let slot = usize::try_from(at_ms.checked_sub(self.from_ms)? / self.slot_ms).ok()?;
        (slot < self.count).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_begin_with_their_counts_and_the_last_has_now() {
        let now = Timestamp::parse("2026-11-19T03:42:18Z").unwrap();
        for range in OverviewRange::EVERY {
            let slots = range.slots(now);
            assert_eq!(slots.slot_of(now.unix_ms()), Some(slots.count - 1), "{range:?}");
            assert_eq!(slots.from_ms % slots.width.ms(), 0, "{range:?}");
            assert_eq!(slots.slot_of(slots.from_ms), Some(0));
            assert_eq!(slots.slot_of(slots.from_ms - 1), None);
            assert_eq!(slots.slot_of(slots.until_ms()), None);
            assert_eq!(OverviewRange::read(Some(range.word())), range);
        }
        assert_eq!(OverviewRange::read(Some("1y")), OverviewRange::Day);
        assert_eq!(OverviewRange::Day.slots(Timestamp::from_unix_ms(5)).from_ms, 0);
    }
}
