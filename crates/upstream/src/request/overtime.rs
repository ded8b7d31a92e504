//! Reading on after the deadline of a call that may have changed something. For its caller the call is over. Its answer still settles
//! whether the effect happened, so a limited number of such calls wait for it for a limited time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};

use super::pausable_deadline::PausableDeadline;
use crate::{PerformFailure, UpstreamLimits};

/// The time after one call's deadline.
#[derive(Debug)]
pub(crate) struct Overtime {
    places: Arc<Semaphore>,
    ms_max: u64,
    /// What the caller was told when the deadline passed.
    told: watch::Sender<Option<PerformFailure>>,
    /// Held until this is dropped.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Overtime {
    pub(crate) fn new(places: &Arc<Semaphore>, limits: &UpstreamLimits) -> Arc<Self> {
        let (told, _) = watch::channel(None);
        Arc::new(Self { places: Arc::clone(places), ms_max: limits.late_answer_ms_max, told, place: Mutex::default() })
    }

    /// Begins the time after the deadline; the caller gets `failure`. Returns how long the answer is still awaited; none if too many calls
    /// wait already.
    pub(crate) fn begin(&self, failure: &PerformFailure) -> Option<PausableDeadline> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        self.told.send_replace(Some(failure.clone()));
        Some(PausableDeadline::until(Instant::now() + Duration::from_millis(self.ms_max)))
    }

    /// Whether the time after the deadline has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.told.borrow().is_some()
    }

    /// What the caller was told, if anything.
    pub(crate) fn failure(&self) -> Option<PerformFailure> {
        self.told.borrow().clone()
    }

    /// Waits until the caller has to be told, and returns what. Cancel safe.
    pub(crate) async fn begun(&self) -> PerformFailure {
        let mut told = self.told.subscribe();
        match told.wait_for(Option::is_some).await.map(|told| told.clone()) {
            Ok(Some(failure)) => failure,
            // This object owns the sender, so the sender exists.
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_are_waited_for_and_not_for_ever() {
        let limits = UpstreamLimits { late_answer_ms_max: 7_000, ..UpstreamLimits::default() };
        let places = Arc::new(Semaphore::new(1));
        let [first, second] = [0, 1].map(|_| Overtime::new(&places, &limits));
        let late = PerformFailure::TimedOut { note: None };
        assert!(!first.has_begun());
        let began = Instant::now();
        let pausable_deadline = first.begin(&late).expect("a place");
        assert!(first.has_begun() && matches!(first.begun().await, PerformFailure::TimedOut { .. }));
        assert!(second.begin(&late).is_none() && !second.has_begun(), "there is no second place");
        pausable_deadline.over().await;
        assert_eq!(began.elapsed(), Duration::from_secs(7), "virtual time");
        drop(first);
        assert!(second.begin(&late).is_some(), "the place is free again");
    }
}
