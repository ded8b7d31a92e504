//! Answers that are streams: a call with progress, a legacy client's GET, a modern client's subscription.
//!
//! Each is a small state machine that yields frames of Server-Sent Events. Whoever drops the body, as hyper does when the
//! client goes away, drops the state, and with it the call's token, the lease and the place among the streams.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header, request::Parts},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use servanda_engine::Gateway;
use servanda_mcp::Era;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Draining, HttpDoor, Lease, draining, headers, leased_session, method_not_allowed};
use crate::{
    call::{CallEvent, RunningCall},
    fault::Fault,
    listen::{self, Subscription, changed},
    splice,
};

/// A source of frames. What is silent for longer than a keep-alive gets a comment in between.
trait Frames: Send + 'static {
    /// The next message, nothing at the end. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>> + Send;
}

/// A call with its progress.
struct CallFrames {
    /// None once the last message is out.
    call: Option<Box<RunningCall>>,
    draining: Draining,
    _lease: Option<Lease>,
}

/// A legacy client's GET.
struct SessionFrames {
    lease: Lease,
    draining: Draining,
    _place: OwnedSemaphorePermit,
}

/// A modern client's subscription.
struct SubscriptionFrames {
    subscription: Subscription,
    stage: Stage,
    changes: watch::Receiver<u64>,
    draining: Draining,
    _place: OwnedSemaphorePermit,
}

enum Stage {
    Unacknowledged,
    Listening,
    Over,
}

/// Opens the stream of a GET.
pub(super) fn open<G: Gateway>(door: &HttpDoor<G>, parts: &Parts) -> Result<Response, Fault> {
    if headers::era(&parts.headers) == Some(Era::Modern) {
        return Ok(method_not_allowed("POST"));
    }
    headers::require_stream_accepted(&parts.headers)?;
    let lease = leased_session(door, &parts.headers)?;
    let place = Arc::clone(&lease.session().streams).try_acquire_owned().map_err(|_| {
        Fault::invalid_request(axum::http::StatusCode::TOO_MANY_REQUESTS, "the session has too many streams open")
            .hint("read from a stream that is open, or close one")
    })?;
    Ok(respond(SessionFrames { lease, draining: draining(door, parts), _place: place }, door.keep_alive))
}

/// Answers a call with its progress.
pub(super) fn call(call: Box<RunningCall>, lease: Option<Lease>, draining: Draining, keep_alive: Duration) -> Response {
    respond(CallFrames { call: Some(call), draining, _lease: lease }, keep_alive)
}

/// Answers a subscription.
pub(super) fn subscribe<G: Gateway>(
    door: &HttpDoor<G>,
    subscription: Subscription,
    draining: Draining,
) -> Result<Response, Fault> {
    let place = Arc::clone(&door.listen_streams)
        .try_acquire_owned()
        .map_err(|_| Fault::busy("too many clients are listening", "list the tools again from time to time instead"))?;
    // Taken before the acknowledgement goes out: a change after it is never missed.
    let mut changes = door.desk.gateway.changes();
    changes.mark_unchanged();
    let frames = SubscriptionFrames { subscription, stage: Stage::Unacknowledged, changes, draining, _place: place };
    Ok(respond(frames, door.keep_alive))
}

impl Frames for CallFrames {
    async fn next(&mut self) -> Option<Vec<u8>> {
        let call = self.call.as_mut()?;
        let event = tokio::select! {
            biased;
            event = call.next() => event,
            () = self.draining.give_up.cancelled() => CallEvent::Answered(call.end_unknown()),
        };
        match event {
            CallEvent::Progress(message) => Some(message),
            CallEvent::Answered(message) => {
                self.call = None;
                Some(message)
            }
            CallEvent::Cancelled => None,
        }
    }
}

impl Frames for SessionFrames {
    async fn next(&mut self) -> Option<Vec<u8>> {
        let session = self.lease.session();
        let change = async { changed(&mut *session.changes.lock().await).await };
        tokio::select! {
            () = change => Some(listen::legacy_list_changed()),
            () = session.ended.cancelled() => None,
            () = self.draining.closing.cancelled() => None,
        }
    }
}

impl Frames for SubscriptionFrames {
    async fn next(&mut self) -> Option<Vec<u8>> {
        match self.stage {
            Stage::Unacknowledged => {
                self.stage = Stage::Listening;
                Some(self.subscription.acknowledgement())
            }
            Stage::Listening => tokio::select! {
                () = changed(&mut self.changes), if self.subscription.tools_list_changed => {
                    Some(self.subscription.list_changed())
                }
                () = self.draining.closing.cancelled() => {
                    self.stage = Stage::Over;
                    Some(self.subscription.farewell())
                }
            },
            Stage::Over => None,
        }
    }
}

fn respond(frames: impl Frames, keep_alive: Duration) -> Response {
    let body = stream::unfold(frames, move |mut frames| async move {
        let frame = match tokio::time::timeout(keep_alive, frames.next()).await {
            Ok(Some(message)) => frame(message),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok::<_, std::convert::Infallible>(frame), frames))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn frame(message: Vec<u8>) -> Bytes {
    [b"data: ".as_slice(), &splice::single_line(message), b"\n\n"].concat().into()
}
