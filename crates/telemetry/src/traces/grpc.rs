//! OTLP over gRPC. A unary call is one framed message each way over HTTP/2, and a status in the trailers; that is all of gRPC that is here.

use bytes::{BufMut as _, Bytes, BytesMut};
use reqwest::{
    Client, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, TE},
};

use super::{
    otlp::OtlpExportResponse,
    settings::CollectorAddress,
    transport::{CollectorAnswer, SendFuture, SpanSendFailure, SpanTransport},
};

/// Before each message: whether it is compressed, and its length.
const FRAME_HEAD_BYTES: usize = 5;

#[derive(Debug)]
pub(super) struct GrpcTransport {
    client: Client,
    collector: CollectorAddress,
}

impl GrpcTransport {
    pub(super) const fn new(client: Client, collector: CollectorAddress) -> Self {
        Self { client, collector }
    }

    async fn call(&self, message: Bytes) -> Result<u64, SpanSendFailure> {
        let CollectorAddress { url, headers, .. } = &self.collector;
        let posting = self.client.post(url.clone()).headers(headers.clone());
        let posting = posting.header(CONTENT_TYPE, "application/grpc").header(TE, "trailers").body(framed(&message)?);
        let response = posting.send().await.map_err(SpanSendFailure::of_error)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(SpanSendFailure::of_status(status, response.headers()));
        }
        let CollectorAnswer { headers, body, trailers } = CollectorAnswer::read(response).await?;
        // An error without a message has its status in the headers.
        match grpc_status(&trailers).or_else(|| grpc_status(&headers)) {
            Some(0) => Ok(OtlpExportResponse::rejected_spans(unframed(&body))),
            status => Err(failure(status)),
        }
    }
}

impl SpanTransport for GrpcTransport {
    fn send(&self, message: Bytes) -> SendFuture<'_> {
        Box::pin(self.call(message))
    }
}

fn framed(message: &Bytes) -> Result<Bytes, SpanSendFailure> {
    let length = u32::try_from(message.len()).map_err(|_| SpanSendFailure {
        why: "the message is too long for gRPC".to_owned(),
        may_retry: false,
        retry_after: None,
    })?;
    let mut frame = BytesMut::with_capacity(FRAME_HEAD_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(length);
    frame.extend_from_slice(message);
    Ok(frame.freeze())
}

/// The message of the answer's only frame; empty if there is none. We accept no compression, so none is used.
fn unframed(body: &[u8]) -> &[u8] {
    body.get(FRAME_HEAD_BYTES..).unwrap_or_default()
}

fn grpc_status(headers: &HeaderMap) -> Option<u32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

fn failure(status: Option<u32>) -> SpanSendFailure {
    let why = match status {
        Some(status) => format!("the collector answered with gRPC status {status}"),
        None => "the collector's answer has no gRPC status".to_owned(),
    };
    // CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE and DATA_LOSS, says OTLP; RESOURCE_EXHAUSTED only with a time to
    // wait, which stands in a message that is not read here.
    let may_retry = matches!(status, None | Some(1 | 4 | 10 | 11 | 14 | 15));
    SpanSendFailure { why, may_retry, retry_after: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_framed() {
        let message = Bytes::from_static(b"spans");
        let frame = framed(&message).unwrap();
        assert_eq!(&*frame, b"\0\0\0\0\x05spans");
        assert_eq!(unframed(&frame), b"spans");
        assert_eq!(unframed(b"\0\0"), b"");
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let retried: Vec<u32> = (0..17).filter(|status| failure(Some(*status)).may_retry).collect();
        assert_eq!(retried, [1, 4, 10, 11, 14, 15]);
        assert!(failure(None).may_retry);
    }
}
