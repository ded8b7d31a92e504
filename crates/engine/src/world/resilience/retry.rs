//! Decides whether a failed call is sent again: only if that is provably safe, only for failures that may pass by themselves, and only
//! while the caller waits.

use servanda_contract::tool::{EffectClass, RetryPolicy};
use servanda_upstream::PerformFailure;

/// How long a retry waits if the contract does not say.
const POLICY_DEFAULT: RetryPolicy = RetryPolicy { base_ms: 100, wait_ms_max: 5_000, jitter_percent: 50 };

/// A call that failed, and what the decision depends on.
#[derive(Debug)]
pub(crate) struct FailedAttempt<'a> {
    pub(crate) class: EffectClass,
    pub(crate) failure: &'a PerformFailure,
    /// How many attempts were made.
    pub(crate) made: u32,
    /// How many further attempts are allowed.
    pub(crate) retries_max: u32,
    pub(crate) policy: Option<&'a RetryPolicy>,
    /// Any number.
    pub(crate) random: u64,
    /// How long the caller still waits.
    pub(crate) left_ms: u64,
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// The same bytes are sent again after a wait.
    Again {
        /// The length of the wait.
        wait_ms: u64,
    },
    /// The call is not sent again.
    Stop,
    /// A repeat was wanted but would not be safe.
    Unsafe,
}

/// Decides what follows a failure.
pub(crate) fn decide(attempt: &FailedAttempt<'_>) -> RetryDecision {
    if attempt.retries_max == 0 || attempt.made > attempt.retries_max || !passes_by_itself(attempt.failure) {
        return RetryDecision::Stop;
    }
    let repeatable = matches!(attempt.class, EffectClass::R | EffectClass::K);
    if !attempt.failure.provably_not_executed() && !repeatable {
        return RetryDecision::Unsafe;
    }
    let wait_ms = backoff_ms(attempt).max(asked_ms(attempt.failure));
    if wait_ms < attempt.left_ms { RetryDecision::Again { wait_ms } } else { RetryDecision::Stop }
}

/// Whether the same call may well succeed a moment later.
fn passes_by_itself(failure: &PerformFailure) -> bool {
    match failure {
        PerformFailure::Unavailable { .. }
        | PerformFailure::Busy { .. }
        | PerformFailure::Died { .. }
        | PerformFailure::TimedOut { .. } => true,
        PerformFailure::HttpStatus { status, .. } => *status == 429 || *status >= 500,
        PerformFailure::Cancelled { .. }
        | PerformFailure::NotPresented(_)
        | PerformFailure::NotLetIn { .. }
        | PerformFailure::Rejected { .. }
        | PerformFailure::TooLarge { .. }
        | PerformFailure::Malformed { .. } => false,
    }
}

fn asked_ms(failure: &PerformFailure) -> u64 {
    match failure {
        PerformFailure::HttpStatus { retry_after_ms, .. } => retry_after_ms.unwrap_or(0),
        _ => 0,
    }
}

/// Twice as long each time, with a random part, so that many callers do not come back at once.
fn backoff_ms(attempt: &FailedAttempt<'_>) -> u64 {
    let RetryPolicy { base_ms, wait_ms_max, jitter_percent } = attempt.policy.unwrap_or(&POLICY_DEFAULT);
    let doublings = attempt.made.saturating_sub(1).min(63);
    let whole_ms = base_ms.saturating_mul(1 << doublings).min(*wait_ms_max);
    let random_ms = whole_ms.saturating_mul(u64::from((*jitter_percent).min(100))) / 100;
    let chosen_ms = if random_ms == 0 { 0 } else { attempt.random % (random_ms + 1) };
    whole_ms - random_ms + chosen_ms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use servanda_contract::tool::{EffectClass, RetryPolicy};
    use servanda_mcp::RpcError;
    use servanda_upstream::PerformFailure;

    use super::{FailedAttempt, RetryDecision, decide};
    use EffectClass::{K, N, Q, R};

    fn attempt(class: EffectClass, failure: &PerformFailure) -> FailedAttempt<'_> {
        FailedAttempt { class, failure, made: 1, retries_max: 2, policy: None, random: 0, left_ms: 60_000 }
    }

    fn died() -> PerformFailure {
        PerformFailure::Died { why: "reset".to_owned() }
    }

    fn status(status: u16, retry_after_ms: Option<u64>) -> PerformFailure {
        PerformFailure::HttpStatus { status, excerpt: String::new(), retry_after_ms }
    }

    #[test]
    fn only_what_is_provably_safe_is_sent_again() {
        let again = RetryDecision::Again { wait_ms: 50 };
        let unavailable = PerformFailure::Unavailable { why: "refused".to_owned() };
        let rejected = crate::answers::upstream_failure::rejected(RpcError::new(-32603, "boom"));
        let table = [
            // failure, for R, K, Q, N
            (unavailable, [again; 4]),
            (PerformFailure::Busy { in_flight_max: 1 }, [again; 4]),
            (died(), [again, again, RetryDecision::Unsafe, RetryDecision::Unsafe]),
            (PerformFailure::TimedOut { note: None }, [again, again, RetryDecision::Unsafe, RetryDecision::Unsafe]),
            (status(503, None), [again, again, RetryDecision::Unsafe, RetryDecision::Unsafe]),
            (status(429, None), [again, again, RetryDecision::Unsafe, RetryDecision::Unsafe]),
            (status(400, None), [RetryDecision::Stop; 4]),
            (rejected, [RetryDecision::Stop; 4]),
            (PerformFailure::Cancelled { sent: false }, [RetryDecision::Stop; 4]),
            (PerformFailure::Cancelled { sent: true }, [RetryDecision::Stop; 4]),
            (PerformFailure::Malformed { why: String::new() }, [RetryDecision::Stop; 4]),
        ];
        for (failure, expected) in table {
            let found = [R, K, Q, N].map(|class| decide(&attempt(class, &failure)));
            assert_eq!(found, expected, "{failure}");
        }
    }

    #[test]
    fn as_often_as_the_contract_says_and_never_beyond_the_deadline() {
        let failure = died();
        let with =
            |made, retries_max, left_ms| decide(&FailedAttempt { made, retries_max, left_ms, ..attempt(K, &failure) });
        assert_eq!(with(1, 0, 60_000), RetryDecision::Stop);
        assert!(matches!(with(2, 2, 60_000), RetryDecision::Again { .. }));
        assert_eq!(with(3, 2, 60_000), RetryDecision::Stop);
        assert_eq!(with(1, 2, 50), RetryDecision::Stop);
        assert!(matches!(with(1, 2, 51), RetryDecision::Again { .. }));
    }

    #[test]
    fn a_busy_server_says_itself_when_it_wants_to_be_asked() {
        let failure = status(503, Some(2_000));
        assert_eq!(decide(&attempt(R, &failure)), RetryDecision::Again { wait_ms: 2_000 });
        let later = status(503, Some(60_000));
        assert_eq!(decide(&attempt(R, &later)), RetryDecision::Stop);
    }

    proptest! {
        #[test]
        fn waits_grow_within_their_limits(made in 1u32..100, random: u64, jitter in 0u8..=100, base_ms in 1u64..10_000) {
            let policy = RetryPolicy { base_ms, wait_ms_max: 5_000, jitter_percent: jitter };
            let failure = died();
            let attempt = FailedAttempt {
                made, retries_max: 1_000, policy: Some(&policy), random, left_ms: u64::MAX, ..attempt(R, &failure)
            };
            let RetryDecision::Again { wait_ms } = decide(&attempt) else { panic!("it is safe") };
            let whole_ms = base_ms.saturating_mul(2u64.saturating_pow(made - 1)).min(5_000);
            prop_assert!(wait_ms <= whole_ms);
            prop_assert!(wait_ms >= whole_ms - whole_ms * u64::from(jitter) / 100);
        }
    }
}
