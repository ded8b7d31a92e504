//! Numbers by which a text is put together, drawn from whatever drives the trial: a generator of random numbers, or the bytes
//! of a fuzzer that looks at coverage.

use std::ops::Bound;

use bolero::Driver;

/// A number below `end`, which is more than nothing.
pub(crate) fn below<D: Driver>(driver: &mut D, end: usize) -> Option<usize> {
    driver.gen_usize(Bound::Included(&0), Bound::Excluded(&end.max(1)))
}

/// One of them; none if there are none.
pub(crate) fn one_of<'a, T, D: Driver>(driver: &mut D, all: &'a [T]) -> Option<&'a T> {
    all.get(below(driver, all.len())?)
}

/// How long a text is to be: mostly short, of a hundred one as long as is allowed.
pub(crate) fn length<D: Driver>(driver: &mut D, bytes_max: usize) -> Option<usize> {
    let most = match below(driver, 100)? {
        0 => bytes_max,
        1..=12 => 4_096,
        _ => 256,
    };
    below(driver, most.min(bytes_max) + 1)
}
