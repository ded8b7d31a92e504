//! One subscription at a modern server: a request that is acknowledged first and answered when it ends. Dropping it ends it.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use servanda_mcp::{ClientCapabilities, capabilities::TASKS_EXTENSION, fields::method};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::link::Link;
use crate::{
    PerformFailure,
    request::{
        Ended, Outgoing, Terms, WhenCancelled,
        audience::{Audience, Heard},
        message,
        patience::Patience,
    },
    shared::{Setting, watches::Granted},
};

/// How much a subscription may hear about itself before it listens.
const HEARD_MAX: usize = 4;

/// A subscription that the server has acknowledged.
#[derive(Debug)]
pub(super) struct Subscription {
    /// What was asked for.
    pub(super) filter: String,
    /// What of it the server brings.
    pub(super) granted: Granted,
    since: Instant,
    ending: tokio::task::JoinHandle<Ended>,
    heard: mpsc::Receiver<Heard>,
    _cancel_when_dropped: DropGuard,
}

/// What came of asking for one.
#[derive(Debug)]
pub(super) enum Opening {
    /// It is there.
    Acknowledged(Subscription),
    /// The server does not want to.
    Refused(PerformFailure),
    /// The server could not, or did not acknowledge in time.
    Broke,
}

impl Subscription {
    /// Asks for one and waits until the server has acknowledged it.
    pub(super) async fn open(setting: &Arc<Setting>, link: &Arc<Link>, filter: String, tasks: bool) -> Opening {
        let (listener, mut heard) = mpsc::channel(HEARD_MAX);
        let cancel = CancellationToken::new();
        let cancel_when_dropped = cancel.clone().drop_guard();
        let mut ending = start(setting, link, &filter, tasks, cancel, listener);
        let patience = Duration::from_millis(setting.spec.limits.connect_ms_max);
        tokio::select! {
            biased;
            said = heard.recv() => match said {
                Some(Heard::Acknowledged(granted)) => {
                    let granted = Granted::read(&granted);
                    let since = Instant::now();
                    Opening::Acknowledged(Self {
                        filter, granted, since, ending, heard, _cancel_when_dropped: cancel_when_dropped,
                    })
                }
                Some(Heard::Ended) => Opening::Broke,
                // The request is over, and its end says how.
                None => sort(ending.await.ok()),
            },
            ended = &mut ending => sort(ended.ok()),
            () = tokio::time::sleep(patience) => Opening::Broke,
        }
    }

    /// Waits for its end, and tells how long it lasted. Cancel safe.
    pub(super) async fn ended(&mut self) -> Duration {
        loop {
            tokio::select! {
                _ = &mut self.ending => break,
                heard = self.heard.recv() => match heard {
                    Some(Heard::Acknowledged(_)) => {}
                    Some(Heard::Ended) | None => break,
                },
            }
        }
        self.since.elapsed()
    }
}

fn start(
    setting: &Arc<Setting>,
    link: &Arc<Link>,
    filter: &str,
    tasks: bool,
    cancel: CancellationToken,
    listener: mpsc::Sender<Heard>,
) -> tokio::task::JoinHandle<Ended> {
    let id = setting.next_id();
    let body = message::listen(id, filter, &capabilities(tasks));
    let request = Outgoing::new(id, method::SUBSCRIPTIONS_LISTEN, Some(link.peer.version), body);
    let terms = Terms {
        patience: Patience::endless(),
        cancel,
        when_cancelled: WhenCancelled::Abandon,
        audience: Audience::Listener(listener),
        tell_server: true,
        lease: None,
        behalf: None,
        overtime: None,
    };
    let link = Arc::clone(link);
    setting.tasks.spawn(async move { link.exchange(request, terms).await })
}

/// Only who knows tasks may hear of them.
fn capabilities(tasks: bool) -> ClientCapabilities {
    let extension = format!(r#"{{"extensions":{{"{TASKS_EXTENSION}":{{}}}}}}"#);
    let extension = RawValue::from_string(extension).ok().filter(|_| tasks);
    ClientCapabilities::parse(extension.as_deref())
}

/// What an end without an acknowledgement means.
fn sort(ended: Option<Ended>) -> Opening {
    match ended {
        Some(Ended::Failed(failure @ (PerformFailure::Rejected { .. } | PerformFailure::Malformed { .. }))) => {
            Opening::Refused(failure)
        }
        Some(Ended::Failed(failure @ PerformFailure::HttpStatus { status, .. })) if status < 500 => {
            Opening::Refused(failure)
        }
        // Answered at once: it has nothing to say.
        Some(Ended::Answered(_)) => {
            Opening::Refused(PerformFailure::malformed("the subscription ended unacknowledged"))
        }
        _ => Opening::Broke,
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
