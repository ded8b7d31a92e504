//! What is watched at a server: the resources and tasks that clients want to hear about, over all connections, and which of them the
//! present connection's subscription was granted.
//!
//! It does not know which clients want it or how many; `listening` asks the server.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};

use crate::PerformFailure;

/// What is watched.
#[derive(Debug)]
pub(crate) struct UpstreamWatches {
    subjects_max: usize,
    watched: watch::Sender<WatchedSubjects>,
    outcome: watch::Sender<Option<WatchOutcome>>,
    /// Taken for one change at a time, so that a refusal concerns a single subject.
    pub(crate) change_lock: Mutex<()>,
}

/// One thing that can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WatchSubject {
    /// A resource, by its URI.
    Resource(String),
    /// A modern task, by its id.
    Task(String),
}

/// Everything that is wanted. The revision counts its changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WatchedSubjects {
    pub(crate) revision: u64,
    pub(crate) resources: BTreeSet<String>,
    pub(crate) tasks: BTreeSet<String>,
}

/// The outcome of asking for a revision.
#[derive(Debug, Clone)]
pub(crate) struct WatchOutcome {
    pub(crate) revision: u64,
    pub(crate) outcome: Result<GrantedWatches, PerformFailure>,
}

/// The part of the wishes that a subscription was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct GrantedWatches {
    #[serde(rename = "resourceSubscriptions")]
    resources: BTreeSet<String>,
    #[serde(rename = "taskIds")]
    tasks: BTreeSet<String>,
}

/// A wish that is withdrawn when dropped, unless it was kept.
#[derive(Debug)]
pub(crate) struct WatchGuard<'a> {
    watches: &'a UpstreamWatches,
    subject: WatchSubject,
    /// The revision that contains it.
    pub(crate) revision: u64,
    fleeting: bool,
}

impl UpstreamWatches {
    pub(crate) fn new(subjects_max: usize) -> Self {
        Self {
            subjects_max,
            watched: watch::Sender::new(WatchedSubjects::default()),
            outcome: watch::Sender::new(None),
            change_lock: Mutex::new(()),
        }
    }

    /// Adds a wish, or fails because there are too many. The caller holds `change_lock`.
    pub(crate) fn watch(&self, subject: WatchSubject) -> Result<WatchGuard<'_>, PerformFailure> {
        let mut outcome = Ok(false);
        self.watched.send_if_modified(|wanted| {
            let set = wanted.set_of(&subject);
            outcome = match set.contains(subject.key()) {
                true => Ok(false),
                false if set.len() >= self.subjects_max => {
                    Err(PerformFailure::Busy { in_flight_max: self.subjects_max })
                }
                false => Ok(set.insert(subject.key().to_owned())),
            };
            wanted.revision += u64::from(matches!(outcome, Ok(true)));
            matches!(outcome, Ok(true))
        });
        let revision = self.watched.borrow().revision;
        outcome.map(|fleeting| WatchGuard { watches: self, subject, revision, fleeting })
    }

    /// Removes a wish. Returns false if there was none.
    pub(crate) fn unwatch(&self, subject: &WatchSubject) -> bool {
        self.watched.send_if_modified(|wanted| {
            let known = wanted.set_of(subject).remove(subject.key());
            wanted.revision += u64::from(known);
            known
        })
    }

    pub(crate) fn is_watched(&self, subject: &WatchSubject) -> bool {
        let wanted = self.watched.borrow();
        match subject {
            WatchSubject::Resource(uri) => wanted.resources.contains(uri),
            WatchSubject::Task(id) => wanted.tasks.contains(id),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<WatchedSubjects> {
        self.watched.subscribe()
    }

    /// Waits until something is wanted. Cancel safe.
    pub(crate) async fn wait_until_any(&self) {
        let mut wanted = self.watched.subscribe();
        let something = wanted.wait_for(|wanted| !(wanted.resources.is_empty() && wanted.tasks.is_empty()));
        // This object owns the sender, so the sender exists.
        let _ = something.await;
    }

    /// Sets the outcome of asking; none when a new connection begins.
    pub(crate) fn set_outcome(&self, verdict: Option<WatchOutcome>) {
        self.outcome.send_replace(verdict);
    }

    /// Waits until the present connection's subscription was asked for this revision or a later one. Cancel safe.
    pub(crate) async fn wait_for_outcome(
        &self,
        revision: u64,
        deadline: Instant,
    ) -> Result<GrantedWatches, PerformFailure> {
        let mut verdicts = self.outcome.subscribe();
        let concluded =
            verdicts.wait_for(|verdict| verdict.as_ref().is_some_and(|verdict| verdict.revision >= revision));
        match tokio::time::timeout_at(deadline, concluded).await {
            Ok(Ok(verdict)) => verdict.as_ref().map_or_else(|| Err(too_late()), |verdict| verdict.outcome.clone()),
            Ok(Err(_)) | Err(_) => Err(too_late()),
        }
    }
}

impl WatchSubject {
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Resource(key) | Self::Task(key) => key,
        }
    }
}

impl WatchedSubjects {
    fn set_of(&mut self, subject: &WatchSubject) -> &mut BTreeSet<String> {
        match subject {
            WatchSubject::Resource(_) => &mut self.resources,
            WatchSubject::Task(_) => &mut self.tasks,
        }
    }
}

impl GrantedWatches {
    /// Reads the raw `notifications` of an acknowledgement. Unreadable ones grant nothing.
    pub(crate) fn read(notifications: &RawValue) -> Self {
        serde_json::from_str(notifications.get()).unwrap_or_default()
    }

    pub(crate) fn includes(&self, subject: &WatchSubject) -> bool {
        match subject {
            WatchSubject::Resource(uri) => self.resources.contains(uri),
            WatchSubject::Task(id) => self.tasks.contains(id),
        }
    }
}

impl WatchGuard<'_> {
    /// Keeps the wish until it is removed.
    pub(crate) fn keep(mut self) {
        self.fleeting = false;
    }
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        if self.fleeting {
            self.watches.unwatch(&self.subject);
        }
    }
}

fn too_late() -> PerformFailure {
    PerformFailure::TimedOut { note: Some("the server did not acknowledge the subscription".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(uri: &str) -> WatchSubject {
        WatchSubject::Resource(uri.to_owned())
    }

    #[test]
    fn wishes_are_bounded_and_taken_back_unless_kept() {
        let watches = UpstreamWatches::new(1);
        drop(watches.watch(resource("a")).unwrap());
        assert!(!watches.is_watched(&resource("a")));
        watches.watch(resource("a")).unwrap().keep();
        drop(watches.watch(resource("a")).unwrap());
        assert!(watches.is_watched(&resource("a")), "it was already watched");
        assert!(matches!(watches.watch(resource("b")), Err(PerformFailure::Busy { in_flight_max: 1 })));
        assert!(watches.watch(WatchSubject::Task("b".to_owned())).is_ok(), "tasks are counted apart");
        assert!(watches.unwatch(&resource("a")));
        assert!(!watches.unwatch(&resource("a")));
        assert!(watches.watch(resource("b")).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_conclusion_is_waited_for_by_its_revision() {
        let watches = UpstreamWatches::new(8);
        let wish = watches.watch(resource("a")).unwrap();
        let granted =
            GrantedWatches::read(&RawValue::from_string(r#"{"resourceSubscriptions":["a"]}"#.to_owned()).unwrap());
        assert!(granted.includes(&resource("a")) && !granted.includes(&resource("b")));
        let soon = Instant::now() + std::time::Duration::from_secs(1);
        watches.set_outcome(Some(WatchOutcome { revision: wish.revision - 1, outcome: Ok(granted.clone()) }));
        let early = watches.wait_for_outcome(wish.revision, soon).await;
        assert!(matches!(early, Err(PerformFailure::TimedOut { .. })), "{early:?}");
        let later = Instant::now() + std::time::Duration::from_secs(1);
        let (concluded, ()) = tokio::join!(watches.wait_for_outcome(wish.revision, later), async {
            watches.set_outcome(Some(WatchOutcome { revision: wish.revision, outcome: Ok(granted.clone()) }));
        });
        assert_eq!(concluded.unwrap(), granted);
    }
}
