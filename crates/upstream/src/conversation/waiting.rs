//! Waits for the end of one request on any connection: until it ends, its caller cancels it or its deadline passes, and after the deadline
//! if the answer still matters. The transport sends the request and reads its answer.

use std::pin::Pin;

use servanda_mcp::{Id, envelope::cancelled};

use super::{RequestGuard, in_flight::InFlightSlot, inbound::UnroutedMessages, outbox::Outbox};
use crate::{
    PerformFailure,
    request::{CancellationMode, WireRequestTerms},
};

/// What is needed to wait for one request.
#[derive(Debug)]
pub(crate) struct ResponseWait<'a> {
    pub(crate) id: i64,
    pub(crate) terms: &'a WireRequestTerms,
    /// Where the server is told that the answer is no longer wanted; none if the transport tells it in another way.
    pub(crate) outbox: Option<&'a Outbox>,
    /// The message for a request that was not sent before its deadline.
    pub(crate) not_sent: &'static str,
    /// Counts of unrouted messages, which may explain a timeout.
    pub(crate) unrouted_messages: Option<&'a UnroutedMessages>,
}

impl ResponseWait<'_> {
    /// Waits for a running request and returns its outcome. A failure means that the wait is over before the request is.
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
                    // A server that was told may still answer. A server that is told by closing its stream is told later, because its
                    // answer comes on the open stream.
                    let Some(longer) = overtime.take().and_then(|overtime| overtime.begin(&failure)) else {
                        return Err(failure);
                    };
                    under_way.end_questions();
                    // Releases the slot, so that other requests do not wait because of this one.
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
