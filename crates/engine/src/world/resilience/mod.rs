//! Protects a failing server: from repeats that are not provably safe, from repeats beyond a share of its calls, and from calls while
//! every call fails. There are three pure state machines, and a shell for each server around them.

mod breaker;
mod retry;
mod retry_budget;

use std::sync::{Mutex, PoisonError};

use servanda_upstream::{Answer, PerformFailure};
use tokio::time::Instant;

pub(crate) use self::{
    breaker::BreakerOpen,
    retry::{FailedAttempt, RetryDecision, decide},
};
use self::{
    breaker::{Breaker, BreakerEvent},
    retry_budget::RetryBudget,
};

/// The health of one server.
#[derive(Debug)]
pub(crate) struct UpstreamHealth {
    began: Instant,
    state: Mutex<(Breaker, RetryBudget)>,
}

impl Default for UpstreamHealth {
    fn default() -> Self {
        Self { began: Instant::now(), state: Mutex::default() }
    }
}

impl UpstreamHealth {
    /// Asks whether a call may be made now. A call that may is counted.
    pub(crate) fn admit_call(&self) -> Result<(), BreakerOpen> {
        self.with(|breaker, budget, now_ms| {
            breaker.step(BreakerEvent::CallWanted, now_ms)?;
            budget.count_call();
            Ok(())
        })
    }

    /// Whether no call may be made now. Nothing is counted, and no probe is used up.
    pub(crate) fn is_open(&self) -> bool {
        self.with(|breaker, _, now_ms| {
            let mut as_if = *breaker;
            as_if.step(BreakerEvent::CallWanted, now_ms).is_err()
        })
    }

    /// Asks whether a call may be repeated now.
    pub(crate) fn admit_retry(&self) -> Result<bool, BreakerOpen> {
        self.with(|breaker, budget, now_ms| {
            breaker.step(BreakerEvent::CallWanted, now_ms)?;
            Ok(budget.take())
        })
    }

    /// Records how a call ended.
    pub(crate) fn record_outcome(&self, outcome: &Result<Answer, PerformFailure>) {
        let happening = match outcome {
            Err(failure) if is_trouble(failure) => BreakerEvent::Failed,
            Err(PerformFailure::Cancelled { .. } | PerformFailure::Busy { .. }) => return,
            // An error is also an answer.
            Ok(_) | Err(_) => BreakerEvent::Answered,
        };
        self.with(|breaker, _, now_ms| {
            if let Err(BreakerOpen { retry_after_ms }) = breaker.step(happening, now_ms)
                && happening == BreakerEvent::Failed
            {
                tracing::warn!(
                    retry_after_ms,
                    "the last calls of an upstream all failed; no calls go to it for a while"
                );
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Breaker, &mut RetryBudget, u64) -> T) -> T {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (breaker, budget) = &mut *state;
        act(breaker, budget, now_ms)
    }
}

/// Whether a failure says something about the server rather than about the request.
fn is_trouble(failure: &PerformFailure) -> bool {
    match failure {
        PerformFailure::Unavailable { .. } | PerformFailure::Died { .. } | PerformFailure::TimedOut { .. } => true,
        PerformFailure::HttpStatus { status, .. } => *status >= 500,
        PerformFailure::Busy { .. }
        | PerformFailure::Cancelled { .. }
        | PerformFailure::NotPresented(_)
        | PerformFailure::NotLetIn { .. }
        | PerformFailure::Rejected { .. }
        | PerformFailure::TooLarge { .. }
        | PerformFailure::Malformed { .. } => false,
    }
}
