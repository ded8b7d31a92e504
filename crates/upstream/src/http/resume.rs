//! Resumes a legacy stream that broke or was closed on purpose, with a GET that names the last event. The request itself is never sent
//! again.

use std::time::Duration;

use hyper::{
    Method, StatusCode,
    header::{HeaderName, HeaderValue, InvalidHeaderValue},
};
use servanda_mcp::fields::header;

use super::{
    address::HttpAddress,
    content_type::{ContentType, content_type},
    sse::EventReader,
};
use crate::http_client::{HttpRequestBody, UpstreamResponse};

/// The pause before a stream is resumed if the server does not state one.
const RETRY_MS: u64 = 1_000;
/// The shortest and the longest pause, whatever the server says.
const RETRY_MS_MIN: u64 = 20;
const RETRY_MS_MAX: u64 = 60_000;

/// The outcome of an attempt.
#[derive(Debug)]
pub(super) enum ResumeOutcome {
    /// The stream goes on.
    Stream(UpstreamResponse),
    /// The server no longer knows the session.
    Disowned,
    /// The server does not resume streams.
    Refused {
        /// What it said.
        why: String,
    },
    /// The server may accept it later.
    NotNow,
}

/// The pause before a stream is opened again after this many attempts without progress.
pub(super) fn pause(events: &EventReader, fruitless: u32) -> Duration {
    let wanted = events.retry_ms().unwrap_or(RETRY_MS).clamp(RETRY_MS_MIN, RETRY_MS_MAX);
    Duration::from_millis(wanted.saturating_mul(1 << fruitless.min(16)).min(RETRY_MS_MAX))
}

/// The count after a stream that opened and brought nothing. It stays low, because a server that wants to be polled may do this for long.
pub(super) fn attempts_after_empty_stream(fruitless: u32) -> u32 {
    (fruitless + 1).min(2)
}

/// Opens a stream, or resumes one where it ended. Cancel safe.
pub(super) async fn open(address: &HttpAddress, events: &EventReader) -> ResumeOutcome {
    let field = match events.last_id().map(last_event_id).transpose() {
        Ok(place) => place.map(|place| (HeaderName::from_static(header::LAST_EVENT_ID), place)),
        Err(_) => return ResumeOutcome::Refused { why: "its event ids do not fit into a header".to_owned() },
    };
    match address.send(Method::GET, field, HttpRequestBody::none()).await {
        None => ResumeOutcome::NotNow,
        Some(Ok(response)) => classify_response(response, address.in_session()),
        Some(Err(why)) => {
            tracing::debug!(%why, "a stream could not be opened");
            ResumeOutcome::NotNow
        }
    }
}

fn last_event_id(id: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::from_bytes(id.as_bytes())
}

fn classify_response(response: UpstreamResponse, in_session: bool) -> ResumeOutcome {
    let status = response.status();
    if status.is_success() && content_type(&response) == ContentType::EventStream {
        return ResumeOutcome::Stream(response);
    }
    match status {
        StatusCode::NOT_FOUND if in_session => ResumeOutcome::Disowned,
        // A server that has not noticed that the stream broke answers that there is one already.
        StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => ResumeOutcome::NotNow,
        status if status.is_server_error() => ResumeOutcome::NotNow,
        status => ResumeOutcome::Refused { why: format!("it was answered with HTTP status {}", status.as_u16()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_the_servers_within_bounds_and_grow_without_fruit() {
        let after = |retry: &str, fruitless| {
            let mut events = EventReader::new(100);
            events.read(format!("{retry}\n\n").as_bytes(), |_| true).unwrap();
            pause(&events, fruitless).as_millis()
        };
        let table = [
            ("data: x", 0, 1_000),
            ("retry: 500", 0, 500),
            ("retry: 500", 1, 1_000),
            ("retry: 0", 0, 20),
            ("retry: 0", 3, 160),
            ("retry: 99999999", 0, 60_000),
            ("retry: 500", 40, 60_000),
        ];
        for (retry, fruitless, expected) in table {
            assert_eq!(after(retry, fruitless), expected, "{retry} after {fruitless}");
        }
    }
}
