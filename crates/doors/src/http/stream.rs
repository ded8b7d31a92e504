//! Answers that are streams of Server-Sent Events: a modern request with the messages before its answer, a modern
//! subscription, and the streams of a legacy session.
//!
//! Each is a small state machine that yields frames. Dropping the body, as hyper does when the client goes away, drops
//! the state: that cancels a modern request, while a legacy stream only loses its connection.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use servanda_authority::AuthenticatedCaller;
use servanda_engine::{ChangeEvent, Gateway};
use servanda_mcp::{Era, lines::on_one_line};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, broadcast},
};

use super::{
    AnswerBody, AuthenticatedRequest, DoorResponse, DrainSignals, HttpDoor, headers, leased_session,
    method_not_allowed,
    sessions::{EventNotReplayable, HttpSessionLease, SessionStreamConnection, StreamPurpose},
    stream_reauth::StreamReauth,
};
use crate::{
    fault::ProtocolFault,
    listen::{ListenRequest, ListenSubscription},
    notifications,
    running_request::{RunningRequest, RunningRequestEvent},
    server_info::RenderedServerInfo,
    slots::{CallerSlot, NoCallerSlot},
};

/// A source of frames. If it is silent for longer than the keep-alive time, a comment is sent in between.
pub(super) trait FrameSource: Send + 'static {
    /// The next frame, or `None` at the end. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// A modern request, with the messages before its answer.
struct RequestFrames {
    /// The message that came before the stream was opened.
    first: Option<Vec<u8>>,
    /// `None` once the last message is out.
    running: Option<Box<RunningRequest>>,
    draining: Arc<DrainSignals>,
}

/// A stream of a legacy session.
struct SessionFrames {
    connected: SessionStreamConnection,
    lease: HttpSessionLease,
    draining: Arc<DrainSignals>,
    /// A place among the session's streams, and one among all streams on which clients only listen.
    _places: Option<(OwnedSemaphorePermit, CallerSlot)>,
}

/// A modern client's subscription.
struct SubscriptionFrames {
    subscription: ListenSubscription,
    server_info: Arc<RenderedServerInfo>,
    /// The messages to send next.
    waiting: VecDeque<Vec<u8>>,
    over: bool,
    news: broadcast::Receiver<ChangeEvent>,
    draining: Arc<DrainSignals>,
    _place: CallerSlot,
}

/// Frames of a stream whose credential is checked repeatedly.
struct ReauthenticatedFrames<F> {
    frames: F,
    reauth: StreamReauth,
}

/// Opens the stream of a GET: a new one, or one that broke.
pub(super) async fn open<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
) -> Result<DoorResponse, ProtocolFault> {
    if headers::era(&http_request.headers) == Some(Era::Modern) {
        return Ok(method_not_allowed("POST"));
    }
    headers::require_stream_accepted(&http_request.headers)?;
    let lease = leased_session(door, http_request).await?;
    let place = Arc::clone(&lease.session().streams).try_acquire_owned().map_err(|_| {
        ProtocolFault::invalid_request(StatusCode::TOO_MANY_REQUESTS, "the session has too many streams open")
            .hint("use a stream that is already open, or close one")
    })?;
    let among_all = listening_place(door, &http_request.authority)?;
    let connected = if http_request.headers.contains_key(&headers::LAST_EVENT_ID) {
        let event_id = headers::text(&http_request.headers, &headers::LAST_EVENT_ID).unwrap_or_default();
        // Not 404, which would mean that the session is gone.
        lease.session().replay_buffer.resume(event_id).map_err(|EventNotReplayable| {
            ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, "the events after `Last-Event-ID` are no longer kept")
                .hint("open a new stream with GET and without `Last-Event-ID`, and send requests that were not answered again")
        })?
    } else {
        lease.session().replay_buffer.open_standalone()
    };
    let frames = SessionFrames {
        connected,
        lease,
        draining: Arc::clone(&http_request.draining),
        _places: Some((place, among_all)),
    };
    Ok(respond(
        ReauthenticatedFrames { frames, reauth: StreamReauth::for_stream(door, &http_request.authority) },
        door.keep_alive,
    ))
}

/// Takes a place among all streams on which clients only listen, of both eras and all sessions.
fn listening_place<G: Gateway>(
    door: &HttpDoor<G>,
    authority: &AuthenticatedCaller,
) -> Result<CallerSlot, ProtocolFault> {
    door.listen_streams.take(authority).map_err(|no_place| match no_place {
        NoCallerSlot::AllTaken => {
            ProtocolFault::busy("too many clients are listening", "list the tools again from time to time instead")
        }
        NoCallerSlot::ShareTaken => {
            ProtocolFault::busy("too many of your clients are listening", "close a stream that you no longer need")
        }
    })
}

/// Answers a modern request with a stream.
pub(super) fn request(
    first: Option<Vec<u8>>,
    mut running: Box<RunningRequest>,
    draining: Arc<DrainSignals>,
    keep_alive: Duration,
) -> DoorResponse {
    // Spawned, because the body is polled only as fast as the client reads.
    running.spawn_on(&Handle::current());
    respond(RequestFrames { first, running: Some(running), draining }, keep_alive)
}

/// Answers with a stream of a legacy session.
pub(super) fn session(
    connected: SessionStreamConnection,
    lease: HttpSessionLease,
    draining: Arc<DrainSignals>,
    keep_alive: Duration,
) -> DoorResponse {
    respond(SessionFrames { connected, lease, draining, _places: None }, keep_alive)
}

/// Answers a subscription.
pub(super) async fn subscribe<G: Gateway>(
    door: &HttpDoor<G>,
    listen_request: ListenRequest,
    http_request: &AuthenticatedRequest,
) -> Result<DoorResponse, ProtocolFault> {
    let authority = &http_request.authority;
    let place = listening_place(door, authority)?;
    let reauth = StreamReauth::for_stream(door, authority);
    // Subscribed before the acknowledgement goes out, so that no later change is missed.
    let news = door.dispatcher.gateway.change_events();
    let subscription = listen_request.grant(&*door.dispatcher.gateway).await;
    let frames = SubscriptionFrames {
        waiting: VecDeque::from([subscription.acknowledgement()]),
        subscription,
        server_info: Arc::clone(&door.dispatcher.server_info),
        over: false,
        news,
        draining: Arc::clone(&http_request.draining),
        _place: place,
    };
    Ok(respond(ReauthenticatedFrames { frames, reauth }, door.keep_alive))
}

impl FrameSource for RequestFrames {
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
            RunningRequestEvent::Message(message) => Some(frame(message)),
            RunningRequestEvent::Answered(answered) => {
                self.running = None;
                Some(frame(answered.message))
            }
            RunningRequestEvent::Cancelled => None,
        }
    }
}

impl<F: FrameSource> FrameSource for ReauthenticatedFrames<F> {
    async fn next(&mut self) -> Option<Bytes> {
        while self.reauth.check_if_due().await {
            tokio::select! {
                biased;
                () = self.reauth.wait_until_due() => {}
                frame = self.frames.next() => return frame,
            }
        }
        None
    }
}

impl FrameSource for SessionFrames {
    async fn next(&mut self) -> Option<Bytes> {
        let session = self.lease.session();
        // A stream for an answer is closed by its answer, also when the door closes.
        let closes = self.connected.purpose == StreamPurpose::Standalone;
        tokio::select! {
            biased;
            frame = self.connected.frames.recv() => frame,
            () = session.ended.cancelled() => None,
            () = self.draining.closing.cancelled(), if closes => None,
        }
    }
}

impl FrameSource for SubscriptionFrames {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(frame(message));
            }
            if self.over {
                return None;
            }
            tokio::select! {
                notifications = notifications::next(&mut self.news) => {
                    self.waiting.extend(self.subscription.announcements(&notifications));
                }
                () = self.draining.closing.cancelled() => {
                    self.over = true;
                    self.waiting.push_back(self.subscription.closing_response(&self.server_info.meta_member));
                }
            }
        }
    }
}

/// The frames as the body of an answer.
pub(super) fn body_of(frames: impl FrameSource, keep_alive: Duration) -> AnswerBody {
    let body = stream::unfold(frames, move |mut frames| async move {
        let frame = match tokio::time::timeout(keep_alive, frames.next()).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        Some((frame, frames))
    });
    AnswerBody::Frames(Box::pin(body))
}

fn respond(frames: impl FrameSource, keep_alive: Duration) -> DoorResponse {
    let mut response = DoorResponse::new(body_of(frames, keep_alive));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn frame(message: Vec<u8>) -> Bytes {
    [b"data: ".as_slice(), &on_one_line(message), b"\n\n"].concat().into()
}
