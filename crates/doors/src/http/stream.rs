//! Answers that are streams of Server-Sent Events: a modern client's request with what is said on the way, its
//! subscription, and the streams of a legacy session.
//!
//! Each is a small state machine that yields frames. Whoever drops the body, as hyper does when the client goes away, drops
//! the state: a modern request is cancelled by that, a legacy stream only loses its connection.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use servanda_authority::Authenticated;
use servanda_engine::{Gateway, News};
use servanda_mcp::{Era, fields, lines::on_one_line};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, broadcast},
};

use super::{
    AnswerBody, Draining, HttpDoor, Response, Visit, headers, leased_session, method_not_allowed,
    sessions::{Connected, Lease, NotKept, Purpose},
    stream_reauth::Vigil,
};
use crate::{
    fault::Fault,
    greeting::Greeting,
    listen::{Subscription, Wanted},
    notifications,
    places::{NoPlace, Place},
    running::{Event, Running},
};

/// A source of frames. What is silent for longer than a keep-alive gets a comment in between.
trait Frames: Send + 'static {
    /// The next frame, nothing at the end. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// A modern request with what is said on the way.
struct RequestFrames {
    /// What was said before the stream was opened.
    first: Option<Vec<u8>>,
    /// None once the last message is out.
    running: Option<Box<Running>>,
    draining: Arc<Draining>,
}

/// A stream of a legacy session.
struct SessionFrames {
    connected: Connected,
    lease: Lease,
    draining: Arc<Draining>,
    /// A place among the session's streams, and one among all streams on which clients only listen.
    _places: Option<(OwnedSemaphorePermit, Place)>,
}

/// A modern client's subscription.
struct SubscriptionFrames {
    subscription: Subscription,
    greeting: Arc<Greeting>,
    /// What is to be said next.
    waiting: VecDeque<Vec<u8>>,
    over: bool,
    news: broadcast::Receiver<News>,
    draining: Arc<Draining>,
    _place: Place,
}

/// Frames of a stream whose credential is checked again and again.
struct Watched<F> {
    frames: F,
    vigil: Vigil,
}

/// Opens the stream of a GET: a new one, or one that broke.
pub(super) async fn open<G: Gateway>(door: &HttpDoor<G>, visit: &Visit) -> Result<Response, Fault> {
    if headers::era(&visit.headers) == Some(Era::Modern) {
        return Ok(method_not_allowed("POST"));
    }
    headers::require_stream_accepted(&visit.headers)?;
    let lease = leased_session(door, visit).await?;
    let place = Arc::clone(&lease.session().streams).try_acquire_owned().map_err(|_| {
        Fault::invalid_request(StatusCode::TOO_MANY_REQUESTS, "the session has too many streams open")
            .hint("read from a stream that is open, or close one")
    })?;
    let among_all = listening_place(door, &visit.authority)?;
    let connected = if visit.headers.contains_key(fields::header::LAST_EVENT_ID) {
        let event_id = headers::text(&visit.headers, fields::header::LAST_EVENT_ID).unwrap_or_default();
        // Not 404, which would say that the session is gone.
        lease.session().reel.resume(event_id).map_err(|NotKept| {
            Fault::invalid_request(StatusCode::BAD_REQUEST, "what came after that event is not kept")
                .hint("open a new stream with GET and without `Last-Event-ID`, and send requests that matter again")
        })?
    } else {
        lease.session().reel.open_standing()
    };
    let frames =
        SessionFrames { connected, lease, draining: Arc::clone(&visit.draining), _places: Some((place, among_all)) };
    Ok(respond(Watched { frames, vigil: Vigil::over(door, &visit.authority) }, door.keep_alive))
}

/// A place among all streams on which clients only listen, in whichever era and session.
fn listening_place<G: Gateway>(door: &HttpDoor<G>, authority: &Authenticated) -> Result<Place, Fault> {
    door.listen_streams.take(authority).map_err(|no_place| match no_place {
        NoPlace::AllTaken => {
            Fault::busy("too many clients are listening", "list the tools again from time to time instead")
        }
        NoPlace::HasItsShare => {
            Fault::busy("too many of your clients are listening", "end a stream that is not needed any more")
        }
    })
}

/// Answers a modern request with what is said on the way.
pub(super) fn request(
    first: Option<Vec<u8>>,
    mut running: Box<Running>,
    draining: Arc<Draining>,
    keep_alive: Duration,
) -> Response {
    // The body is asked for frames only as fast as the client reads.
    running.go_apart(&Handle::current());
    respond(RequestFrames { first, running: Some(running), draining }, keep_alive)
}

/// Answers with a stream of a legacy session.
pub(super) fn session(connected: Connected, lease: Lease, draining: Arc<Draining>, keep_alive: Duration) -> Response {
    respond(SessionFrames { connected, lease, draining, _places: None }, keep_alive)
}

/// Answers a subscription.
pub(super) async fn subscribe<G: Gateway>(
    door: &HttpDoor<G>,
    wanted: Wanted,
    visit: &Visit,
) -> Result<Response, Fault> {
    let authority = &visit.authority;
    let place = listening_place(door, authority)?;
    let vigil = Vigil::over(door, authority);
    // Taken before the acknowledgement goes out: a change after it is never missed.
    let news = door.desk.gateway.news();
    let subscription = wanted.grant(&*door.desk.gateway).await;
    let frames = SubscriptionFrames {
        waiting: VecDeque::from([subscription.acknowledgement()]),
        subscription,
        greeting: Arc::clone(&door.desk.greeting),
        over: false,
        news,
        draining: Arc::clone(&visit.draining),
        _place: place,
    };
    Ok(respond(Watched { frames, vigil }, door.keep_alive))
}

impl Frames for RequestFrames {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(frame(first));
        }
        let running = self.running.as_mut()?;
        let event = tokio::select! {
            biased;
            event = running.next() => event,
            () = self.draining.give_up.cancelled() => {
                let message = running.end_unknown();
                self.running = None;
                return Some(frame(message));
            }
        };
        match event {
            Event::Said(message) => Some(frame(message)),
            Event::Answered(answered) => {
                self.running = None;
                Some(frame(answered.message))
            }
            Event::Cancelled => None,
        }
    }
}

impl<F: Frames> Frames for Watched<F> {
    async fn next(&mut self) -> Option<Bytes> {
        while self.vigil.lets_stay().await {
            tokio::select! {
                biased;
                () = self.vigil.falls_due() => {}
                frame = self.frames.next() => return frame,
            }
        }
        None
    }
}

impl Frames for SessionFrames {
    async fn next(&mut self) -> Option<Bytes> {
        let session = self.lease.session();
        // A stream for an answer is closed by the answer, also when the door closes.
        let closes = self.connected.purpose == Purpose::Standing;
        tokio::select! {
            biased;
            frame = self.connected.frames.recv() => frame,
            () = session.ended.cancelled() => None,
            () = self.draining.closing.cancelled(), if closes => None,
        }
    }
}

impl Frames for SubscriptionFrames {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(frame(message));
            }
            if self.over {
                return None;
            }
            tokio::select! {
                tidings = notifications::next(&mut self.news) => {
                    self.waiting.extend(self.subscription.announcements(&tidings));
                }
                () = self.draining.closing.cancelled() => {
                    self.over = true;
                    self.waiting.push_back(self.subscription.farewell(&self.greeting.meta_member));
                }
            }
        }
    }
}

fn respond(frames: impl Frames, keep_alive: Duration) -> Response {
    let body = stream::unfold(frames, move |mut frames| async move {
        let frame = match tokio::time::timeout(keep_alive, frames.next()).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        Some((frame, frames))
    });
    let mut response = Response::new(AnswerBody::Frames(Box::pin(body)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn frame(message: Vec<u8>) -> Bytes {
    [b"data: ".as_slice(), &on_one_line(message), b"\n\n"].concat().into()
}
