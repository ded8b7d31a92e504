//! In which form the answer of a request under way goes back: as JSON if it is there soon and nothing is said before it,
//! otherwise as a stream.

use std::sync::Arc;

use http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::{
    HttpDoor, Response, Visit, doorkeeper, empty, json,
    sessions::{Lease, StreamNumber},
    stream,
};
use crate::{
    fault::Fault,
    running::{Answered, Event, Running},
};

/// An answer's stream; it ends when the last of those who may put something onto it is dropped.
#[derive(Debug)]
pub(super) struct AnswerStream {
    lease: Lease,
    number: StreamNumber,
}

/// Delivers the answer to a modern request. If hyper drops this because the client went away, the request is cancelled.
pub(super) async fn modern<G>(door: &HttpDoor<G>, visit: &Visit, mut running: Box<Running>) -> Result<Response, Fault> {
    let draining = Arc::clone(&visit.draining);
    let may_stream = running.may_say_something();
    let event = tokio::select! {
        biased;
        event = running.next() => Some(event),
        () = draining.give_up.cancelled() => return Err(Fault::end_unknown()),
        () = visit.moments.pass(door.answer_moment), if may_stream => None,
    };
    Ok(match event {
        Some(Event::Answered(answered)) => whole(door, visit, answered),
        Some(Event::Cancelled) => cancelled(),
        Some(Event::Said(message)) => stream::request(Some(message), running, draining, door.keep_alive),
        None => stream::request(None, running, draining, door.keep_alive),
    })
}

/// Delivers the answer to a legacy request. Until there is a stream, there is nothing a client that went away could come
/// back for; from then on the answer waits for it. Neither cancels the request.
pub(super) async fn legacy<G>(
    door: &HttpDoor<G>,
    visit: &Visit,
    lease: Lease,
    mut running: Box<Running>,
) -> Result<Response, Fault> {
    let draining = Arc::clone(&visit.draining);
    let wanted = &lease.session().stream_wanted;
    let event = tokio::select! {
        biased;
        event = running.next() => Some(event),
        () = draining.give_up.cancelled() => return Err(Fault::end_unknown()),
        () = wanted.notified(), if lease.session().session.answers_anything => None,
        () = visit.moments.pass(door.answer_moment) => None,
    };
    let first = match event {
        Some(Event::Answered(answered)) => return Ok(whole(door, visit, answered)),
        Some(Event::Cancelled) => return Ok(cancelled()),
        Some(Event::Said(message)) => Some(message),
        None => None,
    };
    let (number, connected) = lease.session().reel.open_answer();
    if let Some(message) = first {
        lease.session().reel.say(number, message);
    }
    let answers = AnswerStream::new(lease.again(), number);
    tokio::spawn(answers.carry(running, draining.give_up.clone()));
    Ok(stream::session(connected, lease, draining, door.keep_alive))
}

impl AnswerStream {
    /// An open stream for answers, to be filled by [`AnswerStream::carry`].
    pub(super) fn new(lease: Lease, number: StreamNumber) -> Arc<Self> {
        Arc::new(Self { lease, number })
    }

    /// Carries what a request has to say onto the stream, whether or not somebody reads it there.
    pub(super) async fn carry(self: Arc<Self>, mut running: Box<Running>, give_up: CancellationToken) {
        let reel = &self.lease.session().reel;
        loop {
            let event = tokio::select! {
                biased;
                event = running.next() => event,
                () = give_up.cancelled() => {
                    reel.say(self.number, running.end_unknown());
                    return;
                }
            };
            match event {
                Event::Said(message) => {
                    reel.room(Some(self.number)).await;
                    reel.say(self.number, message);
                }
                Event::Answered(answered) => {
                    reel.room(Some(self.number)).await;
                    reel.say(self.number, answered.message);
                    return;
                }
                Event::Cancelled => return,
            }
        }
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.lease.session().reel.end(self.number, self.lease.now_ms());
    }
}

/// An answer in one piece. One that lacked nothing but scopes is a challenge too, for whoever can get them: the body still says what
/// was refused, for whoever cannot.
fn whole<G>(door: &HttpDoor<G>, visit: &Visit, answered: Answered) -> Response {
    let Answered { message, status, scopes_needed } = answered;
    let mut response = json(message);
    *response.status_mut() = status;
    if scopes_needed.is_empty() {
        return response;
    }
    if let Some(challenge) = door.doorkeeper.step_up(&visit.authority, &scopes_needed) {
        let (status, header) = doorkeeper::header_of(&challenge);
        *response.status_mut() = status;
        response.headers_mut().extend(header);
    }
    response
}

/// A cancelled request gets no response, but its exchange has to end.
fn cancelled() -> Response {
    empty(StatusCode::ACCEPTED)
}
