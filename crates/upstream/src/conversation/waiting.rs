//! Waits for the end of one request, on any connection: until it ends, its caller cancels it or its deadline passes; and after the
//! deadline where the answer still matters. How the request left and how its answer comes is the transport's business.

use std::pin::Pin;

use servanda_mcp::{Id, envelope::cancelled};

use super::{RequestGuard, in_flight::InFlightSlot, inbound::UnroutedMessages, outbox::Outbox};
use crate::{
    PerformFailure,
    request::{CancellationMode, WireRequestTerms},
};

/// What it takes to wait for one request.
#[derive(Debug)]
pub(crate) struct ResponseWait<'a> {
    pub(crate) id: i64,
    pub(crate) terms: &'a WireRequestTerms,
    /// Where the server is told that the answer is not wanted any more; none where a message is not how it is told.
    pub(crate) outbox: Option<&'a Outbox>,
    /// What the caller is told of a request that did not leave before its deadline.
    pub(crate) not_sent: &'static str,
    /// What the connection has seen that may explain a timeout.
    pub(crate) unrouted_messages: Option<&'a UnroutedMessages>,
}

impl ResponseWait<'_> {
    /// Waits for a request that is under way, and returns what it ended with. A failure says that it is not waited for any longer.
    ///
    /// Not cancel safe: a dropped request may still be executed.
    pub(crate) async fn wait<T>(
        &self,
        mut end: Pin<&mut (impl Future<Output = T> + Send)>,
        under_way: &mut RequestGuard<'_>,
        place: &mut Option<InFlightSlot<'_>>,
    ) -> Result<T, PerformFailure> {
        let (mut is_cancelled, mut pausable_deadline) = (false, self.terms.pausable_deadline.clone());
        let mut overtime = self.terms.overtime.as_ref();
        loop {
            tokio::select! {
                biased;
                ended = end.as_mut() => return Ok(ended),
                () = self.terms.cancel.cancelled(), if !is_cancelled => {
                    if under_way.withdraw() {
                        return Err(PerformFailure::Cancelled { sent: false });
                    }
                    self.send_cancelled("the caller cancelled");
                    if self.terms.when_cancelled == CancellationMode::Abandon {
                        return Err(PerformFailure::Cancelled { sent: true });
                    }
                    under_way.end_questions();
                    is_cancelled = true;
                }
                () = pausable_deadline.over() => {
                    if under_way.withdraw() {
                        return Err(PerformFailure::unavailable(self.not_sent));
                    }
                    if !std::mem::replace(&mut is_cancelled, true) {
                        self.send_cancelled("the deadline passed");
                    }
                    let failure = PerformFailure::TimedOut { note: self.unrouted_messages.and_then(UnroutedMessages::note) };
                    // A server that was told may answer all the same. One that is told by closing its stream is told later:
                    // the open stream is how an answer comes.
                    let Some(longer) = overtime.take().and_then(|overtime| overtime.begin(&failure)) else {
                        return Err(failure);
                    };
                    under_way.end_questions();
                    // Other requests do not wait for a place because of it.
                    drop(place.take());
                    pausable_deadline = longer;
                }
            }
        }
    }

    fn send_cancelled(&self, reason: &str) {
        if let Some(outbox) = self.outbox {
            outbox.send_if_room(cancelled(&Id::Number(self.id), Some(reason)));
        }
    }
}
