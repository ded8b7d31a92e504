//! The body of an answer, handed out in short pieces, which shows whether the client reads them. A client that reads
//! none for too long stalls the answer.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::{super::answer_body::AnswerBody, connections::AnswerGuard, progress::AnswerProgress};

/// How much is handed out at once. A client that reads this much within the stall time does not stall.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// The body of an answer. Its request counts as in progress until the body is written, or stalls.
#[derive(Debug)]
pub(super) struct PacedBody {
    body: AnswerBody,
    /// The rest of the last frame.
    rest: Bytes,
    guard: AnswerGuard,
}

/// Records that a piece is ready, and wakes the task that polls for it.
struct ReadyWaker {
    progress: Arc<AnswerProgress>,
    waker: Waker,
}

impl PacedBody {
    pub(super) fn new(body: AnswerBody, busy: AnswerGuard) -> Self {
        busy.progress().set_due(true);
        Self { body, rest: Bytes::new(), guard: busy }
    }
}

impl Wake for ReadyWaker {
    fn wake(self: Arc<Self>) {
        if self.progress.due().is_none() {
            self.progress.set_due(true);
        }
        self.waker.wake_by_ref();
    }
}

impl PacedBody {
    /// The next frame. If it is not ready yet, it is recorded as due when it arrives.
    fn next_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = Pin::new(&mut self.body);
        if matches!(*body, AnswerBody::Whole(_)) {
            return body.poll_frame(context);
        }
        let progress = Arc::clone(self.guard.progress());
        let alarm = Waker::from(Arc::new(ReadyWaker { progress, waker: context.waker().clone() }));
        body.poll_frame(&mut Context::from_waker(&alarm))
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.guard.progress().set_due(false);
        if self.rest.is_empty() {
            match self.next_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Poll::Ready(end) => return Poll::Ready(end),
            }
        }
        let piece_bytes = self.rest.len().min(PIECE_BYTES_MAX);
        let piece = self.rest.split_to(piece_bytes);
        self.guard.progress().set_due(true);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), u64::try_from(self.rest.len()).unwrap_or(u64::MAX));
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}
