//! Watches a resource on a client's own connection to a legacy server: which changes such a server announces, and which happen at all, may
//! depend on the connection. Resources that all users share are watched on the shared connection.

use std::{fmt, sync::Arc, time::Duration};

use servanda_mcp::fields::method;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{backoff::pause_ms, link::Link, listening, pool::ConnectionLease};
use crate::{
    PerformFailure, UpstreamRequester,
    request::{
        WireRequestTerms,
        audience::{CallerSink, RequestAudience},
    },
    shared::SharedContext,
};

/// How many times in a row the server may be unreachable or refuse the watch before it is given up.
const FAILURES_MAX: u32 = 10;

/// The watch of a resource. Dropping it ends the watch and tells the server.
pub struct ConnectionResourceWatch {
    _given_up: DropGuard,
}

/// What is needed to keep the watch over reconnections.
struct ResourceWatchTask {
    context: Arc<SharedContext>,
    requester: UpstreamRequester,
    uri: String,
    /// Held so that the connection does not count as idle.
    lease: ConnectionLease,
}

impl ConnectionResourceWatch {
    /// Asks the server, and asks again whenever the connection was made again.
    ///
    /// Cancel safe, except that the server may keep the watch until the connection ends although no client wants it.
    pub(crate) async fn start(
        context: &Arc<SharedContext>,
        requester: &UpstreamRequester,
        lease: ConnectionLease,
        uri: &str,
        deadline: Instant,
    ) -> Result<Self, PerformFailure> {
        let link = lease.connection.link(deadline, &CancellationToken::new()).await?;
        let keeper = ResourceWatchTask {
            context: Arc::clone(context),
            requester: requester.clone(),
            uri: uri.to_owned(),
            lease,
        };
        keeper.send_request(&link, method::RESOURCES_SUBSCRIBE, deadline).await?;
        let given_up = CancellationToken::new();
        context.tasks.spawn(keeper.run(link, given_up.clone()));
        Ok(Self { _given_up: given_up.drop_guard() })
    }
}

impl ResourceWatchTask {
    async fn run(self, mut link: Arc<Link>, given_up: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                _ = link.loss().reported() => {}
                () = given_up.cancelled() => {
                    if let Err(failure) = self.send_request(&link, method::RESOURCES_UNSUBSCRIBE, self.attempt_deadline()).await {
                        tracing::debug!(upstream = %self.context.spec.id, %failure, "the server did not end a watch");
                    }
                    return;
                }
            }
            let again = tokio::select! {
                again = self.resubscribe() => again,
                () = given_up.cancelled() => return,
            };
            match again {
                Some(again) => link = again,
                None => return,
            }
        }
    }

    /// Asks on the next connection. Changes in between were missed, so the resource counts as changed.
    async fn resubscribe(&self) -> Option<Arc<Link>> {
        for failures in 1..=FAILURES_MAX {
            let again = async {
                let link = self.lease.connection.link(self.attempt_deadline(), &CancellationToken::new()).await?;
                self.send_request(&link, method::RESOURCES_SUBSCRIBE, self.attempt_deadline()).await.map(|()| link)
            };
            match again.await {
                Ok(link) => {
                    self.context.announcement_bus.announce_resources([&self.uri]);
                    return Some(link);
                }
                Err(failure) if self.lease.connection.is_ended() => {
                    tracing::debug!(upstream = %self.context.spec.id, %failure, "a watch ends with its connection");
                    return None;
                }
                Err(failure) => {
                    tracing::warn!(upstream = %self.context.spec.id, %failure, "a resource could not be watched again");
                    let pause_ms = pause_ms(failures + 1, &self.context.spec.limits);
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
            }
        }
        None
    }

    async fn send_request(&self, link: &Link, method: &'static str, deadline: Instant) -> Result<(), PerformFailure> {
        // What the server says about the watch goes to the client.
        let sink = self.context.attached.get(&self.requester.affinity);
        let caller = sink.map(|sink| CallerSink { sink, wants_progress: false, wants_log: true });
        let audience = caller.map_or(RequestAudience::Nobody, RequestAudience::Caller);
        let terms = WireRequestTerms { audience, tell_server: true, ..WireRequestTerms::until(deadline) };
        Box::pin(listening::subscribe(&self.context, link, method, &self.uri, terms)).await
    }

    fn attempt_deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.context.spec.limits.connect_ms_max)
    }
}

impl fmt::Debug for ConnectionResourceWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OwnWatch")
    }
}
