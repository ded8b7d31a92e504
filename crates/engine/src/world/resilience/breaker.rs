//! The circuit breaker of a server. After so many failures in a row no call is made for a while; then a single call probes the server.

/// How many failures in a row open the breaker.
const FAILURES_MAX: u32 = 10;
/// How long the breaker stays open: the first time, and at most.
const OPEN_MS: (u64, u64) = (1_000, 30_000);

/// A circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breaker {
    /// Calls go through.
    Closed { failures: u32 },
    /// No call goes through until then.
    Open { until_ms: u64, open_ms: u64 },
    /// One call probes the server. If nothing is heard of it until then, another one may.
    HalfOpen { until_ms: u64, open_ms: u64 },
}

/// What happens to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakerEvent {
    /// A call wants to go through.
    CallWanted,
    /// The server answered.
    Answered,
    /// The server failed.
    Failed,
}

/// The breaker lets no call through now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BreakerOpen {
    /// How long until one may go through.
    pub(crate) retry_after_ms: u64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// The next state; an error if no call may be made.
    pub(super) fn step(&mut self, happening: BreakerEvent, now_ms: u64) -> Result<(), BreakerOpen> {
        let opened = |open_ms: u64| Self::Open { until_ms: now_ms.saturating_add(open_ms), open_ms };
        *self = match (*self, happening) {
            (Self::Open { until_ms, open_ms } | Self::HalfOpen { until_ms, open_ms }, BreakerEvent::CallWanted)
                if now_ms >= until_ms =>
            {
                *self = Self::HalfOpen { until_ms: now_ms.saturating_add(open_ms), open_ms };
                return Ok(());
            }
            (_, BreakerEvent::Answered) => Self::default(),
            (Self::Closed { failures }, BreakerEvent::Failed) if failures + 1 < FAILURES_MAX => {
                Self::Closed { failures: failures + 1 }
            }
            (Self::Closed { .. }, BreakerEvent::Failed) => opened(OPEN_MS.0),
            (Self::HalfOpen { open_ms, .. }, BreakerEvent::Failed) => opened(open_ms.saturating_mul(2).min(OPEN_MS.1)),
            // A call that is not let through, or one that was under way when the breaker opened.
            (same, BreakerEvent::CallWanted) | (same @ Self::Open { .. }, BreakerEvent::Failed) => same,
        };
        match *self {
            Self::Closed { .. } => Ok(()),
            Self::Open { until_ms, .. } | Self::HalfOpen { until_ms, .. } => {
                Err(BreakerOpen { retry_after_ms: until_ms.saturating_sub(now_ms).max(1) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, BreakerEvent::*, BreakerOpen, FAILURES_MAX, OPEN_MS};

    fn failing(times: u32) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..times {
            let _ = breaker.step(Failed, 0);
        }
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_only_then() {
        let mut nearly = failing(FAILURES_MAX - 1);
        assert_eq!(nearly.step(CallWanted, 0), Ok(()));
        assert_eq!(nearly.step(Answered, 0), Ok(()));
        assert_eq!(nearly, Breaker::default(), "an answer is a new beginning");
        assert_eq!(failing(FAILURES_MAX).step(CallWanted, 0), Err(BreakerOpen { retry_after_ms: OPEN_MS.0 }));
    }

    #[test]
    fn one_call_finds_out_and_the_others_wait() {
        let mut breaker = failing(FAILURES_MAX);
        assert!(breaker.step(CallWanted, OPEN_MS.0 - 1).is_err());
        assert!(breaker.step(CallWanted, OPEN_MS.0).is_ok());
        assert!(breaker.step(CallWanted, OPEN_MS.0).is_err(), "one is enough");
        let mut healed = breaker;
        assert_eq!(healed.step(Answered, OPEN_MS.0 + 1), Ok(()));
        assert_eq!(healed, Breaker::default());
        let still = breaker.step(Failed, OPEN_MS.0 + 1);
        assert_eq!(still, Err(BreakerOpen { retry_after_ms: 2 * OPEN_MS.0 }), "each time longer");
    }

    #[test]
    fn a_probe_that_is_never_heard_of_again_does_not_shut_it_for_ever() {
        let mut breaker = failing(FAILURES_MAX);
        assert!(breaker.step(CallWanted, OPEN_MS.0).is_ok());
        assert!(breaker.step(CallWanted, 2 * OPEN_MS.0).is_ok());
    }

    #[test]
    fn it_is_never_shut_for_longer_than_the_most() {
        let (mut breaker, mut now_ms) = (failing(FAILURES_MAX), 0);
        for _ in 0..20 {
            let Err(BreakerOpen { retry_after_ms }) = breaker.step(CallWanted, now_ms) else { panic!("it is open") };
            assert!(retry_after_ms <= OPEN_MS.1);
            now_ms += retry_after_ms;
            assert!(breaker.step(CallWanted, now_ms).is_ok());
            let _ = breaker.step(Failed, now_ms);
        }
    }
}
