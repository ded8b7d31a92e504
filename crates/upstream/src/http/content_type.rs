//! Tells whether a response is JSON or a stream of events.

use hyper::header::CONTENT_TYPE;

use crate::http_client::UpstreamResponse;

/// The form of a response's body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ContentType {
    Json,
    EventStream,
    Other,
}

/// The form that the response declares.
pub(super) fn content_type(response: &UpstreamResponse) -> ContentType {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        ContentType::Json
    } else if essence.eq_ignore_ascii_case("text/event-stream") {
        ContentType::EventStream
    } else {
        ContentType::Other
    }
}
