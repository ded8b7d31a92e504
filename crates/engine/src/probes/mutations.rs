//! Counts the calls of this process that may change something and are running, so that no call is blamed for another's change. They are
//! counted, never listed: a call pays two additions for it.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use std::sync::Arc;

use servanda_contract::record::Outcome;
use tokio::time::Instant;

/// For how long a call whose end is unknown, or that continues elsewhere, may still change something.
const LINGERS_MS: u64 = 300_000;

/// The calls that are running and may change something.
#[derive(Debug, Default)]
pub(crate) struct Mutations {
    begun: AtomicU64,
    under_way: AtomicU64,
    lingers_until: Mutex<Option<Instant>>,
}

/// One such call. Unless its end is reported, it may still be running when this is dropped.
#[derive(Debug)]
pub(crate) struct Mutation {
    among: Arc<Mutations>,
    is_over: bool,
}

/// Evidence that no such call was running at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quiescence {
    begun: u64,
}

impl Mutations {
    /// Counts a call that begins. Called before anything is sent.
    pub(crate) fn begin(self: &Arc<Self>) -> Mutation {
        // In this order, because `quiet` reads in the opposite order and so never takes the call for one that is over.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        Mutation { among: Arc::clone(self), is_over: false }
    }

    /// Evidence that no such call is running now, if none is.
    pub(crate) fn quiet(&self) -> Option<Quiescence> {
        let begun = self.begun.load(Ordering::SeqCst);
        let lingers = self.lingers().is_some_and(|until| Instant::now() < until);
        (self.under_way.load(Ordering::SeqCst) == 0 && !lingers).then_some(Quiescence { begun })
    }

    /// Whether no such call has begun since.
    pub(crate) fn is_still(&self, quiet: Quiescence) -> bool {
        self.begun.load(Ordering::SeqCst) == quiet.begun
    }

    fn lingers(&self) -> MutexGuard<'_, Option<Instant>> {
        self.lingers_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mutation {
    /// Reports how the call ended.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.is_over = matches!(outcome, Outcome::Completed | Outcome::ToolError | Outcome::NotExecuted);
    }
}

impl Drop for Mutation {
    fn drop(&mut self) {
        if !self.is_over {
            *self.among.lingers() = Some(Instant::now() + Duration::from_millis(LINGERS_MS));
        }
        self.among.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_call_is_alone_while_something_may_be_changed() {
        let mutations = Arc::new(Mutations::default());
        let quiet = mutations.quiet().unwrap();
        assert!(mutations.is_still(quiet));
        let one = mutations.begin();
        assert!(mutations.quiet().is_none(), "one is under way");
        one.end(Outcome::Completed);
        assert!(mutations.quiet().is_some());
        assert!(!mutations.is_still(quiet), "one came and went meanwhile");
        for outcome in [Outcome::Unknown, Outcome::TaskCreated, Outcome::InputRequired, Outcome::Quarantined] {
            mutations.begin().end(outcome);
            assert!(mutations.quiet().is_none(), "{outcome:?} may still be going on");
            tokio::time::advance(Duration::from_millis(LINGERS_MS)).await;
            assert!(mutations.quiet().is_some());
        }
        drop(mutations.begin());
        assert!(mutations.quiet().is_none(), "its end was not reported");
    }
}
