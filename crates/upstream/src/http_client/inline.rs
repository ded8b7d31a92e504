//! One HTTP/1.1 connection, driven by the task that uses it. It has no task of its own, so nothing wakes another thread.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use hyper::{
    Request,
    body::{Body as _, Frame, Incoming},
    client::conn::{TrySendError, http1},
};
use hyper_util::rt::TokioIo;
use tokio::{
    runtime::{self, Handle},
    task::unconstrained,
};

use super::{body::HttpRequestBody, poll_waker::PollWaker, transport::OriginStream};

/// How many parts of an unread body are discarded to save the connection.
const PASSED_OVER_MAX: usize = 4;

/// The head of an answer; or why there is none, with the request if none of it was written.
pub(super) type InlineResponse = Result<hyper::Response<Incoming>, TrySendError<Request<HttpRequestBody>>>;

/// A connection for one request at a time.
#[derive(Debug)]
pub(super) struct InlineConnection {
    sender: http1::SendRequest<HttpRequestBody>,
    /// None when it has ended.
    connection: Option<http1::Connection<TokioIo<OriginStream>, HttpRequestBody>>,
    poll_waker: Arc<PollWaker>,
    /// A waker that notifies `poll_waker`.
    waker: Waker,
    /// The runtime whose driver reports the connection's readiness. On another runtime, every read would first wake that runtime's thread.
    runtime: Option<runtime::Id>,
}

impl InlineConnection {
    pub(super) fn new(
        sender: http1::SendRequest<HttpRequestBody>,
        connection: http1::Connection<TokioIo<OriginStream>, HttpRequestBody>,
    ) -> Self {
        let poll_waker = Arc::<PollWaker>::default();
        let waker = Waker::from(Arc::clone(&poll_waker));
        Self { sender, connection: Some(connection), poll_waker, waker, runtime: current_runtime() }
    }

    /// Whether a request can be sent: the last answer was read to its end, and the server is not known to have closed the connection.
    pub(super) fn is_ready(&mut self) -> bool {
        let Self { connection, poll_waker, waker, .. } = self;
        poll_once(|_| {
            poll_waker.poll_once(|| drive(connection, waker));
        });
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Whether the runtime of the current task is the one that the connection was made on.
    pub(super) fn is_on_runtime(&self, current: Option<runtime::Id>) -> bool {
        self.runtime == current
    }

    /// Whether it is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.connection.is_none()
    }

    /// Prepares the connection for the pool: what happens on it wakes no task.
    pub(super) fn clear_task(&self) {
        self.poll_waker.clear_task();
    }

    /// Accepts a request. Nothing is written before [`InlineConnection::finish`].
    pub(super) fn begin(&mut self, request: Request<HttpRequestBody>) -> impl Future<Output = InlineResponse> + use<> {
        self.sender.try_send_request(request)
    }

    /// Sends the request and waits for the head of its answer. Not cancel safe: if the future is dropped, the connection is unusable.
    pub(super) async fn finish(&mut self, begun: impl Future<Output = InlineResponse>) -> InlineResponse {
        let Self { connection, poll_waker, waker, .. } = self;
        // Only driving the connection makes progress on the answer, and both happen here, so the answer's own waker is not needed.
        // Unconstrained, because a task that is out of budget relies on that waker.
        let mut answer = pin!(unconstrained(begun));
        poll_fn(|context| {
            poll_waker.poll_until_quiet(context, || {
                drive(connection, waker);
                answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            })
        })
        .await
    }

    /// Discards the part of an unread body that has arrived. Returns whether that was all of it.
    pub(super) fn discard_arrived(&mut self, body: &mut Incoming) -> bool {
        let mut ended = false;
        poll_once(|context| {
            for _ in 0..PASSED_OVER_MAX {
                match self.poll_frame(body, context) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(None) => return ended = true,
                    Poll::Ready(Some(Err(_))) | Poll::Pending => return,
                }
            }
        });
        ended
    }

    /// The next part of an answer's body; none at its end.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<bytes::Bytes>>>> {
        let Self { connection, poll_waker, waker, .. } = self;
        poll_waker.poll_until_quiet(context, || {
            let unwoken = &mut Context::from_waker(Waker::noop());
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(unwoken) {
                return Poll::Ready(frame);
            }
            drive(connection, waker);
            Pin::new(&mut *body).poll_frame(unwoken)
        })
    }
}

/// The runtime of the current task.
pub(super) fn current_runtime() -> Option<runtime::Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// Lets the connection read and write what it can. A connection that has ended is dropped, which ends its request.
fn drive(connection: &mut Option<http1::Connection<TokioIo<OriginStream>, HttpRequestBody>>, waker: &Waker) {
    let Some(driven) = connection else { return };
    if let Poll::Ready(ended) = Pin::new(driven).poll(&mut Context::from_waker(waker)) {
        if let Err(error) = ended {
            tracing::debug!(%error, "an HTTP connection ended");
        }
        *connection = None;
    }
}

/// Polls once, without registering a wake-up and regardless of the task's budget.
pub(super) fn poll_once(mut once: impl FnMut(&mut Context<'_>)) {
    let looking = pin!(unconstrained(poll_fn(|context| {
        once(context);
        Poll::Ready(())
    })));
    let _ = looking.poll(&mut Context::from_waker(Waker::noop()));
}
