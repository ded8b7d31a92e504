//! What all HTTP requests of one connection have in common: the address, and the headers that follow from the handshake.

use std::sync::{Arc, OnceLock};

use hyper::{
    Method,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use servanda_mcp::{
    Era, ProtocolVersion,
    fields::{header, method},
    header_text,
};

use crate::{
    UpstreamRequester,
    http_client::{HttpEndpoint, HttpError, HttpRequestBody, UpstreamResponse},
    request::WireRequest,
    shared::SharedContext,
};

/// The names of the protocol's own headers, ready to be used.
const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);
const METHOD: HeaderName = HeaderName::from_static(header::METHOD);
const NAME: HeaderName = HeaderName::from_static(header::NAME);
/// W3C trace context.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// How many headers a request usually has that differ between requests.
const OWN_HEADERS_EXPECTED: usize = 4;

/// The server's address, and what was agreed in the handshake.
#[derive(Debug)]
pub(super) struct HttpAddress {
    context: Arc<SharedContext>,
    /// The requester that the connection is for; none for the shared one.
    requester: Option<UpstreamRequester>,
    endpoint: HttpEndpoint,
    session: OnceLock<HeaderValue>,
    agreed: OnceLock<ProtocolVersion>,
    /// The headers that every MCP request carries after the handshake.
    common_headers: OnceLock<HeaderMap>,
}

impl HttpAddress {
    pub(super) fn new(
        context: &Arc<SharedContext>,
        requester: Option<UpstreamRequester>,
        endpoint: HttpEndpoint,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            requester,
            endpoint,
            session: OnceLock::new(),
            agreed: OnceLock::new(),
            common_headers: OnceLock::new(),
        }
    }

    pub(super) fn agree(&self, version: ProtocolVersion) {
        let _ = self.agreed.set(version);
    }

    pub(super) fn keep_session(&self, headers: &HeaderMap) {
        if let Some(session) = headers.get(header::SESSION_ID) {
            let mut session = session.clone();
            session.set_sensitive(true);
            let _ = self.session.set(session);
        }
    }

    pub(super) fn in_session(&self) -> bool {
        self.session.get().is_some()
    }

    /// Sends an HTTP request that is not an MCP request, with the connection's credentials; none if they are missing. Not cancel safe: if
    /// the future is dropped, the request may have been sent.
    pub(super) async fn send(
        &self,
        verb: Method,
        field: Option<(HeaderName, HeaderValue)>,
        body: HttpRequestBody,
    ) -> Option<Result<UpstreamResponse, HttpError>> {
        let mut headers = self.headers(&verb, self.agreed.get().copied());
        match self.context.connection_headers(self.requester.as_ref()).await {
            Ok(shown) => headers.extend(shown),
            Err(why) => {
                tracing::debug!(upstream = %self.context.spec.id, %why, "there are no credentials for the server");
                return None;
            }
        }
        headers.extend(field);
        Some(self.endpoint.send(verb, headers, body).await)
    }

    /// Sends an MCP request and waits for the head of its answer. Not cancel safe: if the future is dropped, the request may have been
    /// sent.
    pub(super) fn send_request<'a>(
        &'a self,
        request: &WireRequest<'_>,
        body: HttpRequestBody,
    ) -> impl Future<Output = Result<UpstreamResponse, HttpError>> + use<'a> {
        self.endpoint.send(Method::POST, self.headers_of(request), body)
    }

    fn headers_of(&self, request: &WireRequest<'_>) -> HeaderMap {
        let is_settled = request.version.is_some() && request.version.as_ref() == self.agreed.get();
        let mut headers = if is_settled {
            // The session was recorded before the version was agreed on, so neither changes any more.
            let settled = self.common_headers.get_or_init(|| self.headers(&Method::POST, request.version));
            let mut headers = HeaderMap::with_capacity(settled.len() + OWN_HEADERS_EXPECTED);
            headers.extend(settled.iter().map(|(name, value)| (name.clone(), value.clone())));
            headers
        } else {
            self.headers(&Method::POST, request.version)
        };
        if request.version.is_some_and(|version| version.era() == Era::Modern) {
            headers.insert(METHOD, HeaderValue::from_static(request.method));
            if let Some(name) = request.name.filter(|_| is_named(request.method)).and_then(header_value) {
                headers.insert(NAME, name);
            }
            for (name, value) in request.param_headers {
                let name = HeaderName::from_bytes(format!("{}{name}", header::PARAM_PREFIX).as_bytes());
                if let (Ok(name), Some(value)) = (name, header_value(value)) {
                    headers.insert(name, value);
                }
            }
        }
        if let Some((name, value)) = request.key_header
            && let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            headers.insert(name, value);
        }
        if let Some(trace_parent) = request.trace_parent.and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(TRACE_PARENT, trace_parent);
        }
        for (name, value) in &request.credential_headers {
            headers.insert(name, value.clone());
        }
        headers
    }

    fn headers(&self, verb: &Method, version: Option<ProtocolVersion>) -> HeaderMap {
        let mut headers = self.endpoint.headers();
        if *verb == Method::POST {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        if let Some(version) = version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        if version.is_none_or(|version| version.era() == Era::Legacy)
            && let Some(session) = self.session.get()
        {
            headers.insert(SESSION_ID, session.clone());
        }
        headers
    }
}

/// Whether requests of this method name their subject in a header.
fn is_named(method: &str) -> bool {
    matches!(
        method,
        method::TOOLS_CALL
            | method::PROMPTS_GET
            | method::RESOURCES_READ
            | method::TASKS_GET
            | method::TASKS_UPDATE
            | method::TASKS_CANCEL
    )
}

/// Encodes a text as a header value.
fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&header_text::encode(text)).ok()
}
