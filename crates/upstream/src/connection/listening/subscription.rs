//! One subscription at a modern server: a request that the server acknowledges first and answers when it ends. Dropping it ends it.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use servanda_mcp::{ClientCapabilities, capabilities::TASKS_EXTENSION, fields::method};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::link::Link;
use crate::{
    PerformFailure,
    request::{
        CancellationMode, ExchangeEnd, WireRequest, WireRequestTerms,
        audience::{RequestAudience, SubscriptionSignal},
        message,
        pausable_deadline::PausableDeadline,
    },
    shared::{SharedContext, watches::GrantedWatches},
};

/// How many signals about itself a subscription may hold before they are read.
const HEARD_MAX: usize = 4;

/// A subscription that the server has acknowledged.
#[derive(Debug)]
pub(super) struct UpstreamSubscription {
    /// What was asked for.
    pub(super) filter: String,
    /// The part of it that the server granted.
    pub(super) granted: GrantedWatches,
    since: Instant,
    ending: tokio::task::JoinHandle<ExchangeEnd>,
    heard: mpsc::Receiver<SubscriptionSignal>,
    _cancel_when_dropped: DropGuard,
}

/// The outcome of asking for a subscription.
#[derive(Debug)]
pub(super) enum SubscribeOutcome {
    /// The server acknowledged it.
    Acknowledged(UpstreamSubscription),
    /// The server refused it.
    Refused(PerformFailure),
    /// The subscription broke, or the server did not acknowledge it in time.
    Broke,
}

impl UpstreamSubscription {
    /// Asks for a subscription and waits until the server acknowledges it.
    pub(super) async fn open(
        context: &Arc<SharedContext>,
        link: &Arc<Link>,
        filter: String,
        tasks: bool,
    ) -> SubscribeOutcome {
        let (listener, mut heard) = mpsc::channel(HEARD_MAX);
        let cancel = CancellationToken::new();
        let cancel_when_dropped = cancel.clone().drop_guard();
        let mut ending = start(context, link, &filter, tasks, cancel, listener);
        let pausable_deadline = Duration::from_millis(context.spec.limits.connect_ms_max);
        tokio::select! {
            biased;
            said = heard.recv() => match said {
                Some(SubscriptionSignal::Acknowledged(granted)) => {
                    let granted = GrantedWatches::read(&granted);
                    let since = Instant::now();
                    SubscribeOutcome::Acknowledged(Self {
                        filter, granted, since, ending, heard, _cancel_when_dropped: cancel_when_dropped,
                    })
                }
                Some(SubscriptionSignal::Ended) => SubscribeOutcome::Broke,
                // The request is over, and its end tells how.
                None => classify_end(ending.await.ok()),
            },
            ended = &mut ending => classify_end(ended.ok()),
            () = tokio::time::sleep(pausable_deadline) => SubscribeOutcome::Broke,
        }
    }

    /// Waits for its end, and returns how long it lasted. Cancel safe.
    pub(super) async fn ended(&mut self) -> Duration {
        loop {
            tokio::select! {
                _ = &mut self.ending => break,
                heard = self.heard.recv() => match heard {
                    Some(SubscriptionSignal::Acknowledged(_)) => {}
                    Some(SubscriptionSignal::Ended) | None => break,
                },
            }
        }
        self.since.elapsed()
    }
}

fn start(
    context: &Arc<SharedContext>,
    link: &Arc<Link>,
    filter: &str,
    tasks: bool,
    cancel: CancellationToken,
    listener: mpsc::Sender<SubscriptionSignal>,
) -> tokio::task::JoinHandle<ExchangeEnd> {
    let id = context.next_id();
    let body = message::listen(id, filter, &capabilities(tasks));
    let request = WireRequest::new(id, method::SUBSCRIPTIONS_LISTEN, Some(link.peer.version), body);
    let terms = WireRequestTerms {
        pausable_deadline: PausableDeadline::endless(),
        cancel,
        when_cancelled: CancellationMode::Abandon,
        audience: RequestAudience::Subscription(listener),
        tell_server: true,
        lease: None,
        behalf: None,
        overtime: None,
    };
    let link = Arc::clone(link);
    context.tasks.spawn(async move { link.exchange(request, terms).await })
}

/// Declares tasks if they are watched: a server announces them only to clients that know them.
fn capabilities(tasks: bool) -> ClientCapabilities {
    let extension = format!(r#"{{"extensions":{{"{TASKS_EXTENSION}":{{}}}}}}"#);
    let extension = RawValue::from_string(extension).ok().filter(|_| tasks);
    ClientCapabilities::parse(extension.as_deref())
}

/// What the end of the request means when there was no acknowledgement.
fn classify_end(ended: Option<ExchangeEnd>) -> SubscribeOutcome {
    match ended {
        Some(ExchangeEnd::Failed(failure @ (PerformFailure::Rejected { .. } | PerformFailure::Malformed { .. }))) => {
            SubscribeOutcome::Refused(failure)
        }
        Some(ExchangeEnd::Failed(failure @ PerformFailure::HttpStatus { status, .. })) if status < 500 => {
            SubscribeOutcome::Refused(failure)
        }
        // Answered at once: the server has nothing to announce.
        Some(ExchangeEnd::Answered(_)) => SubscribeOutcome::Refused(PerformFailure::malformed(
            "the server ended the subscription without acknowledging it",
        )),
        _ => SubscribeOutcome::Broke,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_declared_where_they_are_watched() {
        assert_eq!(capabilities(false).as_json(), "{}");
        assert_eq!(capabilities(true).as_json(), r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    }
}
