//! Sends one message to a collector and says what came of it. It neither waits nor tries again.

use std::{fmt, future::poll_fn, pin::Pin, time::Duration};

use bytes::Bytes;
use hyper::body::Body as _;
use reqwest::{
    Response, StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};

/// How much of a collector's answer is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sends messages to one collector.
pub(super) trait SpanTransport: fmt::Debug + Send + Sync {
    /// Sends a message once; the number is that of the spans that the collector rejected.
    fn send(&self, message: Bytes) -> SendFuture<'_>;
}

pub(super) type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<u64, SpanSendFailure>> + Send + 'a>>;

/// The collector did not take a message. The reason repeats no address and nothing that the collector wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(super) struct SpanSendFailure {
    pub(super) why: String,
    /// Whether the same message may be sent again.
    pub(super) may_retry: bool,
    /// How long the collector asks to wait before that.
    pub(super) retry_after: Option<Duration>,
}

/// What a collector answered.
pub(super) struct CollectorAnswer {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) trailers: HeaderMap,
}

impl SpanSendFailure {
    /// The collector answered with that HTTP status.
    pub(super) fn of_status(status: StatusCode, headers: &HeaderMap) -> Self {
        Self {
            why: format!("the collector answered with status {}", status.as_u16()),
            // These four, says OTLP.
            may_retry: matches!(status.as_u16(), 429 | 502 | 503 | 504),
            retry_after: retry_after(headers),
        }
    }

    /// No answer came.
    pub(super) fn of_error(error: reqwest::Error) -> Self {
        Self { why: chain(&error.without_url()), may_retry: true, retry_after: None }
    }

    /// No answer came in time.
    pub(super) fn late(ms_max: u64) -> Self {
        Self { why: format!("there was no answer within {ms_max} ms"), may_retry: true, retry_after: None }
    }
}

impl CollectorAnswer {
    /// Reads an answer to its end, as far as it is not too long.
    pub(super) async fn read(response: Response) -> Result<Self, SpanSendFailure> {
        let headers = response.headers().clone();
        let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
        let mut frames = reqwest::Body::from(response);
        while let Some(frame) = poll_fn(|context| Pin::new(&mut frames).poll_frame(context)).await {
            match frame.map_err(SpanSendFailure::of_error)?.into_data() {
                Ok(data) if body.len() + data.len() > ANSWER_BYTES_MAX => {
                    let why = "the collector's answer is too long".to_owned();
                    return Err(SpanSendFailure { why, may_retry: false, retry_after: None });
                }
                Ok(data) => body.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
        Ok(Self { headers, body, trailers })
    }
}

/// The seconds of `Retry-After`. A date, its other form, is passed over: it would need the collector's clock to be ours.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
