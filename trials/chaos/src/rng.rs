//! Random numbers from a seed: the same seed gives the same schedule. `SplitMix64`, because nothing here needs more.

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another generator seeded by this one, so that concurrent tasks do not disturb each other's numbers.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    /// True with this probability in thousandths.
    pub fn permille(&mut self, share: u64) -> bool {
        self.next() % 1000 < share
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % (length.max(1) as u64)).unwrap_or(0)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}
