//! Decides in which form the answer of a running request goes back: as JSON if the answer comes soon and no message
//! comes before it, otherwise as a stream.

use std::sync::Arc;

use http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::{
    AuthenticatedRequest, DoorResponse, HttpDoor, authenticator, empty, json,
    sessions::{HttpSessionLease, StreamNumber},
    stream,
};
use crate::{
    fault::ProtocolFault,
    running_request::{RenderedAnswer, RunningRequest, RunningRequestEvent},
};

/// An answer's stream. It ends when the last holder that may put something onto it is dropped.
#[derive(Debug)]
pub(super) struct AnswerStream {
    lease: HttpSessionLease,
    number: StreamNumber,
}

/// Delivers the answer to a modern request. If hyper drops this because the client went away, the request is cancelled.
pub(super) async fn modern<G>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    mut running: Box<RunningRequest>,
) -> Result<DoorResponse, ProtocolFault> {
    let draining = Arc::clone(&http_request.draining);
    let may_stream = running.may_stream();
    let event = tokio::select! {
        biased;
        event = running.next() => Some(event),
        () = draining.give_up.cancelled() => return Err(ProtocolFault::outcome_unknown()),
        () = http_request.shared_timer.sleep(door.stream_after), if may_stream => None,
    };
    Ok(match event {
        Some(RunningRequestEvent::Answered(answered)) => whole(door, http_request, answered),
        Some(RunningRequestEvent::Cancelled) => cancelled(),
        Some(RunningRequestEvent::Message(message)) => {
            stream::request(Some(message), running, draining, door.keep_alive)
        }
        None => stream::request(None, running, draining, door.keep_alive),
    })
}

/// Delivers the answer to a legacy request. Before the stream is open, a client that went away has nothing to come back
/// for; afterwards the answer waits for it. Neither case cancels the request.
pub(super) async fn legacy<G>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    lease: HttpSessionLease,
    mut running: Box<RunningRequest>,
) -> Result<DoorResponse, ProtocolFault> {
    let draining = Arc::clone(&http_request.draining);
    let wanted = &lease.session().stream_wanted;
    let event = tokio::select! {
        biased;
        event = running.next() => Some(event),
        () = draining.give_up.cancelled() => return Err(ProtocolFault::outcome_unknown()),
        () = wanted.notified(), if lease.session().session.answers_anything => None,
        () = http_request.shared_timer.sleep(door.stream_after) => None,
    };
    let first = match event {
        Some(RunningRequestEvent::Answered(answered)) => return Ok(whole(door, http_request, answered)),
        Some(RunningRequestEvent::Cancelled) => return Ok(cancelled()),
        Some(RunningRequestEvent::Message(message)) => Some(message),
        None => None,
    };
    let (number, connected) = lease.session().replay_buffer.open_answer();
    if let Some(message) = first {
        lease.session().replay_buffer.send(number, message);
    }
    let answers = AnswerStream::new(lease.clone_lease(), number);
    tokio::spawn(answers.carry(running, draining.give_up.clone()));
    Ok(stream::session(connected, lease, draining, door.keep_alive))
}

impl AnswerStream {
    /// An open stream for answers, filled by [`AnswerStream::carry`].
    pub(super) fn new(lease: HttpSessionLease, number: StreamNumber) -> Arc<Self> {
        Arc::new(Self { lease, number })
    }

    /// Puts a request's messages and its answer onto the stream, whether or not a client reads it.
    pub(super) async fn carry(self: Arc<Self>, mut running: Box<RunningRequest>, give_up: CancellationToken) {
        let replay_buffer = &self.lease.session().replay_buffer;
        loop {
            let event = tokio::select! {
                biased;
                event = running.next() => event,
                () = give_up.cancelled() => {
                    replay_buffer.send(self.number, running.end_unknown());
                    return;
                }
            };
            match event {
                RunningRequestEvent::Message(message) => {
                    replay_buffer.wait_for_room(Some(self.number)).await;
                    replay_buffer.send(self.number, message);
                }
                RunningRequestEvent::Answered(answered) => {
                    replay_buffer.wait_for_room(Some(self.number)).await;
                    replay_buffer.send(self.number, answered.message);
                    return;
                }
                RunningRequestEvent::Cancelled => return,
            }
        }
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.lease.session().replay_buffer.end(self.number, self.lease.now_ms());
    }
}

/// An answer in one piece. If only scopes are missing, it is also a challenge, for clients that can get more scopes;
/// the body still says what was refused, for clients that cannot.
fn whole<G>(door: &HttpDoor<G>, http_request: &AuthenticatedRequest, answered: RenderedAnswer) -> DoorResponse {
    let RenderedAnswer { message, status, scopes_needed } = answered;
    let mut response = json(message);
    *response.status_mut() = status;
    if scopes_needed.is_empty() {
        return response;
    }
    if let Some(challenge) = door.authenticator.step_up(&http_request.authority, &scopes_needed) {
        let (status, header) = authenticator::challenge_header(&challenge);
        *response.status_mut() = status;
        response.headers_mut().extend(header);
    }
    response
}

/// A cancelled request gets no response, but its exchange has to end.
fn cancelled() -> DoorResponse {
    empty(StatusCode::ACCEPTED)
}
