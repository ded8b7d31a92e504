//! Runs a reader over many texts on the stack of a worker thread and measures the processor time of each. A text is named by one number,
//! its seed, from which it can be made again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bolero::{
    ValueGenerator as _,
    generator::bolero_generator::driver::{Options, Rng},
};
use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng as _};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    grammar::{TEXT_BYTES_MAX, Texts},
    readers::Reader,
};

/// Processor time that a reader may take for every started 64 KB.
pub const LIMIT: Duration = Duration::from_millis(50);
/// The stack of a worker thread.
const STACK_BYTES: usize = 2 << 20;
/// Numbers that may be drawn for one text.
const DRAWN_BYTES_MAX: usize = 16 << 20;
/// Repeated measurements of a text that took too long: the machine may have been busy.
const LOOKS: usize = 3;

/// The seed of the text that is being read.
pub static CURRENT: AtomicU64 = AtomicU64::new(0);

/// What a reader did with many texts.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Texts read.
    pub inputs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Processor time for all of them.
    pub took: Duration,
    /// The most for any started 64 KB, and the seed of that text.
    pub slowest: (Duration, u64),
    /// What went wrong.
    pub failures: Vec<Failure>,
}

/// A text on which a reader panicked or took too long.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed of the text.
    pub seed: u64,
    /// What happened.
    pub what: String,
    /// The text.
    pub text: Vec<u8>,
}

/// Reads the texts of `count` seeds from `first` on. Without `timed` a slow text is not a failure: an unoptimised build, or a
/// busy machine, says nothing about time.
pub fn run(reader: &Reader, first: u64, count: u64, timed: bool) -> Figures {
    let mut figures = Figures::default();
    for seed in (0..count).map(|number| first.wrapping_add(number)) {
        CURRENT.store(seed, Ordering::Relaxed);
        let Some(text) = text_of(reader, seed) else { continue };
        figures.read(reader, seed, text, timed);
    }
    figures
}

/// Reads one text, with its time.
pub fn read_one(reader: &Reader, text: &[u8]) -> Figures {
    let mut figures = Figures::default();
    figures.read(reader, 0, text.to_vec(), true);
    figures
}

/// The text of a seed.
pub(crate) fn text_of(reader: &Reader, seed: u64) -> Option<Vec<u8>> {
    let options = Options::default().with_max_len(DRAWN_BYTES_MAX);
    Texts(&reader.grammar).generate(&mut Rng::new(Xoshiro256PlusPlus::seed_from_u64(seed), &options))
}

/// Runs `work` within the stack of a worker thread.
pub fn on_a_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("reader".to_owned()).stack_size(STACK_BYTES);
        let joined = thread.spawn_scoped(scope, work)?.join();
        joined.map_err(|_| std::io::Error::other("the thread of the reader panicked"))
    })
}

impl Figures {
    fn read(&mut self, reader: &Reader, seed: u64, text: Vec<u8>, timed: bool) {
        let portions = u32::try_from(text.len().div_ceil(TEXT_BYTES_MAX)).unwrap_or(u32::MAX).max(1);
        self.inputs += 1;
        self.bytes += text.len() as u64;
        let mut best = Duration::MAX;
        for look in 0..LOOKS {
            let started = processor_time();
            let outcome = catch_unwind(AssertUnwindSafe(|| (reader.read)(&text)));
            let took = processor_time().saturating_sub(started);
            if look == 0 {
                self.took += took;
            }
            if outcome.is_err() {
                self.failures.push(Failure { seed, what: "a panic".to_owned(), text });
                return;
            }
            best = best.min(took / portions);
            if best <= LIMIT || !timed {
                break;
            }
        }
        if best > self.slowest.0 {
            self.slowest = (best, seed);
        }
        if timed && best > LIMIT {
            self.failures.push(Failure { seed, what: format!("{} ms", best.as_millis()), text });
        }
    }

    /// Adds the figures of another batch of the same reader.
    pub fn add(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.bytes += other.bytes;
        self.took += other.took;
        self.slowest = self.slowest.max(other.slowest);
        self.failures.extend(other.failures);
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}
