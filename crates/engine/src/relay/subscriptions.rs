//! Counts how many requesters watch which resource. A resource is watched at its upstream as long as at least one requester watches it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use servanda_mcp::{RpcError, envelope::code};
use servanda_upstream::{Announcement, PerformFailure};
use tokio::sync::broadcast::{self, error::RecvError};

use super::{INQUIRY_MS_MAX, InquiryRelay, from_read_failure, no_resource, require_covered};
use crate::{
    client::{Requester, ResourceWatchGuard},
    clock::within_ms,
    world::{UpstreamMember, WorldSnapshot},
};

/// How many resources can be watched at once.
const WATCHES_MAX: usize = 10_000;
/// How long to wait before a server that is down is tried again: the first time, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The number of watchers of each resource.
#[derive(Debug, Default)]
pub(crate) struct ResourceWatchCounts {
    counts: Mutex<BTreeMap<WatchedResource, usize>>,
}

/// An upstream and a URI there.
type WatchedResource = (String, String);

/// Begins to watch a resource.
pub(crate) async fn watch(
    relay: &Arc<InquiryRelay>,
    requester: &Requester,
    exposed: &str,
) -> Result<ResourceWatchGuard, RpcError> {
    require_covered(requester, exposed)?;
    let snapshot = relay.core.snapshot();
    let (member, uri) = snapshot.by_uri(exposed, requester).ok_or_else(|| no_resource(requester.era, exposed))?;
    let watched = (member.id.to_string(), uri.to_owned());
    if !relay.watches.enter(&watched) {
        return Err(RpcError::new(code::INTERNAL_ERROR, "too many resources are watched")
            .with_hint("unsubscribe from resources that are no longer needed, or try again later"));
    }
    // The watch is counted first, so that another requester that leaves now does not end it. Dropping the guard gives it up on every way
    // out.
    let given_up = Arc::downgrade(relay);
    let counted = watched.clone();
    let watch = ResourceWatchGuard::new(move || {
        if let Some(relay) = given_up.upgrade() {
            leave(&relay, &counted);
        }
    });
    let deadline = within_ms(INQUIRY_MS_MAX);
    let rules = snapshot.question_rules_outside_calls(member).asking(&requester.affinity, &relay.bridge.elicitations);
    let failed = |failure: PerformFailure| {
        from_read_failure(&rules.failure_for_client(failure, &mut Vec::new()), member, requester.era, exposed)
    };
    // A legacy server with a separate connection for this requester announces changes there.
    let alone = member.server.watch_alone(&requester.upstream_requester(), uri, deadline).await;
    if let Some(alone) = alone.map_err(failed)? {
        // After a reload the resource is watched on the shared connection.
        return Ok(ResourceWatchGuard::new(move || drop((alone, watch))));
    }
    match member.server.watch(uri, deadline).await {
        Ok(()) => Ok(watch),
        Err(failure) => Err(failed(failure)),
    }
}

/// Watches the resources of the previous world at the servers of the new one. This runs in the background: a server that is down is tried
/// again until it is back or no requester watches the resource any more.
pub(crate) fn watch_again(relay: &Arc<InquiryRelay>, snapshot: &Arc<WorldSnapshot>) {
    for watched in relay.watches.all() {
        let Some(member) = snapshot.member(&watched.0).cloned() else { continue };
        let (relay, stop) = (Arc::downgrade(relay), snapshot.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = keep_watching(&relay, &member, &watched) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

async fn keep_watching(relay: &Weak<InquiryRelay>, member: &UpstreamMember, watched: &WatchedResource) {
    let uri = &watched.1;
    // The announcements are followed before the first attempt, because a server that comes back afterwards announces that everything may
    // have changed.
    let mut announcements = member.server.announcements();
    let mut pause = PAUSE.0;
    loop {
        let failure = member.server.watch(uri, within_ms(INQUIRY_MS_MAX)).await.err();
        if !relay.upgrade().is_some_and(|relay| relay.watches.has(watched)) {
            return member.server.unwatch(uri);
        }
        match failure {
            None => return,
            Some(error @ PerformFailure::Rejected { .. }) => {
                tracing::warn!(upstream = %member.id, %error, "a resource cannot be watched after the reload");
                return;
            }
            Some(error) => tracing::debug!(upstream = %member.id, %error, "a resource is not watched yet"),
        }
        let _ = tokio::time::timeout(pause, server_is_back(&mut announcements)).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Waits until a server announces that all of its resources may have changed, as it does after a reconnect.
async fn server_is_back(announcements: &mut broadcast::Receiver<Announcement>) {
    loop {
        match announcements.recv().await {
            Ok(Announcement::ResourcesChanged) | Err(RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

fn leave(relay: &InquiryRelay, watched: &WatchedResource) {
    if relay.watches.leave(watched)
        && let Some(member) = relay.core.snapshot().member(&watched.0)
    {
        member.server.unwatch(&watched.1);
    }
}

impl ResourceWatchCounts {
    fn enter(&self, watched: &WatchedResource) -> bool {
        let mut counts = self.counts();
        if counts.len() >= WATCHES_MAX && !counts.contains_key(watched) {
            return false;
        }
        *counts.entry(watched.clone()).or_default() += 1;
        true
    }

    /// Returns whether that was the last watcher.
    fn leave(&self, watched: &WatchedResource) -> bool {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(watched) else { return false };
        *count -= 1;
        if *count == 0 {
            counts.remove(watched);
            return true;
        }
        false
    }

    fn has(&self, watched: &WatchedResource) -> bool {
        self.counts().contains_key(watched)
    }

    fn all(&self) -> Vec<WatchedResource> {
        self.counts().keys().cloned().collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<WatchedResource, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourceWatchCounts, WATCHES_MAX};

    #[test]
    fn the_last_one_ends_it_and_resources_are_bounded_in_number() {
        let watches = ResourceWatchCounts::default();
        let resource = |number: usize| ("up".to_owned(), number.to_string());
        assert!(watches.enter(&resource(0)) && watches.enter(&resource(0)));
        assert!(!watches.leave(&resource(0)), "another still watches");
        assert!(watches.leave(&resource(0)));
        assert!(!watches.leave(&resource(0)), "it was over already");
        assert_eq!((0..WATCHES_MAX + 5).filter(|number| watches.enter(&resource(*number))).count(), WATCHES_MAX);
        assert!(watches.enter(&resource(0)), "what is watched already may be watched by more");
    }
}
