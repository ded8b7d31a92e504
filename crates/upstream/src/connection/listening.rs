//! Listens to what a server says outside requests for as long as a connection lasts, and keeps up the watches.
//!
//! Legacy stdio needs nothing: such notifications just arrive. Legacy HTTP has a stream to open. Modern servers get a subscription that
//! names everything wanted. When the wishes change, a new subscription takes over before the old one is ended. Changes that may have been
//! missed in between are announced.

mod subscription;

use std::{sync::Arc, time::Duration};

use serde_json::json;
use servanda_mcp::{Era, envelope::RequestBody, fields::method};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::subscription::{SubscribeOutcome, UpstreamSubscription};
use super::{
    backoff::pause_ms,
    link::{Link, Wire},
};
use crate::{
    PerformFailure,
    eras::handshake::AnnouncedChanges,
    request::{WireRequest, WireRequestTerms},
    shared::{
        SharedContext,
        watches::{GrantedWatches, WatchOutcome, WatchedSubjects},
    },
};

/// A subscription that lasted this long did not break at once.
const STABLE_MS_MIN: u64 = 10_000;

/// How long an old subscription still listens after a new one has taken over: earlier notifications may still be on their way, and over
/// HTTP nothing keeps two streams in order.
const LINGER_MS: u64 = 500;

/// What is special about the shared connection: it listens for all users.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedConnection {
    /// Whether this is the first connection. Nothing can have been missed before it.
    pub(crate) first: bool,
}

/// Starts listening, if there is something to listen to.
pub(crate) fn start(context: &Arc<SharedContext>, link: &Arc<Link>, shared: Option<SharedConnection>) {
    if let (Era::Legacy, Wire::Http(_)) = (link.peer.era(), &link.wire) {
        spawn(context, link, |context, link| async move { follow_stream(&context, &link, shared.is_some()).await });
    }
    let Some(SharedConnection { first }) = shared else { return };
    // What a former connection granted says nothing about this one.
    context.watches.set_outcome(None);
    match link.peer.era() {
        Era::Modern => {
            spawn(context, link, move |context, link| async move { keep_listening(&context, &link, !first).await });
        }
        // A watch that was requested before the first connection waits for the connection and subscribes itself.
        Era::Legacy if first => {}
        Era::Legacy => spawn(context, link, |context, link| async move { watch_again(&context, &link).await }),
    }
}

/// Asks a legacy server to announce changes of a resource, or to stop that.
pub(crate) async fn subscribe(
    context: &SharedContext,
    link: &Link,
    method: &'static str,
    uri: &str,
    terms: WireRequestTerms,
) -> Result<(), PerformFailure> {
    let id = context.next_id();
    let mut body = RequestBody::new(id, method, uri.len());
    body.add("uri", json!(uri).to_string().as_bytes());
    let request = WireRequest::new(id, method, Some(link.peer.version), body.finish(None));
    link.exchange(request, terms).await.outcome().map(|_| ())
}

/// Spawns work that ends with the connection.
fn spawn<F: Future<Output = ()> + Send + 'static>(
    context: &Arc<SharedContext>,
    link: &Arc<Link>,
    work: impl FnOnce(Arc<SharedContext>, Arc<Link>) -> F,
) {
    let loss = link.loss().clone();
    let work = work(Arc::clone(context), Arc::clone(link));
    context.tasks.spawn(async move {
        tokio::select! {
            biased;
            _ = loss.reported() => {}
            () = work => {}
        }
    });
}

async fn follow_stream(context: &SharedContext, link: &Link, shared: bool) {
    if let Wire::Http(wire) = &link.wire {
        let missed = || {
            if shared {
                announce_everything(context);
            }
        };
        Box::pin(wire.follow(missed)).await;
    }
}

/// Subscribes again: a legacy server forgets the watches when the connection ends.
async fn watch_again(context: &SharedContext, link: &Link) {
    let wanted = context.watches.subscribe().borrow().resources.clone();
    for uri in wanted {
        let deadline = Instant::now() + Duration::from_millis(context.spec.limits.connect_ms_max);
        let terms = WireRequestTerms { tell_server: true, ..WireRequestTerms::until(deadline) };
        match Box::pin(subscribe(context, link, method::RESOURCES_SUBSCRIBE, &uri, terms)).await {
            Ok(()) => context.announcement_bus.announce_resources(&[uri]),
            Err(failure) => {
                tracing::warn!(upstream = %context.spec.id, %failure, "a resource could not be watched again");
            }
        }
    }
}

/// Keeps a modern subscription to everything that is wanted and offered.
async fn keep_listening(context: &Arc<SharedContext>, link: &Arc<Link>, mut missed: bool) {
    let mut wishes = context.watches.subscribe();
    let mut current: Option<UpstreamSubscription> = None;
    let mut _lingering = None;
    let mut failures = 0;
    loop {
        let wanted = wishes.borrow_and_update().clone();
        let Some(filter) = filter(&link.peer.announces, &wanted) else {
            current = None;
            record_outcome(context, &wanted, Ok(GrantedWatches::default()));
            if !wait(&mut wishes, None).await.came {
                return;
            }
            continue;
        };
        if current.as_ref().is_none_or(|current| current.filter != filter) {
            match UpstreamSubscription::open(context, link, filter, !wanted.tasks.is_empty()).await {
                SubscribeOutcome::Acknowledged(subscription) => {
                    record_outcome(context, &wanted, Ok(subscription.granted.clone()));
                    // Only now the old subscription begins to end; the one before it ends at once.
                    _lingering = current.replace(subscription).map(|old| linger(context, link, old));
                    if std::mem::take(&mut missed) {
                        announce_everything(context);
                    }
                }
                SubscribeOutcome::Refused(failure) => record_outcome(context, &wanted, Err(failure)),
                SubscribeOutcome::Broke if current.is_none() => {
                    missed = true;
                    failures = pause(context, failures, Duration::ZERO).await;
                    continue;
                }
                // The old subscription still works.
                SubscribeOutcome::Broke => {
                    let why = "the subscription was lost before it was acknowledged".to_owned();
                    record_outcome(context, &wanted, Err(PerformFailure::Died { why }));
                }
            }
        } else if let Some(current) = &current {
            record_outcome(context, &wanted, Ok(current.granted.clone()));
        }
        let event = wait(&mut wishes, current.as_mut()).await;
        if let Some(lasted) = event.ended_after {
            current = None;
            missed = true;
            failures = pause(context, failures, lasted).await;
        } else if !event.came {
            return;
        }
    }
}

/// Lets a subscription listen for a moment longer. Dropping the guard ends it at once.
fn linger(context: &Arc<SharedContext>, link: &Arc<Link>, old: UpstreamSubscription) -> DropGuard {
    let enough = CancellationToken::new();
    let guard = enough.clone().drop_guard();
    spawn(context, link, |_, _| async move {
        let _ = tokio::time::timeout(Duration::from_millis(LINGER_MS), enough.cancelled()).await;
        drop(old);
    });
    guard
}

/// Why a wait ended.
#[derive(Debug, Default)]
struct SubscriptionWait {
    /// The wishes changed.
    came: bool,
    /// The subscription ended after this time.
    ended_after: Option<Duration>,
}

/// Waits until the wishes change or the subscription ends.
async fn wait(
    wishes: &mut watch::Receiver<WatchedSubjects>,
    current: Option<&mut UpstreamSubscription>,
) -> SubscriptionWait {
    match current {
        None => SubscriptionWait { came: wishes.changed().await.is_ok(), ..SubscriptionWait::default() },
        Some(current) => tokio::select! {
            changed = wishes.changed() => SubscriptionWait { came: changed.is_ok(), ..SubscriptionWait::default() },
            lasted = current.ended() => SubscriptionWait { ended_after: Some(lasted), ..SubscriptionWait::default() },
        },
    }
}

/// Pauses before a broken subscription is made again. Returns the failures in a row.
async fn pause(context: &SharedContext, failures: u32, lasted: Duration) -> u32 {
    let stable = lasted >= Duration::from_millis(STABLE_MS_MIN);
    let failures = if stable { 2 } else { u32::max(failures, 1).saturating_add(1) };
    tokio::time::sleep(Duration::from_millis(pause_ms(failures, &context.spec.limits))).await;
    failures
}

fn record_outcome(context: &SharedContext, wanted: &WatchedSubjects, outcome: Result<GrantedWatches, PerformFailure>) {
    context.watches.set_outcome(Some(WatchOutcome { revision: wanted.revision, outcome }));
}

fn announce_everything(context: &SharedContext) {
    context.announcement_bus.announce_lists();
    context.announcement_bus.announce_resources(&context.watches.subscribe().borrow().resources);
}

/// The filter of a subscription to everything that is offered and wanted; none if that is nothing.
fn filter(announces: &AnnouncedChanges, wanted: &WatchedSubjects) -> Option<String> {
    let mut filter = serde_json::Map::new();
    for name in &announces.lists {
        filter.insert((*name).to_owned(), json!(true));
    }
    for (name, subjects) in [("resourceSubscriptions", &wanted.resources), ("taskIds", &wanted.tasks)] {
        if !subjects.is_empty() {
            filter.insert(name.to_owned(), json!(subjects));
        }
    }
    (!filter.is_empty()).then(|| serde_json::Value::Object(filter).to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_filter_names_what_is_offered_and_wanted() {
        let set = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<BTreeSet<_>>();
        let nothing = WatchedSubjects::default();
        assert_eq!(filter(&AnnouncedChanges::default(), &nothing), None);
        let tools = AnnouncedChanges { lists: vec!["toolsListChanged"], ..AnnouncedChanges::default() };
        assert_eq!(filter(&tools, &nothing).unwrap(), r#"{"toolsListChanged":true}"#);
        let wanted = WatchedSubjects { revision: 7, resources: set(&["b://x", "a://\"y"]), tasks: set(&["t"]) };
        let lists = vec!["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
        let all = AnnouncedChanges { lists, tasks: true };
        assert_eq!(
            filter(&all, &wanted).unwrap(),
            concat!(
                r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"#,
                r#""resourceSubscriptions":["a://\"y","b://x"],"taskIds":["t"]}"#
            )
        );
    }
}
