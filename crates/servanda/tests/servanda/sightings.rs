//! What a test last saw of the product. A wait that times out shows it, so that a failed test reports the state it found. All helpers that
//! ask the product (answers over HTTP, commands, the log, the ledger, processes) note here what came back.

use std::{cell::RefCell, fmt::Display};

/// How much of one sighting is shown: its end, where the news is.
const SHOWN_CHARACTERS_MAX: usize = 4_000;

thread_local! {
    static SEEN: RefCell<Vec<(&'static str, String)>> = const { RefCell::new(Vec::new()) };
}

/// Notes what was found; a later look at the same thing replaces it.
pub(crate) fn saw(what: &'static str, state: impl Display) {
    SEEN.with_borrow_mut(|seen| {
        seen.retain(|(known, _)| *known != what);
        seen.push((what, state.to_string()));
    });
}

/// Forgets earlier sightings, because a new look begins.
pub(crate) fn look_again() {
    SEEN.with_borrow_mut(Vec::clear);
}

/// The sightings since the last look began.
pub(crate) fn shown() -> String {
    let seen = SEEN.with_borrow(Clone::clone);
    if seen.is_empty() {
        return "nothing was there to be seen".to_owned();
    }
    let one = |(what, state): &(&str, String)| {
        let from = state.char_indices().rev().nth(SHOWN_CHARACTERS_MAX).map_or(0, |(at, _)| at);
        format!("{what}: {}", &state[from..])
    };
    seen.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_wait_in_vain_shows_the_state_that_was_found() {
    saw("an earlier wait", "is over");
    let mut count = 0;
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        crate::world::until_within(std::time::Duration::ZERO, "the count to be 3", || {
            count += 1;
            saw("the count", count);
            None::<()>
        });
    }));
    let said = *waited.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(said, "waited in vain for the count to be 3; last seen:\nthe count: 1");
}
