//! Ledger time: what counts as time, and what a jumping clock or an absent store does to leases and windows.

use super::{Completed, Dispatching, Expired, HOUR_MS, K, LEASE_MS, NOW_MS, Unknown, at, began, effect, follows};
use crate::effect::{EffectContext, EffectEvent, LedgerClock, LedgerNow};

const TICK_MS: u64 = LEASE_MS / 3;

#[test]
fn ledger_time_never_goes_back_and_never_leaps() {
    let clock = LedgerClock { seen_ms: NOW_MS, ledger_ms: 77 };
    let table = [
        // the store's clock, the expected ledger time
        (NOW_MS, 77),
        (NOW_MS + 1_234, 77 + 1_234),
        (NOW_MS + TICK_MS, 77 + TICK_MS),
        (NOW_MS + 60_000, 77 + TICK_MS),
        (NOW_MS + HOUR_MS, 77 + TICK_MS),
        (NOW_MS - HOUR_MS, 77),
    ];
    for (now_ms, ledger_ms) in table {
        let now = clock.at(now_ms);
        assert_eq!(now, LedgerNow { now_ms, ledger_ms });
        let kept = clock.clock_to_store(now);
        let is_due = !(NOW_MS..NOW_MS + 1_000).contains(&now_ms);
        assert_eq!(kept, is_due.then_some(LedgerClock { seen_ms: now_ms, ledger_ms }), "{now_ms}");
    }
}

/// After a clock went back, ledger time goes on from where it was: nothing waits until the clock has caught up.
#[test]
fn a_clock_that_went_back_does_not_stop_the_time() {
    let mut clock = LedgerClock::starting(NOW_MS);
    let mut ledger_ms = Vec::new();
    for now_ms in [NOW_MS + 1_000, NOW_MS - HOUR_MS, NOW_MS - HOUR_MS + 1_000, NOW_MS - HOUR_MS + 2_000] {
        let now = clock.at(now_ms);
        ledger_ms.push(now.ledger_ms - NOW_MS);
        clock = clock.clock_to_store(now).unwrap_or(clock);
    }
    assert_eq!(ledger_ms, [1_000, 1_000, 2_000, 3_000]);
}

#[test]
fn a_store_that_was_away_makes_no_owner_look_gone() {
    let clock = LedgerClock::starting(NOW_MS);
    let heard_ms = Some(NOW_MS - 2 * TICK_MS);
    assert!(!clock.at(NOW_MS + 60_000).is_owner_gone(heard_ms), "a minute away counts as a tick");
    assert!(clock.at(NOW_MS + 60_000).is_owner_gone(Some(NOW_MS - 2 * TICK_MS - 1)));
    assert!(clock.at(NOW_MS).is_owner_gone(None), "an owner that never beat has only its leases");
}

#[test]
fn what_was_used_within_its_window_survives_a_jump() {
    let done = effect(K, Completed);
    let jumped = EffectContext { now_ms: NOW_MS + 10 * HOUR_MS, ..at(NOW_MS + TICK_MS) };
    assert_eq!(follows(&done, &began(K), &jumped), (Completed, "replay"));
    assert_eq!(follows(&done, &EffectEvent::Expire, &jumped), (Completed, "not now"));
    assert_eq!(follows(&done, &EffectEvent::Expire, &at(NOW_MS + HOUR_MS)), (Expired, "settled"));
}

/// For the upstream's window, the clock by which more time has passed counts.
#[test]
fn a_key_is_not_sent_again_if_either_time_says_that_its_window_is_over() {
    let unknown = effect(K, Unknown);
    let clock_ahead = EffectContext { now_ms: NOW_MS + HOUR_MS, ..at(NOW_MS + TICK_MS) };
    let clock_back = EffectContext { now_ms: NOW_MS - HOUR_MS, ..at(NOW_MS + HOUR_MS) };
    for around in [clock_ahead, clock_back] {
        assert_eq!(follows(&unknown, &began(K), &around), (Unknown, "unknown"), "{around:?}");
    }
    let neither = EffectContext { now_ms: NOW_MS - HOUR_MS, ..at(NOW_MS + TICK_MS) };
    assert_eq!(follows(&unknown, &began(K), &neither), (Dispatching, "mine"));
}
