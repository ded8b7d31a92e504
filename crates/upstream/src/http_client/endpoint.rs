//! The address of an HTTP server, with everything in a request to it that never changes, prepared once.

use std::{collections::BTreeMap, sync::Arc};

use hyper::{
    Method,
    header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use url::Url;

use super::{
    ClientLimits, HttpClient, HttpError, HttpRequestBody, InProcessListener, Origin, RequestTarget, UpstreamResponse,
    basic_authorization,
};
use crate::UpstreamLimits;

/// Idle connections are given up before Node.js servers close them (after 5 s): a request that is sent while the server closes the
/// connection could not be told from one that was executed.
const POOL_IDLE_MS_MAX: u64 = 4_000;

/// How long a server may take to end a stream of events after the answer. Most end it at once, but not in the same packet.
const UNENDED_MS_MAX: u64 = 200;

/// The server's address and the pool of connections to it. Shared by all sessions with the server.
#[derive(Debug, Clone)]
pub(crate) struct HttpEndpoint {
    client: HttpClient,
    url: Arc<Url>,
    target: RequestTarget,
    /// The headers of every request.
    headers: Arc<HeaderMap>,
}

impl HttpEndpoint {
    /// Checks the configuration. No connection is made.
    pub(crate) fn new(
        url: &str,
        headers: &BTreeMap<String, String>,
        limits: &UpstreamLimits,
        in_process: Option<InProcessListener>,
    ) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("its URL is not valid: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("its URL has the scheme `{}`; `http` and `https` are known", url.scheme()));
        }
        let (origin, target) = (Origin::from_url(&url)?, RequestTarget::from_url(&url)?);
        let mut map = HeaderMap::with_capacity(headers.len() + 3);
        map.insert(HOST, origin.host_header().clone());
        map.insert(USER_AGENT, HeaderValue::from_static(concat!("servanda/", env!("CARGO_PKG_VERSION"))));
        if let Some(user) = basic_authorization(&url) {
            map.insert(AUTHORIZATION, user);
        }
        for (name, value) in headers {
            let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
            let (key, mut value) = header.ok_or_else(|| format!("its header `{name}` is not valid"))?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        let limits = ClientLimits {
            connect_ms_max: limits.connect_ms_max,
            idle_ms_max: POOL_IDLE_MS_MAX,
            unended_ms_max: UNENDED_MS_MAX,
            idle_connections: limits.in_flight_max,
        };
        let client = HttpClient::reaching(origin, limits, in_process)
            .map_err(|error| format!("the HTTP client could not be made: {error}"))?;
        Ok(Self { client, url: Arc::new(url), target, headers: Arc::new(map) })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The headers of every request, to be extended.
    pub(crate) fn headers(&self) -> HeaderMap {
        HeaderMap::clone(&self.headers)
    }

    /// Sends a request with these headers and waits for the head of its answer. Not cancel safe.
    pub(crate) fn send(
        &self,
        verb: Method,
        headers: HeaderMap,
        body: HttpRequestBody,
    ) -> impl Future<Output = Result<UpstreamResponse, HttpError>> {
        self.client.send(verb, &self.target, headers, body)
    }

    /// The same to another address of the same origin.
    pub(crate) fn send_to(
        &self,
        target: &RequestTarget,
        verb: Method,
        headers: HeaderMap,
        body: HttpRequestBody,
    ) -> impl Future<Output = Result<UpstreamResponse, HttpError>> {
        self.client.send(verb, target, headers, body)
    }
}
