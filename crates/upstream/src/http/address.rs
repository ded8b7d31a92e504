//! What every HTTP request to one server has in common: where it goes, and which headers it carries by what was agreed.

use std::sync::{Arc, OnceLock};

use reqwest::{
    Method, RequestBuilder,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use servanda_mcp::{
    Era, ProtocolVersion,
    fields::{header, method},
};

use super::Endpoint;
use crate::{Counterpart, header_value::header_value, link::Outgoing, setting::Setting};

/// The server's address under one agreement.
#[derive(Debug)]
pub(super) struct Address {
    setting: Arc<Setting>,
    /// Whose connection it is; everybody's if none.
    counterpart: Option<Counterpart>,
    endpoint: Endpoint,
    session: OnceLock<HeaderValue>,
    agreed: OnceLock<ProtocolVersion>,
}

impl Address {
    pub(super) fn new(setting: &Arc<Setting>, counterpart: Option<Counterpart>, endpoint: Endpoint) -> Self {
        Self { setting: Arc::clone(setting), counterpart, endpoint, session: OnceLock::new(), agreed: OnceLock::new() }
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

    /// An HTTP request that is not an MCP request, with what the server is shown; none where that is not there. Cancel safe.
    pub(super) async fn builder(&self, verb: Method) -> Option<RequestBuilder> {
        let mut headers = self.headers(&verb, self.agreed.get().copied());
        match self.setting.shown_headers(self.counterpart.as_ref()).await {
            Ok(shown) => headers.extend(shown),
            Err(why) => {
                tracing::debug!(upstream = %self.setting.spec.id, %why, "the server cannot be shown what it asks for");
                return None;
            }
        }
        Some(self.endpoint.request(verb).headers(headers))
    }

    /// An MCP request with everything but its body.
    pub(super) fn for_request(&self, request: &Outgoing<'_>) -> RequestBuilder {
        let mut headers = self.headers(&Method::POST, request.version);
        if request.version.is_some_and(|version| version.era() == Era::Modern) {
            headers.insert(header::METHOD, HeaderValue::from_static(request.method));
            if let Some(name) = request.name.filter(|_| is_named(request.method)).and_then(header_value) {
                headers.insert(header::NAME, name);
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
        headers.extend(request.shown.clone());
        self.endpoint.request(Method::POST).headers(headers)
    }

    fn headers(&self, verb: &Method, version: Option<ProtocolVersion>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if *verb == Method::POST {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        if let Some(version) = version {
            headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        if version.is_none_or(|version| version.era() == Era::Legacy)
            && let Some(session) = self.session.get()
        {
            headers.insert(header::SESSION_ID, session.clone());
        }
        headers
    }
}

/// Whether requests of this method say in a header what they are about.
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
