//! Follows the standing stream of a legacy session, on which the server sends messages that belong to no request.

use bytes::Bytes;
use servanda_mcp::Message;

use super::{
    HttpWire,
    resume::{self, ResumeOutcome},
    sse::EventReader,
};
use crate::{conversation::loss::LossReason, http_client::UpstreamResponse};

impl HttpWire {
    /// Follows the stream, over interruptions, until the server no longer offers it. If an interruption may have lost messages, `missed` is
    /// called when the stream is open again. Cancel safe: dropping it closes the stream.
    pub(crate) async fn follow(&self, missed: impl Fn()) {
        let mut events = self.new_events();
        let (mut offered, mut fruitless) = (false, 0);
        loop {
            match resume::open(&self.address, &events).await {
                ResumeOutcome::Stream(response) => {
                    if offered && events.last_id().is_none() {
                        missed();
                    }
                    offered = true;
                    events.resume();
                    let before = events.last_id().map(ToOwned::to_owned);
                    let said_something = self.follow_events(response, &mut events).await;
                    let came_on = said_something || events.last_id() != before.as_deref();
                    fruitless = if came_on { 0 } else { resume::attempts_after_empty_stream(fruitless) };
                }
                // Servers without such a stream should say 405, and some say 404 instead.
                ResumeOutcome::Disowned | ResumeOutcome::Refused { .. } if !offered => return,
                ResumeOutcome::Disowned => return self.loss.report(LossReason::Disowned),
                ResumeOutcome::Refused { .. } => {
                    // The server may not know the event id to resume at, so start without one.
                    events = self.new_events();
                    fruitless += 1;
                }
                ResumeOutcome::NotNow => fruitless += 1,
            }
            tokio::time::sleep(resume::pause(&events, fruitless)).await;
        }
    }

    fn new_events(&self) -> EventReader {
        EventReader::new(self.context.spec.limits.message_bytes_max)
    }

    /// Reads to the end. Returns whether there was a message.
    async fn follow_events(&self, mut response: UpstreamResponse, events: &mut EventReader) -> bool {
        let mut said_something = false;
        while let Some(Ok(chunk)) = response.chunk().await {
            let read = events.read(&chunk, |event| {
                said_something |= !event.data.is_empty();
                self.on_event(&event.data);
                true
            });
            if read.is_err() {
                break;
            }
        }
        said_something
    }

    fn on_event(&self, data: &Bytes) {
        match Message::parse(&self.context.sanitize(data)) {
            Ok(Message::Notification { method, params }) => self.conversations.on_notification(&method, params, None),
            Ok(Message::Request { id, method, params }) => self.conversations.on_request(&id, &method, params, None),
            // Answers come on the streams of their requests.
            Ok(Message::Response { .. } | Message::Failure { .. }) | Err(_) => {}
        }
    }
}
