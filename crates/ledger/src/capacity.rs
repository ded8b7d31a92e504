//! Whether the ledger has room for more. It is measured beside the calls and after errors, against the
//! configured limits. New effects are refused while some room is left, so that calls under way can still be
//! settled.
//!
//! Deliberately not here: what a caller is told, and making room, which `retention` does.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

/// How much of a filesystem stays free if the configuration does not say: this many bytes, or a tenth of a
/// small filesystem. It is enough to settle thousands of calls with answers of usual size, and for the log of a
/// checkpoint.
const FREE_BYTES_MIN: u64 = 256 << 20;
const FREE_SHARE_MIN: u64 = 10;

/// How large a ledger may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LedgerLimits {
    /// Bytes that the ledger may use; if unset, as many as there is room for.
    pub bytes_max: Option<u64>,
    /// Bytes that stay free on the filesystem of a ledger file; if unset 256 MiB, or a tenth of a filesystem
    /// below 2.5 GiB.
    pub free_bytes_min: Option<u64>,
}

/// What a store measured about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StorageUsage {
    /// Bytes in use. Free pages inside the file do not count.
    pub(crate) used_bytes: u64,
    /// The filesystem; none if the store cannot see it.
    pub(crate) disk: Option<DiskSpace>,
}

/// A filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    pub(crate) bytes_total: u64,
    /// Bytes that can still be written: free space, and free pages inside the file.
    pub(crate) bytes_free: u64,
}

/// Which writes the ledger accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CapacityLevel {
    /// All of them.
    Enough,
    /// No new call that changes something.
    Scarce,
    /// Only what settles calls under way.
    Reserve,
}

/// What is known about the room that is left.
#[derive(Debug, Default)]
pub(crate) struct StorageCapacity {
    limits: Mutex<LedgerLimits>,
    level: AtomicU8,
    why: Mutex<String>,
    dropped: AtomicU64,
}

impl StorageCapacity {
    /// Sets the limits that hold from now on.
    pub(crate) fn limit(&self, limits: LedgerLimits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The limits that hold.
    pub(crate) fn limits(&self) -> LedgerLimits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new measurement.
    pub(crate) fn update(&self, measured: StorageUsage) {
        let (level, why) = judge(self.limits(), measured);
        self.set(level, &why);
    }

    /// The store itself reported that it has no room. The next measurement may lift this.
    pub(crate) fn ran_out(&self, why: &str) {
        self.set(CapacityLevel::Reserve, why);
    }

    /// Why no new effect is begun; none if new effects are accepted.
    pub(crate) fn exhausted_reason(&self) -> Option<String> {
        (self.level.load(Ordering::Relaxed) != CapacityLevel::Enough as u8)
            .then(|| self.why.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Why no further read is answered: the room that is left is for calls under way.
    pub(crate) fn reserve_reason(&self) -> Option<String> {
        let is_reserve = self.level.load(Ordering::Relaxed) == CapacityLevel::Reserve as u8;
        is_reserve.then(|| self.why.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Whether there is room for the record of a call that was refused. If there is none, the dropped record is
    /// counted.
    pub(crate) fn has_room_for_a_refusal(&self) -> bool {
        let has = self.level.load(Ordering::Relaxed) != CapacityLevel::Reserve as u8;
        if !has {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        has
    }

    /// Records that were dropped because there was no room.
    pub(crate) fn dropped_count(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn set(&self, level: CapacityLevel, why: &str) {
        // Set the reason before the level: a thread that sees the new level reads the reason.
        why.clone_into(&mut self.why.lock().unwrap_or_else(PoisonError::into_inner));
        let before = self.level.swap(level as u8, Ordering::Relaxed);
        if before == level as u8 {
            return;
        }
        match level {
            CapacityLevel::Enough => tracing::info!("the ledger has room again: all calls are accepted"),
            CapacityLevel::Scarce => tracing::error!(
                why,
                "the ledger is running out of room: new calls that change something are refused; free disk space, or see docs/retention.md"
            ),
            CapacityLevel::Reserve => tracing::error!(
                why,
                "the ledger is out of room: only calls under way are settled, reads are refused, records of refused calls are dropped; see docs/retention.md"
            ),
        }
    }
}

/// Judges a measurement against the limits.
fn judge(limits: LedgerLimits, measured: StorageUsage) -> (CapacityLevel, String) {
    let mut worst = (CapacityLevel::Enough, String::new());
    let mut consider = |level: CapacityLevel, why: String| {
        if level > worst.0 {
            worst = (level, why);
        }
    };
    if let Some(bytes_max) = limits.bytes_max.filter(|bytes_max| measured.used_bytes >= *bytes_max) {
        let is_over = measured.used_bytes >= bytes_max.saturating_add(bytes_max / 10);
        let why = format!("it uses {} bytes, and `bytes_max` is {bytes_max}", measured.used_bytes);
        consider(if is_over { CapacityLevel::Reserve } else { CapacityLevel::Scarce }, why);
    }
    if let Some(DiskSpace { bytes_total, bytes_free }) = measured.disk {
        let usual = FREE_BYTES_MIN.min(bytes_total / FREE_SHARE_MIN);
        let bytes_min = limits.free_bytes_min.unwrap_or(usual);
        let why = || format!("its disk has {bytes_free} bytes left, and {bytes_min} are kept free");
        if bytes_free < bytes_min / 2 {
            consider(CapacityLevel::Reserve, why());
        } else if bytes_free < bytes_min {
            consider(CapacityLevel::Scarce, why());
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::{CapacityLevel, DiskSpace, LedgerLimits, StorageCapacity, StorageUsage, judge};

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn level(limits: LedgerLimits, used_bytes: u64, disk: Option<(u64, u64)>) -> CapacityLevel {
        let disk = disk.map(|(bytes_total, bytes_free)| DiskSpace { bytes_total, bytes_free });
        judge(limits, StorageUsage { used_bytes, disk }).0
    }

    #[test]
    fn there_is_room_until_the_reserve_begins() {
        use CapacityLevel::{Enough, Reserve, Scarce};
        let usual = LedgerLimits::default();
        let said = LedgerLimits { free_bytes_min: Some(GIB), ..usual };
        let capped = LedgerLimits { bytes_max: Some(100 * MIB), ..usual };
        let off = LedgerLimits { free_bytes_min: Some(0), ..usual };
        let table = [
            (usual, 0, Some((100 * GIB, 256 * MIB)), Enough),
            (usual, 0, Some((100 * GIB, 256 * MIB - 1)), Scarce),
            (usual, 0, Some((100 * GIB, 128 * MIB - 1)), Reserve),
            // A small disk keeps a tenth.
            (usual, 0, Some((100 * MIB, 10 * MIB)), Enough),
            (usual, 0, Some((100 * MIB, 10 * MIB - 1)), Scarce),
            (said, 0, Some((100 * GIB, GIB - 1)), Scarce),
            (off, 0, Some((100 * GIB, 0)), Enough),
            (usual, u64::MAX, None, Enough),
            (capped, 100 * MIB - 1, None, Enough),
            (capped, 100 * MIB, None, Scarce),
            (capped, 110 * MIB, None, Reserve),
            // The worse of the two limits counts.
            (capped, 100 * MIB, Some((100 * GIB, 0)), Reserve),
        ];
        for (limits, used_bytes, disk, expected) in table {
            assert_eq!(level(limits, used_bytes, disk), expected, "{limits:?} {used_bytes} {disk:?}");
        }
    }

    #[test]
    fn it_recovers_by_itself() {
        let room = StorageCapacity::default();
        assert_eq!(room.exhausted_reason(), None);
        room.ran_out("database or disk is full");
        assert_eq!(room.exhausted_reason().as_deref(), Some("database or disk is full"));
        assert!(!room.has_room_for_a_refusal());
        assert_eq!(room.reserve_reason().as_deref(), Some("database or disk is full"));
        assert_eq!(room.dropped_count(), 1);
        room.update(StorageUsage::default());
        assert_eq!((room.exhausted_reason(), room.reserve_reason(), room.has_room_for_a_refusal()), (None, None, true));
    }
}
