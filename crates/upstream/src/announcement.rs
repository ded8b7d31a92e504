//! Follows what a server says about changes of its tool list, for as long as the connection lasts.
//!
//! Legacy stdio needs nothing: such notifications just come. Modern servers are asked; legacy HTTP has a stream to open. A
//! stream that breaks is opened again after a pause, and since something may have been missed, that counts as a change.

use std::{sync::Arc, time::Duration};

use servanda_mcp::{Era, fields::method};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    PerformFailure,
    connect::Setting,
    lifecycle::pause_ms,
    link::{Ended, Link, Outgoing, Terms, WhenCancelled, Wire},
    message,
};

/// A stream that held this long did not break at once.
const STABLE_MS_MIN: u64 = 10_000;

/// How following a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The server has nothing to follow.
    NotOffered,
    /// It broke or was ended: open it again.
    Broke,
}

/// Starts following, where there is something to follow.
pub(crate) fn follow(setting: &Arc<Setting>, link: &Arc<Link>) {
    let wanted = match (link.peer.era(), &link.wire) {
        (Era::Modern, _) => link.peer.announces_changes,
        (Era::Legacy, Wire::Http(_)) => true,
        (Era::Legacy, Wire::Stdio(_)) => false,
    };
    if wanted {
        let (setting, link) = (Arc::clone(setting), Arc::clone(link));
        setting.tasks.clone().spawn(async move {
            tokio::select! {
                _ = link.departure().told() => {}
                () = keep_following(&setting, &link) => {}
            }
        });
    }
}

async fn keep_following(setting: &Setting, link: &Link) {
    let mut failures = 0;
    loop {
        let since = Instant::now();
        let followed = match &link.wire {
            Wire::Stdio(_) => follow_stdio(setting, link).await,
            Wire::Http(wire) => Box::pin(wire.follow(&link.peer)).await,
        };
        if followed == Followed::NotOffered {
            return;
        }
        let stable = since.elapsed() >= Duration::from_millis(STABLE_MS_MIN);
        failures = if stable { 2 } else { u32::max(failures, 1).saturating_add(1) };
        tokio::time::sleep(Duration::from_millis(pause_ms(failures, &setting.spec.limits))).await;
        setting.announce_change();
    }
}

/// The subscription is a request whose answer is its end; the notifications come to the reader.
async fn follow_stdio(setting: &Setting, link: &Link) -> Followed {
    let id = setting.next_id();
    let version = Some(link.peer.version);
    let request = Outgoing { id, method: method::SUBSCRIPTIONS_LISTEN, name: None, version, body: message::listen(id) };
    let terms = Terms {
        deadline: None,
        cancel: CancellationToken::new(),
        when_cancelled: WhenCancelled::Abandon,
        progress: None,
        tell_server: false,
    };
    match link.exchange(request, terms).await {
        Ended::Failed(PerformFailure::Rejected { .. }) | Ended::NeverLeft { .. } => Followed::NotOffered,
        Ended::Answered(_) | Ended::Failed(_) | Ended::Disowned(_) => Followed::Broke,
    }
}
