//! Passes requests for pages on.
//!
//! The door is responsible for what protects the process: which host a request names, how long its body is, how many
//! streams of events one address holds, and that streams end when the gateway does. Deliberately not here: who the
//! person is, which pages exist, and what a page says.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderValue, Method, StatusCode, header};
use hyper::body::Incoming;
use servanda_engine::Gateway;

use super::{
    AnswerBody, DoorRequestHead, DoorResponse, DrainSignals, HttpDoor, body, empty,
    pages::{PAGE_BODY_BYTES_MAX, PageBody, PageEvents, PageRequest, PageResponse},
    stream,
};

/// Streams of events that one address may hold. Behind a proxy all people have one address.
const STREAMS_PER_PEER_MAX: usize = 64;
/// Streams of events over all addresses.
const STREAMS_MAX: usize = 512;

/// How many streams of events are open.
#[derive(Debug, Default)]
pub(super) struct PageStreams(Mutex<BTreeMap<IpAddr, usize>>);

/// The place of one stream, held until this is dropped.
struct PageStreamSlot {
    streams: Arc<PageStreams>,
    peer: IpAddr,
}

/// The events of a page, with their place.
struct PageFrames {
    events: PageEvents,
    draining: Arc<DrainSignals>,
    _place: PageStreamSlot,
}

/// Answers a request with a page.
pub(super) async fn answer<G: Gateway>(
    door: &HttpDoor<G>,
    request_head: DoorRequestHead,
    body: Incoming,
) -> DoorResponse {
    let Some(pages) = &door.pages else { return empty(StatusCode::NOT_FOUND) };
    let DoorRequestHead { parts, peer, draining, .. } = request_head;
    // The owner of a foreign name that leads here could read the page (DNS rebinding).
    if let Err(fault) = door.origin_guard.check_host(&parts, door.authenticator.hostname().as_deref()) {
        return plain(fault.status, &fault.error.message);
    }
    let body = if parts.method == Method::POST {
        match body::read(&parts.headers, body, PAGE_BODY_BYTES_MAX, door.body_read_max).await {
            Ok(body) => body,
            Err(fault) => return plain(fault.status, &fault.error.message),
        }
    } else {
        Bytes::new()
    };
    let request = PageRequest { method: parts.method, uri: parts.uri, headers: parts.headers, body, peer };
    let PageResponse { status, headers, body, wrong_credential } = pages.answer(request).await;
    if let Some(why) = wrong_credential {
        door.note_wrong_credential(peer, &format!("in the console: {why}"));
    }
    let body = match body {
        PageBody::Whole(bytes) => AnswerBody::Whole(bytes),
        PageBody::Events(events) => {
            let Some(place) = door.page_streams.take(peer) else {
                let message = "too many live views are open from this address: close one, or reload the page later";
                return plain(StatusCode::SERVICE_UNAVAILABLE, message);
            };
            stream::body_of(PageFrames { events, draining, _place: place }, door.keep_alive)
        }
    };
    let mut response = DoorResponse::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

impl PageStreams {
    /// A place for one more stream of this address.
    fn take(self: &Arc<Self>, peer: IpAddr) -> Option<PageStreamSlot> {
        let mut open = self.open();
        let (own, all) = (open.get(&peer).copied().unwrap_or_default(), open.values().sum::<usize>());
        if own >= STREAMS_PER_PEER_MAX || all >= STREAMS_MAX {
            return None;
        }
        open.insert(peer, own + 1);
        drop(open);
        Some(PageStreamSlot { streams: Arc::clone(self), peer })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PageStreamSlot {
    fn drop(&mut self) {
        let mut open = self.streams.open();
        match open.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.peer)),
        }
    }
}

impl stream::FrameSource for PageFrames {
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            () = self.draining.closing.cancelled() => None,
            frame = self.events.next() => frame,
        }
    }
}

/// The door's own answer to a person: plain text, because a browser shows it.
fn plain(status: StatusCode, message: &str) -> DoorResponse {
    let mut response = DoorResponse::new(AnswerBody::Whole(format!("{message}\n").into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_address_holds_a_bounded_number_of_streams_and_gives_them_back() {
        let streams = Arc::<PageStreams>::default();
        let peer = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let held: Vec<_> = (0..STREAMS_PER_PEER_MAX).map(|_| streams.take(peer(1)).unwrap()).collect();
        assert!(streams.take(peer(1)).is_none());
        let other = streams.take(peer(2)).unwrap();
        drop(held);
        assert!(streams.take(peer(1)).is_some());
        drop(other);
        assert!(streams.open().is_empty(), "an address without a stream is forgotten");
        let many: Vec<_> = (0..=u8::MAX)
            .flat_map(|last| (0..3).map(move |_| peer(last)))
            .filter_map(|peer| streams.take(peer))
            .collect();
        assert_eq!(many.len(), STREAMS_MAX);
    }
}
