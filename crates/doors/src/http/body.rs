//! Reads a body within limits of size and time, and within a memory limit for all bodies together, because a body is
//! held in memory before its request takes a place among the running ones.

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use hyper::body::Body;
use servanda_authority::AuthenticatedCaller;

use super::headers;
use crate::{
    fault::ProtocolFault,
    slots::{CallerSlot, CallerSlots, NoCallerSlot},
};

/// Bytes of a body for each place that it takes. The first `BYTES_PER_PLACE` bytes take none, so that ordinary messages
/// pass however much others send.
const BYTES_PER_PLACE: usize = 256 << 10;
/// Places for all bodies together: 128 MiB.
const PLACES_MAX: usize = 512;

/// The memory for large bodies.
pub(super) fn body_slots() -> Arc<CallerSlots> {
    CallerSlots::new(PLACES_MAX)
}

/// A body, and the memory it takes until this is dropped.
#[derive(Debug)]
pub(super) struct ReadBody {
    pub(super) bytes: Bytes,
    places: Vec<CallerSlot>,
}

/// Reads the whole body of a caller's request.
pub(super) async fn read_for_caller(
    (places, caller): (&Arc<CallerSlots>, &AuthenticatedCaller),
    (headers, body): (&HeaderMap, impl Body<Data = Bytes> + Unpin),
    bytes_max: usize,
    read_max: Duration,
) -> Result<ReadBody, ProtocolFault> {
    within_limits(headers, bytes_max, read_max, collect(body, bytes_max, |count| places.take_more(caller, count))).await
}

/// Reads the whole body of a request whose caller is not known yet. It takes no place, so `bytes_max` is small.
pub(super) async fn read(
    headers: &HeaderMap,
    body: impl Body<Data = Bytes> + Unpin,
    bytes_max: usize,
    read_max: Duration,
) -> Result<Bytes, ProtocolFault> {
    let no_places = |_| Err(NoCallerSlot::AllTaken);
    let bytes_max = bytes_max.min(BYTES_PER_PLACE);
    within_limits(headers, bytes_max, read_max, collect(body, bytes_max, no_places)).await.map(|body| body.bytes)
}

async fn within_limits(
    headers: &HeaderMap,
    bytes_max: usize,
    read_max: Duration,
    collected: impl Future<Output = Result<ReadBody, ProtocolFault>>,
) -> Result<ReadBody, ProtocolFault> {
    let announced = headers::text(headers, &header::CONTENT_LENGTH).and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    tokio::time::timeout(read_max, collected).await.unwrap_or_else(|_| {
        Err(ProtocolFault::invalid_request(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))
    })
}

/// Collects the body. A body that arrived in one piece is not copied.
async fn collect(
    mut body: impl Body<Data = Bytes> + Unpin,
    bytes_max: usize,
    take: impl Fn(usize) -> Result<Vec<CallerSlot>, NoCallerSlot>,
) -> Result<ReadBody, ProtocolFault> {
    let mut whole = ReadBody { bytes: Bytes::new(), places: Vec::new() };
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame =
            frame.map_err(|_| ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, "the body ended early"))?;
        // The door does not read trailers.
        let Ok(piece) = frame.into_data() else { continue };
        let length = whole.bytes.len().saturating_add(piece.len());
        if length > bytes_max {
            return Err(too_large(bytes_max));
        }
        let missing = (length.saturating_sub(1) / BYTES_PER_PLACE).saturating_sub(whole.places.len());
        if missing > 0 {
            whole.places.extend(take(missing).map_err(no_memory)?);
        }
        whole.bytes = if whole.bytes.is_empty() { piece } else { joined(whole.bytes, &piece) };
    }
    Ok(whole)
}

fn no_memory(no_place: NoCallerSlot) -> ProtocolFault {
    let hint = "send this request again when others have finished, or send smaller messages";
    match no_place {
        NoCallerSlot::AllTaken => {
            ProtocolFault::busy("the requests that the gateway is reading are too large together", hint)
        }
        NoCallerSlot::ShareTaken => {
            ProtocolFault::busy("your requests that the gateway is reading are too large together", hint)
        }
    }
}

fn joined(whole: Bytes, piece: &[u8]) -> Bytes {
    // This takes the buffer back if nothing else holds it, so that it grows in place.
    let mut whole = BytesMut::from(whole);
    whole.extend_from_slice(piece);
    whole.freeze()
}

fn too_large(bytes_max: usize) -> ProtocolFault {
    ProtocolFault::invalid_request(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {bytes_max} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::answer_body::AnswerBody;

    /// Reads bodies of `kilobytes` each and holds them.
    async fn held(places: &Arc<CallerSlots>, count: usize, kilobytes: usize) -> Result<Vec<ReadBody>, ProtocolFault> {
        let (headers, caller) = (HeaderMap::new(), AuthenticatedCaller::local());
        let mut bodies = Vec::new();
        for _ in 0..count {
            let body = AnswerBody::Whole(vec![b'x'; kilobytes << 10].into());
            bodies.push(read_for_caller((places, &caller), (&headers, body), 8 << 20, Duration::from_secs(10)).await?);
        }
        Ok(bodies)
    }

    #[tokio::test]
    async fn large_bodies_take_memory_that_others_have_to_wait_for() {
        let places = CallerSlots::new(8);
        assert_eq!(held(&places, 1_000, 256).await.unwrap().len(), 1_000, "ordinary messages take no place");
        let two = held(&places, 2, 1_280).await.unwrap();
        let refused = held(&places, 1, 300).await.unwrap_err();
        assert!(refused.error.message.contains("too large together"), "{refused:?}");
        drop(two);
        assert_eq!(held(&places, 1, 2_304).await.unwrap().len(), 1, "what ended gave its memory back");
        assert!(held(&places, 1, 2_305).await.is_err());
        let form = read(&HeaderMap::new(), AnswerBody::Whole("a=b".into()), 64 << 10, Duration::from_secs(10)).await;
        assert_eq!(form.unwrap(), "a=b", "a form takes none");
    }
}
