//! What of a server is watched: the resources and tasks that somebody wants to hear about, over all connections, and what
//! the present connection's subscription was granted of them.
//!
//! Who wants it and how many is not known here; asking the server is the listening's business.

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
pub(crate) struct Watches {
    subjects_max: usize,
    wanted: watch::Sender<Wanted>,
    verdict: watch::Sender<Option<Verdict>>,
    /// One change at a time: a refusal must be about one subject only.
    pub(crate) turn: Mutex<()>,
}

/// One thing that can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A resource, by its URI.
    Resource(String),
    /// A modern task, by its id.
    Task(String),
}

/// Everything that is wanted. The revision counts its changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) revision: u64,
    pub(crate) resources: BTreeSet<String>,
    pub(crate) tasks: BTreeSet<String>,
}

/// What came of asking for a revision.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub(crate) revision: u64,
    pub(crate) outcome: Result<Granted, PerformFailure>,
}

/// What a subscription brings, of what was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Granted {
    #[serde(rename = "resourceSubscriptions")]
    resources: BTreeSet<String>,
    #[serde(rename = "taskIds")]
    tasks: BTreeSet<String>,
}

/// A wish that is taken back when dropped, unless it was kept.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    watches: &'a Watches,
    subject: Subject,
    /// The revision that contains it.
    pub(crate) revision: u64,
    fleeting: bool,
}

impl Watches {
    pub(crate) fn new(subjects_max: usize) -> Self {
        Self {
            subjects_max,
            wanted: watch::Sender::new(Wanted::default()),
            verdict: watch::Sender::new(None),
            turn: Mutex::new(()),
        }
    }

    /// Wants something, or fails because there are too many wishes. Whoever calls has the turn.
    pub(crate) fn wish(&self, subject: Subject) -> Result<Wish<'_>, PerformFailure> {
        let mut outcome = Ok(false);
        self.wanted.send_if_modified(|wanted| {
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
        let revision = self.wanted.borrow().revision;
        outcome.map(|fleeting| Wish { watches: self, subject, revision, fleeting })
    }

    /// Does not want it any more. False if it was not wanted.
    pub(crate) fn unwish(&self, subject: &Subject) -> bool {
        self.wanted.send_if_modified(|wanted| {
            let known = wanted.set_of(subject).remove(subject.key());
            wanted.revision += u64::from(known);
            known
        })
    }

    pub(crate) fn wants(&self, subject: &Subject) -> bool {
        let wanted = self.wanted.borrow();
        match subject {
            Subject::Resource(uri) => wanted.resources.contains(uri),
            Subject::Task(id) => wanted.tasks.contains(id),
        }
    }

    pub(crate) fn wanted(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    /// Waits until something is wanted. Cancel safe.
    pub(crate) async fn something_wanted(&self) {
        let mut wanted = self.wanted.subscribe();
        let something = wanted.wait_for(|wanted| !(wanted.resources.is_empty() && wanted.tasks.is_empty()));
        // The sender is ours, so it is there.
        let _ = something.await;
    }

    /// What came of asking; nothing when a new connection begins.
    pub(crate) fn conclude(&self, verdict: Option<Verdict>) {
        self.verdict.send_replace(verdict);
    }

    /// Waits until the present connection's subscription was asked for that revision or a later one. Cancel safe.
    pub(crate) async fn concluded(&self, revision: u64, deadline: Instant) -> Result<Granted, PerformFailure> {
        let mut verdicts = self.verdict.subscribe();
        let concluded =
            verdicts.wait_for(|verdict| verdict.as_ref().is_some_and(|verdict| verdict.revision >= revision));
        match tokio::time::timeout_at(deadline, concluded).await {
            Ok(Ok(verdict)) => verdict.as_ref().map_or_else(|| Err(too_late()), |verdict| verdict.outcome.clone()),
            Ok(Err(_)) | Err(_) => Err(too_late()),
        }
    }
}

impl Subject {
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Resource(key) | Self::Task(key) => key,
        }
    }
}

impl Wanted {
    fn set_of(&mut self, subject: &Subject) -> &mut BTreeSet<String> {
        match subject {
            Subject::Resource(_) => &mut self.resources,
            Subject::Task(_) => &mut self.tasks,
        }
    }
}

impl Granted {
    /// Reads the raw `notifications` of an acknowledgement; what cannot be read grants nothing.
    pub(crate) fn read(notifications: &RawValue) -> Self {
        serde_json::from_str(notifications.get()).unwrap_or_default()
    }

    pub(crate) fn includes(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Resource(uri) => self.resources.contains(uri),
            Subject::Task(id) => self.tasks.contains(id),
        }
    }
}

impl Wish<'_> {
    /// Keeps it, until somebody takes it back.
    pub(crate) fn keep(mut self) {
        self.fleeting = false;
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if self.fleeting {
            self.watches.unwish(&self.subject);
        }
    }
}

fn too_late() -> PerformFailure {
    PerformFailure::TimedOut { note: Some("the server did not acknowledge the subscription".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(uri: &str) -> Subject {
        Subject::Resource(uri.to_owned())
    }

    #[test]
    fn wishes_are_bounded_and_taken_back_unless_kept() {
        let watches = Watches::new(1);
        drop(watches.wish(resource("a")).unwrap());
        assert!(!watches.wants(&resource("a")));
        watches.wish(resource("a")).unwrap().keep();
        drop(watches.wish(resource("a")).unwrap());
        assert!(watches.wants(&resource("a")), "it was wanted before");
        assert!(matches!(watches.wish(resource("b")), Err(PerformFailure::Busy { in_flight_max: 1 })));
        assert!(watches.wish(Subject::Task("b".to_owned())).is_ok(), "tasks are counted apart");
        assert!(watches.unwish(&resource("a")));
        assert!(!watches.unwish(&resource("a")));
        assert!(watches.wish(resource("b")).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_conclusion_is_waited_for_by_its_revision() {
        let watches = Watches::new(8);
        let wish = watches.wish(resource("a")).unwrap();
        let granted = Granted::read(&RawValue::from_string(r#"{"resourceSubscriptions":["a"]}"#.to_owned()).unwrap());
        assert!(granted.includes(&resource("a")) && !granted.includes(&resource("b")));
        let soon = Instant::now() + std::time::Duration::from_secs(1);
        watches.conclude(Some(Verdict { revision: wish.revision - 1, outcome: Ok(granted.clone()) }));
        let early = watches.concluded(wish.revision, soon).await;
        assert!(matches!(early, Err(PerformFailure::TimedOut { .. })), "{early:?}");
        let later = Instant::now() + std::time::Duration::from_secs(1);
        let (concluded, ()) = tokio::join!(watches.concluded(wish.revision, later), async {
            watches.conclude(Some(Verdict { revision: wish.revision, outcome: Ok(granted.clone()) }));
        });
        assert_eq!(concluded.unwrap(), granted);
    }
}
