//! An allocator that counts, for each thread by itself: how often memory was asked for, and how much of it is held.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator, with a count.
#[derive(Debug)]
pub(crate) struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
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

fn count() {
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
        count();
        hold(layout.size(), 0);
        // SAFETY: the caller keeps to the same terms.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        hold(layout.size(), 0);
        // SAFETY: the caller keeps to the same terms.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
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
