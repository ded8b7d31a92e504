//! Token buckets: exact at their edges, and even over time.

use proptest::prelude::*;
use servanda_contract::tool::RateLimits;

use crate::budget::{Rate, ToolRateExceeded, ToolRateLimiter};

/// In the middle of an hour of 15 November 2026.
const NOW_MS: u64 = 1_794_735_332_007;

fn rate(max_requests: u64, window_sec: u64) -> Rate {
    Rate::from_limits(&RateLimits { window_sec, max_requests })
}

#[test]
fn a_bucket_is_full_at_first_and_fills_evenly() {
    let (mut rates, three) = (ToolRateLimiter::new(10), rate(3, 10));
    let mut take = |at_ms: u64| rates.take("acme", "mail", three, NOW_MS + at_ms);
    let denied = |retry_after_ms| Err(ToolRateExceeded { retry_after_ms, left: 0 });
    let table = [
        (0, Ok(2)),
        (0, Ok(1)),
        (0, Ok(0)),
        (0, denied(3_334)),
        (3_333, denied(1)),
        (3_334, Ok(0)),
        (3_334, denied(3_333)),
        // A clock that goes back adds no tokens.
        (1_000, denied(3_333)),
        (6_667, Ok(0)),
        (60_000, Ok(2)),
    ];
    for (at_ms, expected) in table {
        assert_eq!(take(at_ms), expected, "{at_ms}");
    }
    assert_eq!(rates.take("other", "mail", three, NOW_MS), Ok(2), "another tenant's is another one");
    assert_eq!(rates.take("acme", "post", three, NOW_MS), Ok(2), "and another tool's");
}

#[test]
fn a_changed_rate_keeps_what_was_used() {
    let mut rates = ToolRateLimiter::new(10);
    for _ in 0..3 {
        rates.take("acme", "mail", rate(10, 10), NOW_MS).unwrap();
    }
    assert_eq!(rates.take("acme", "mail", rate(5, 60), NOW_MS), Ok(1));
    assert_eq!(rates.take("acme", "mail", rate(100, 60), NOW_MS), Ok(95));
}

#[test]
fn full_buckets_make_room_and_used_ones_do_not() {
    let (mut rates, one) = (ToolRateLimiter::new(2), rate(1, 10));
    rates.take("acme", "a", one, NOW_MS).unwrap();
    rates.take("acme", "b", one, NOW_MS + 1_000).unwrap();
    assert_eq!(rates.take("acme", "c", one, NOW_MS + 2_000), Err(ToolRateExceeded { retry_after_ms: 8_000, left: 0 }));
    assert_eq!(rates.take("acme", "c", one, NOW_MS + 10_000), Ok(0), "the first is full again and dropped");
    assert!(rates.take("acme", "b", one, NOW_MS + 10_999).is_err(), "the other was not");
}

#[test]
fn the_greatest_numbers_are_counted_too() {
    let mut rates = ToolRateLimiter::new(1);
    let most = rate(u64::MAX, u64::MAX);
    assert!(rates.take("acme", "a", most, 0).is_ok());
    assert!(rates.take("acme", "a", most, u64::MAX).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any period at most a full bucket and what was added passes; and a caller that waits as told is let
    /// through.
    #[test]
    fn no_more_than_a_bucket_and_what_was_added(
        calls_max in 1..20u64, window_sec in 1..30u64, gaps in proptest::collection::vec(0..3_000u64, 1..200),
    ) {
        let (mut rates, rate) = (ToolRateLimiter::new(1), rate(calls_max, window_sec));
        let (mut now_ms, mut let_through) = (NOW_MS, Vec::new());
        for gap_ms in gaps {
            now_ms += gap_ms;
            match rates.take("acme", "a", rate, now_ms) {
                Ok(_) => let_through.push(now_ms),
                Err(denied) => {
                    prop_assert!(denied.retry_after_ms > 0);
                    now_ms += denied.retry_after_ms;
                    prop_assert!(rates.take("acme", "a", rate, now_ms).is_ok());
                    let_through.push(now_ms);
                }
            }
        }
        for (first, from_ms) in let_through.iter().enumerate() {
            for (last, to_ms) in let_through.iter().enumerate().skip(first) {
                let count = (last - first + 1) as u64;
                prop_assert!((count - 1) * window_sec * 1_000 <= (calls_max - 1) * window_sec * 1_000 + (to_ms - from_ms + 1) * calls_max);
            }
        }
    }
}
