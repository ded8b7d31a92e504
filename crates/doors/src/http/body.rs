//! Reads a body, within its limits of size and time.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::headers;
use crate::fault::Fault;

/// The whole body. One that arrived in one piece is not copied.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    read_max: Duration,
) -> Result<Bytes, Fault> {
    let announced = headers::text(headers, header::CONTENT_LENGTH.as_str()).and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    tokio::time::timeout(read_max, collect(body, bytes_max))
        .await
        .unwrap_or_else(|_| Err(Fault::invalid_request(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")))
}

async fn collect(body: Body, bytes_max: usize) -> Result<Bytes, Fault> {
    let mut pieces = body.into_data_stream();
    let mut whole = Bytes::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Fault::invalid_request(StatusCode::BAD_REQUEST, "the body ended early"))?;
        if whole.len().saturating_add(piece.len()) > bytes_max {
            return Err(too_large(bytes_max));
        }
        whole = if whole.is_empty() { piece } else { joined(whole, &piece) };
    }
    Ok(whole)
}

fn joined(whole: Bytes, piece: &[u8]) -> Bytes {
    // Takes the buffer back when nobody else holds it, so that this grows in place.
    let mut whole = BytesMut::from(whole);
    whole.extend_from_slice(piece);
    whole.freeze()
}

fn too_large(bytes_max: usize) -> Fault {
    Fault::invalid_request(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {bytes_max} bytes"))
}
