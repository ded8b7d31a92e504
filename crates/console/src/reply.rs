//! Answers before they become HTTP: a page, a redirection, a file, events.

use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use servanda_doors::http::{PageBody, PageEvents, PageResponse};

use crate::security_headers;

/// How long a file is kept whose name has its digest.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// An answer.
pub(crate) struct ConsoleReply {
    status: StatusCode,
    headers: HeaderMap,
    body: PageBody,
    wrong_credential: Option<String>,
}

impl ConsoleReply {
    /// A page.
    pub(crate) fn page(status: StatusCode, template: &impl Template) -> Self {
        match template.render() {
            Ok(html) => Self::whole(status, "text/html; charset=utf-8", html.into()),
            Err(error) => {
                tracing::error!(%error, "a page could not be made");
                let text = Bytes::from_static(b"this page could not be made; the log of the gateway says why\n");
                Self::whole(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", text)
            }
        }
    }

    /// Sends the browser to another address of this console, with GET.
    pub(crate) fn redirect(to: &str) -> Self {
        let mut reply = Self::whole(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Bytes::new());
        // An address that cannot stand in a header leads to the first page.
        let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
        reply.headers.insert(header::LOCATION, to);
        reply
    }

    /// A file whose address has its digest.
    pub(crate) fn file(kind: &'static str, bytes: &'static [u8]) -> Self {
        Self::whole(StatusCode::OK, kind, Bytes::from_static(bytes)).with(header::CACHE_CONTROL, Some(FOR_EVER))
    }

    /// Server-sent events.
    pub(crate) fn events(events: PageEvents) -> Self {
        let mut reply = Self::whole(StatusCode::OK, "text/event-stream", Bytes::new());
        reply.body = PageBody::Events(events);
        reply.headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        reply
    }

    /// The same with a header.
    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: Option<HeaderValue>) -> Self {
        if let Some(value) = value {
            self.headers.insert(name, value);
        }
        self
    }

    /// The same with a further header of that name.
    #[must_use]
    pub(crate) fn with_another(mut self, name: HeaderName, value: Option<HeaderValue>) -> Self {
        if let Some(value) = value {
            self.headers.append(name, value);
        }
        self
    }

    /// The same, with why a credential was not accepted, for the log.
    #[must_use]
    pub(crate) fn with_wrong_credential(self, why: String) -> Self {
        Self { wrong_credential: Some(why), ..self }
    }

    /// The answer as the door sends it, with the headers that every answer has.
    pub(crate) fn into_response(self) -> PageResponse {
        let Self { status, mut headers, body, wrong_credential } = self;
        security_headers::add(&mut headers);
        PageResponse { status, headers, body, wrong_credential }
    }

    fn whole(status: StatusCode, kind: &'static str, body: Bytes) -> Self {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Self { status, headers, body: PageBody::Whole(body), wrong_credential: None }
    }
}
