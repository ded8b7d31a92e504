//! `/metrics`: the figures that a monitor reads, and the reasons by which rejected requests are counted.
//!
//! Where callers need no credential, everybody who reaches the door may read it, as it is with `/healthz`; web pages of other origins may
//! not. Elsewhere a credential for this page is needed, because the labels name tools and callers of every tenant. Deliberately not here: the
//! figures, their text, and what a credential is (a port, [`MetricsSource`]).

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use servanda_engine::{Gateway, PortFuture};

use super::{
    AnswerBody, AuthRejection, DoorRequestHead, DoorResponse, HttpDoor, not_for_method, refuse, rejection_response,
};

/// The page.
pub(super) const PATH: &str = "/metrics";

/// A host or an origin that may not call.
pub(super) const BAD_ORIGIN: &str = "bad_origin";
/// A request without a credential.
pub(super) const NO_CREDENTIAL: &str = "no_credential";
/// A credential that is not valid.
pub(super) const BAD_CREDENTIAL: &str = "bad_credential";
/// A credential that could not be checked.
pub(super) const CREDENTIAL_UNCHECKED: &str = "credential_unchecked";
/// A request that is no message, or lacks what a message needs.
pub(super) const MALFORMED: &str = "malformed";

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Has the figures of this gateway.
pub trait MetricsSource: Send + Sync + fmt::Debug {
    /// Counts a request that the door rejected. The reasons are a fixed list.
    fn count_rejection(&self, reason: &'static str);

    /// Whether everybody who reaches the door may read the figures.
    fn is_open(&self) -> bool;

    /// Checks the credential of a request for the figures, if they are not open.
    fn admit<'a>(&'a self, authorization: Option<&'a HeaderValue>) -> PortFuture<'a, Result<(), AuthRejection>>;

    /// The figures as a text. Waits only briefly for those that a store has.
    fn page(&self, format: MetricsFormat) -> PortFuture<'_, Bytes>;
}

/// The form of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus text, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

/// Answers a request for the page.
pub(super) async fn answer<G: Gateway>(door: &HttpDoor<G>, request_head: &DoorRequestHead) -> DoorResponse {
    let Some(metrics) = &door.metrics else { return super::empty(StatusCode::NOT_FOUND) };
    let parts = &request_head.parts;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return not_for_method("GET,HEAD");
    }
    if metrics.is_open() {
        // Without a credential, a web page in a browser on this machine could read them.
        if let Err(fault) = door.origin_guard.check(parts, door.authenticator.hostname().as_deref()) {
            door.count_rejection(BAD_ORIGIN);
            return refuse(&fault, None);
        }
    } else if let Err(rejection) = metrics.admit(single(&parts.headers)).await {
        door.note_rejection(request_head.peer, &rejection);
        return rejection_response(&rejection);
    }
    let format = format(&parts.headers);
    let mut response = DoorResponse::new(AnswerBody::Whole(metrics.page(format).await));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let content_type = match format {
        MetricsFormat::Text => TEXT,
        MetricsFormat::OpenMetrics => OPEN_METRICS,
    };
    headers.insert(header::CONTENT_TYPE, content_type);
    response
}

/// Why the door rejected the request of an authenticated caller, by the status of its answer; none if it did not. A call that was refused
/// is no such request: it has a record.
pub(super) fn rejection(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_ACCEPTABLE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::METHOD_NOT_ALLOWED => Some(MALFORMED),
        StatusCode::PAYLOAD_TOO_LARGE => Some("too_large"),
        StatusCode::REQUEST_TIMEOUT => Some("too_slow"),
        StatusCode::NOT_FOUND => Some("not_found"),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Some("busy"),
        _ => None,
    }
}

/// The credential. Of two, none: a proxy in between may have used the other.
fn single(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    shown.next().filter(|_| shown.next().is_none())
}

/// The form that the client prefers. Only a client that names `OpenMetrics` gets it.
fn format(headers: &HeaderMap) -> MetricsFormat {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (mut open_metrics, mut text) = (0, 0);
    for offer in accepted.flat_map(|list| list.split(',')) {
        let mut parts = offer.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let (mut permille, mut is_known) = (1_000, true);
        for part in parts {
            match part.split_once('=').map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))) {
                Some(("q", value)) => permille = quality(value),
                Some(("version", "1.0.0")) => {}
                Some(("version", _)) => is_known = false,
                _ => {}
            }
        }
        if name.eq_ignore_ascii_case("application/openmetrics-text") && is_known {
            open_metrics = open_metrics.max(permille);
        } else if name.eq_ignore_ascii_case("text/plain") {
            text = text.max(permille);
        }
    }
    if open_metrics > 0 && open_metrics >= text { MetricsFormat::OpenMetrics } else { MetricsFormat::Text }
}

/// A quality in thousandths; unreadable ones count as the least.
fn quality(text: &str) -> u16 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let thousandths = digits.parse::<u16>().unwrap_or_default();
    match whole {
        "0" => thousandths,
        "1" => 1_000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_prefers_open_metrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, expected) in [
            (None, MetricsFormat::Text),
            (Some("*/*"), MetricsFormat::Text),
            (Some("text/plain"), MetricsFormat::Text),
            (Some(prometheus), MetricsFormat::OpenMetrics),
            (Some("application/openmetrics-text"), MetricsFormat::OpenMetrics),
            (Some("application/openmetrics-text; version=2.0.0"), MetricsFormat::Text),
            (Some("application/openmetrics-text;q=0.3, text/plain;q=0.9"), MetricsFormat::Text),
            (Some("application/openmetrics-text;q=0"), MetricsFormat::Text),
            (Some("application/openmetrics-text;q=wrong"), MetricsFormat::Text),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(format(&headers), expected, "{accept:?}");
        }
    }
}
