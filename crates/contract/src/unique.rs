//! Unique ids without a system call for each: every thread has a generator, which the operating system seeds once.
//!
//! An id is a block of SHA-256 over the thread's seed and a counter, so one id reveals nothing about another. Deliberately not
//! for secrets: session ids, nonces and keys come from the operating system, because a seed in memory would reveal them.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use sha2::{Digest as _, Sha256};
use uuid::{Builder, NoContext, Uuid};

/// The bits of a version 7 UUID that follow its milliseconds: a fraction of the millisecond here.
const FRACTION_BITS: u32 = 12;
const NANOSECONDS_PER_MS: u64 = 1_000_000;

/// When the latest id was made: milliseconds of Unix time and a fraction of [`FRACTION_BITS`].
static LATEST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SOURCE: ThreadGenerator = ThreadGenerator::seeded();
}

/// A new id (UUID version 4).
pub fn random() -> Uuid {
    Builder::from_random_bytes(drawn()).into_uuid()
}

/// A new id (UUID version 7); ids that a process makes later sort later, whichever thread makes them.
pub fn time_ordered() -> Uuid {
    let (seconds, nanoseconds) = uuid::Timestamp::now(NoContext).to_unix();
    let (milliseconds, fraction) = split(after_the_latest(moment(seconds, nanoseconds)));
    let mut rest = [0; 10];
    for (to, from) in rest.iter_mut().zip(fraction.to_be_bytes().into_iter().chain(drawn())) {
        *to = from;
    }
    Builder::from_unix_timestamp_millis(milliseconds, &rest).into_uuid()
}

/// The generator of one thread.
struct ThreadGenerator {
    seed: [u8; 32],
    drawn: Cell<u64>,
}

impl ThreadGenerator {
    fn seeded() -> Self {
        let mut seed = [0; 32];
        let (first, second) = seed.split_at_mut(16);
        // Version 4 UUIDs are the operating system's random bytes, 122 bits of each.
        first.copy_from_slice(Uuid::new_v4().as_bytes());
        second.copy_from_slice(Uuid::new_v4().as_bytes());
        Self { seed, drawn: Cell::new(0) }
    }

    fn draw(&self) -> [u8; 16] {
        let number = self.drawn.get();
        self.drawn.set(number.wrapping_add(1));
        let block = Sha256::new().chain_update(self.seed).chain_update(number.to_be_bytes()).finalize();
        let mut drawn = [0; 16];
        for (to, from) in drawn.iter_mut().zip(block) {
            *to = from;
        }
        drawn
    }
}

fn drawn() -> [u8; 16] {
    // A thread that is ending has already dropped its generator.
    SOURCE.try_with(ThreadGenerator::draw).unwrap_or_else(|_| ThreadGenerator::seeded().draw())
}

fn moment(seconds: u64, nanoseconds: u32) -> u64 {
    let nanoseconds = u64::from(nanoseconds);
    let milliseconds = seconds.saturating_mul(1_000).saturating_add(nanoseconds / NANOSECONDS_PER_MS);
    let fraction = ((nanoseconds % NANOSECONDS_PER_MS) << FRACTION_BITS) / NANOSECONDS_PER_MS;
    (milliseconds << FRACTION_BITS) | fraction
}

/// The present moment, or the first one after the latest id if the clock stands still or goes back.
fn after_the_latest(now: u64) -> u64 {
    let next = |latest: u64| now.max(latest.saturating_add(1));
    let mut latest = LATEST.load(Ordering::Relaxed);
    loop {
        match LATEST.compare_exchange_weak(latest, next(latest), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(latest) => return next(latest),
            Err(other) => latest = other,
        }
    }
}

/// Milliseconds and fraction.
fn split(moment: u64) -> (u64, u16) {
    let fraction = moment & ((1 << FRACTION_BITS) - 1);
    (moment >> FRACTION_BITS, u16::try_from(fraction).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_over_threads_and_sort_by_when_they_were_made() {
        const EACH: usize = 5_000;
        let make = || {
            let ids: Vec<Uuid> = (0..EACH).map(|_| time_ordered()).collect();
            assert!(ids.is_sorted_by(|one, other| one < other), "later ids sort later");
            let random: Vec<Uuid> = (0..EACH).map(|_| random()).collect();
            [ids, random].concat()
        };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
        let ids: BTreeSet<Uuid> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ids.len(), 4 * 2 * EACH);
    }

    #[test]
    fn ids_are_uuids_of_their_version() {
        assert_eq!((random().get_version_num(), random().get_variant()), (4, uuid::Variant::RFC4122));
        let id = time_ordered();
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let (now, _) = uuid::Timestamp::now(NoContext).to_unix();
        let (made, _) = id.get_timestamp().unwrap().to_unix();
        assert!(now.abs_diff(made) < 3_600, "its time is now");
    }

    #[test]
    fn two_threads_draw_from_two_seeds() {
        let seed = || SOURCE.with(|source| source.seed);
        assert_ne!(std::thread::spawn(seed).join().unwrap(), seed());
    }

    #[test]
    fn a_moment_has_milliseconds_and_a_fraction() {
        assert_eq!(split(moment(1, 2_500_000)), (1_002, 2_048));
        assert_eq!(split(moment(1, 999_999_999)), (1_999, 4_095));
        let later = after_the_latest(0);
        assert!(after_the_latest(0) > later, "a clock that goes back does not repeat a moment");
    }
}
