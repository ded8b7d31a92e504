//! An allocator that counts: for each thread by itself how often memory was asked for and how much of it is held, and for all threads
//! together how often and how much was asked for.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

/// The system's allocator, with a count.
#[derive(Debug)]
pub(crate) struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
}

static ALLOCATIONS_OF_ALL: AtomicU64 = AtomicU64::new(0);
static BYTES_OF_ALL: AtomicU64 = AtomicU64::new(0);

/// What was asked of the allocator. Whoever asks for more room for what it has is counted with all of it: it may be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// How often.
    pub(crate) allocations: u64,
    /// For how many bytes.
    pub(crate) bytes: u64,
}

impl Asked {
    /// What was asked since then.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self { allocations: self.allocations - before.allocations, bytes: self.bytes - before.bytes }
    }
}

/// What all threads of the process have asked for.
pub(crate) fn asked_by_all() -> Asked {
    Asked { allocations: ALLOCATIONS_OF_ALL.load(Ordering::Relaxed), bytes: BYTES_OF_ALL.load(Ordering::Relaxed) }
}

/// How often this thread has asked for memory.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// The bytes that this thread has asked for and not given back. What another thread gave back for it is not taken off.
#[cfg(test)]
pub(crate) fn held_bytes() -> i64 {
    HELD_BYTES.with(Cell::get)
}

fn count(bytes: usize) {
    ALLOCATIONS_OF_ALL.fetch_add(1, Ordering::Relaxed);
    BYTES_OF_ALL.fetch_add(bytes as u64, Ordering::Relaxed);
    // A thread that is ending has no count any more, and nobody asks for it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

fn hold(bytes: usize, given_back: usize) {
    let change = i64::try_from(bytes).unwrap_or(0) - i64::try_from(given_back).unwrap_or(0);
    let _ = HELD_BYTES.try_with(|held| held.set(held.get() + change));
}

// SAFETY: everything is handed to the system's allocator as it came; the counts are numbers of the thread's own, made without
// allocating and never dropped.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        hold(layout.size(), 0);
        // SAFETY: the caller keeps to the same terms.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        hold(layout.size(), 0);
        // SAFETY: the caller keeps to the same terms.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        hold(bytes, layout.size());
        // SAFETY: the caller keeps to the same terms.
        unsafe { System.realloc(block, layout, bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: the caller keeps to the same terms.
        unsafe { System.dealloc(block, layout) }
    }
}
