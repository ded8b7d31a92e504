//! Works on many items at once, with as many threads as there are processors. Not for work that waits.

use std::{num::NonZero, thread};

/// The most threads.
const THREADS_MAX: usize = 8;
/// Fewer items than this are not worth a thread.
const ITEMS_MIN: usize = 64;

/// Applies the work to each item. The results are in the order of the items.
pub fn map<I: Send, O: Send>(items: Vec<I>, work: impl Fn(I) -> O + Sync) -> Vec<O> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    if threads < 2 || items.len() < ITEMS_MIN {
        return items.into_iter().map(work).collect();
    }
    let part_len = items.len().div_ceil(threads);
    let mut items = items.into_iter();
    let work = &work;
    thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|_| {
                let part: Vec<I> = items.by_ref().take(part_len).collect();
                scope.spawn(move || part.into_iter().map(work).collect::<Vec<O>>())
            })
            .collect();
        let done = parts.into_iter().map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::{ITEMS_MIN, map};

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, ITEMS_MIN - 1, ITEMS_MIN, ITEMS_MIN + 1, 10 * ITEMS_MIN + 7] {
            let expected: Vec<usize> = (0..count).map(|item| item * 2).collect();
            assert_eq!(map((0..count).collect(), |item: usize| item * 2), expected, "{count}");
        }
    }
}
