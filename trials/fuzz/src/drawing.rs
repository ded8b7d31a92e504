//! Draws the numbers from which a text is built. They come from a random number generator, or from the bytes of a
//! coverage-guided fuzzer.

use std::ops::Bound;

use bolero::Driver;

/// A number below `end`, which must not be zero.
pub(crate) fn below<D: Driver>(driver: &mut D, end: usize) -> Option<usize> {
    driver.gen_usize(Bound::Included(&0), Bound::Excluded(&end.max(1)))
}

/// One of the items; `None` if there are none.
pub(crate) fn one_of<'a, T, D: Driver>(driver: &mut D, all: &'a [T]) -> Option<&'a T> {
    all.get(below(driver, all.len())?)
}

/// The length of a text: mostly short, and for one in a hundred up to the longest allowed.
pub(crate) fn length<D: Driver>(driver: &mut D, bytes_max: usize) -> Option<usize> {
    let most = match below(driver, 100)? {
        0 => bytes_max,
        1..=12 => 4_096,
        _ => 256,
    };
    below(driver, most.min(bytes_max) + 1)
}
