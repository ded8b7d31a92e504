//! The state machine, event by event.

use super::*;
use crate::{
    testing::in_ms,
    token::testing::{KEYS, set_of},
};

const TERMS: KeyCachePolicy = KeyCachePolicy {
    fresh_ms_max: 600_000,
    stale_ms_max: 3_600_000,
    fetch_interval_ms_min: 30_000,
    fetch_ms_max: 10_000,
};

/// Columns: the time, the event, how many fetches it causes, the key, and what can be used for it then.
struct Row(u64, Do, usize, &'static str, Expect);

#[derive(Clone, Copy)]
enum Do {
    Ask(&'static str),
    Bring(&'static [&'static str]),
    Fail,
}

#[derive(Debug, PartialEq)]
enum Expect {
    Use,
    Wait,
    UnknownKid,
    Unavailable,
}

fn play(rows: &[Row]) {
    let mut cache = KeyCache::default();
    for (index, Row(at_ms, what, fetches, kid, expected)) in rows.iter().enumerate() {
        let event = match what {
            Do::Ask(kid) => KeyCacheEvent::Asked { kid: Some((*kid).to_owned()) },
            Do::Bring(kinds) => {
                KeyCacheEvent::Fetched(set_of(&kinds.iter().map(|kind| KEYS.jwk(kind)).collect::<Vec<_>>()))
            }
            Do::Fail => KeyCacheEvent::FetchFailed,
        };
        let (next, actions) = step(cache, &TERMS, event, in_ms(*at_ms));
        cache = next;
        assert_eq!(actions.len(), *fetches, "row {index}: fetches");
        let found = match cache.lookup(&TERMS, Some(*kid), in_ms(*at_ms)) {
            IssuerKeyLookup::Use(_) => Expect::Use,
            IssuerKeyLookup::Wait => Expect::Wait,
            IssuerKeyLookup::UnknownKid => Expect::UnknownKid,
            IssuerKeyLookup::Unavailable => Expect::Unavailable,
        };
        assert_eq!(found, *expected, "row {index}");
    }
}

#[test]
fn a_first_token_fetches_once_for_all_tokens() {
    play(&[
        Row(0, Do::Ask("ed"), 1, "ed", Expect::Wait),
        Row(1, Do::Ask("ed"), 0, "ed", Expect::Wait),
        Row(2, Do::Bring(&["ed"]), 0, "ed", Expect::Use),
        Row(3, Do::Ask("ed"), 0, "ed", Expect::Use),
    ]);
}

#[test]
fn unknown_keys_cost_one_fetch_a_while() {
    play(&[
        Row(0, Do::Ask("ed"), 1, "ed", Expect::Wait),
        Row(1, Do::Bring(&["ed"]), 0, "ed", Expect::Use),
        Row(100, Do::Ask("forged"), 0, "forged", Expect::UnknownKid),
        Row(29_999, Do::Ask("forged"), 0, "forged", Expect::UnknownKid),
        Row(30_000, Do::Ask("forged"), 1, "forged", Expect::Wait),
        Row(30_001, Do::Ask("forged-2"), 0, "ed", Expect::Use),
        Row(30_002, Do::Bring(&["ed"]), 0, "forged", Expect::UnknownKid),
        Row(30_003, Do::Ask("forged"), 0, "forged", Expect::UnknownKid),
    ]);
}

#[test]
fn keys_that_were_rotated_come_and_go() {
    play(&[
        Row(0, Do::Ask("ed"), 1, "ed", Expect::Wait),
        Row(1, Do::Bring(&["ed"]), 0, "p256", Expect::UnknownKid),
        Row(40_000, Do::Ask("p256"), 1, "p256", Expect::Wait),
        Row(40_001, Do::Bring(&["ed", "p256"]), 0, "p256", Expect::Use),
        Row(640_001, Do::Ask("p256"), 1, "p256", Expect::Use),
        Row(640_002, Do::Bring(&["p256"]), 0, "ed", Expect::UnknownKid),
    ]);
}

#[test]
fn an_unreachable_issuer_locks_its_users_out_late_but_finally() {
    play(&[
        Row(0, Do::Ask("ed"), 1, "ed", Expect::Wait),
        Row(0, Do::Bring(&["ed"]), 0, "ed", Expect::Use),
        Row(600_000, Do::Ask("ed"), 1, "ed", Expect::Use),
        Row(600_001, Do::Fail, 0, "ed", Expect::Use),
        Row(600_002, Do::Ask("ed"), 0, "ed", Expect::Use),
        Row(630_000, Do::Ask("ed"), 1, "ed", Expect::Use),
        Row(630_001, Do::Fail, 0, "ed", Expect::Use),
        Row(3_599_999, Do::Fail, 0, "ed", Expect::Use),
        Row(3_600_000, Do::Fail, 0, "ed", Expect::Unavailable),
        Row(3_600_000, Do::Ask("ed"), 1, "ed", Expect::Wait),
    ]);
}

#[test]
fn a_fetch_without_a_report_counts_as_lost() {
    play(&[
        Row(0, Do::Ask("ed"), 1, "ed", Expect::Wait),
        Row(9_999, Do::Ask("ed"), 0, "ed", Expect::Wait),
        Row(10_000, Do::Ask("ed"), 0, "ed", Expect::Unavailable),
        Row(30_000, Do::Ask("ed"), 1, "ed", Expect::Wait),
    ]);
}
