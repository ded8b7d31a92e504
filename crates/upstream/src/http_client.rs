//! An HTTP client for one origin. It owns the connections to that origin and knows nothing about what the requests mean. It follows no
//! redirects, uses no proxy, keeps no cookies, and sends nothing twice.
//!
//! An HTTP/1.1 connection has no task of its own: the task that makes a request also drives the connection, so a request is one
//! write and a read or two on one thread. HTTP/2 is used where TLS agreed on it, and only such a connection runs in a task.

mod body;
mod dial;
mod endpoint;
mod error;
mod inline;
mod origin;
mod poll_waker;
mod pool;
mod response;
mod tls;
mod transport;

use std::sync::Arc;

use hyper::{
    Method, Request,
    client::conn::TrySendError,
    header::{HOST, HeaderMap},
};

pub use self::dial::InProcessListener;
pub(crate) use self::{
    body::HttpRequestBody,
    endpoint::HttpEndpoint,
    error::HttpError,
    origin::{Origin, RequestTarget, basic_authorization},
    response::UpstreamResponse,
};
use self::{
    inline::InlineConnection,
    pool::{Http2Sender, OriginConnection, OriginPool},
    tls::Tls,
};

/// Limits for the connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientLimits {
    /// How long connecting may take, TLS included.
    pub(crate) connect_ms_max: u64,
    /// How long an unused connection is kept.
    pub(crate) idle_ms_max: u64,
    /// How long a connection is kept when the gateway has read the last answer but the server has not ended it.
    pub(crate) unended_ms_max: u64,
    /// How many unused connections are kept.
    pub(crate) idle_connections: usize,
}

/// A client for one origin. Clones share the connections.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient(Arc<Inner>);

/// A request that got no answer: why, and the request itself if not a byte of it was sent.
type SendFailure = (HttpError, Option<Box<Request<HttpRequestBody>>>);

#[derive(Debug)]
struct Inner {
    origin: Origin,
    tls: Option<Tls>,
    /// Where the server accepts connections, if it runs in this process.
    in_process: Option<InProcessListener>,
    limits: ClientLimits,
    pool: Arc<OriginPool>,
}

impl HttpClient {
    /// Does not connect yet. Fails if TLS is needed and the system has no certificates to verify a server with.
    pub(crate) fn new(origin: Origin, limits: ClientLimits) -> Result<Self, HttpError> {
        Self::reaching(origin, limits, None)
    }

    /// The same for a server that may run in this process. If it does, it is never reached over the network, whatever its origin is.
    pub(crate) fn reaching(
        origin: Origin,
        limits: ClientLimits,
        in_process: Option<InProcessListener>,
    ) -> Result<Self, HttpError> {
        let tls = if origin.is_tls() { Some(Tls::new(origin.host())?) } else { None };
        let pool = Arc::new(OriginPool::new(limits));
        Ok(Self(Arc::new(Inner { origin, tls, in_process, limits, pool })))
    }

    /// Sends a request and waits for the head of its answer. Not cancel safe: if the future is dropped, the request may have been sent, and
    /// its connection is closed.
    ///
    /// If a kept connection turns out to be closed, the request is sent on a new one, but only if the old one gives the request back whole:
    /// then not a byte of it was sent and its body was not taken.
    // Not `async fn`, here and below: an `async fn` would store the arguments once at each level.
    pub(crate) fn send(
        &self,
        method: Method,
        target: &RequestTarget,
        headers: HeaderMap,
        body: HttpRequestBody,
    ) -> impl Future<Output = Result<UpstreamResponse, HttpError>> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        let kept = self.0.pool.take();
        async move {
            let request = match kept {
                None => request,
                Some(kept) => match self.send_on(kept, request, target).await {
                    Ok(response) => return Ok(response),
                    Err((error, None)) => return Err(error),
                    Err((_, Some(whole))) => *whole,
                },
            };
            // Boxed because it is rare, and because it would make the future of every request larger.
            Box::pin(self.send_anew(request, target)).await
        }
    }

    async fn send_anew(
        &self,
        request: Request<HttpRequestBody>,
        target: &RequestTarget,
    ) -> Result<UpstreamResponse, HttpError> {
        let dialed = match &self.0.in_process {
            Some(listener) => dial::dial_in_process(listener).await?,
            None => dial::dial(&self.0.origin, self.0.tls.as_ref(), self.0.limits.connect_ms_max).await?,
        };
        if let OriginConnection::Shared(sender) = &dialed {
            self.0.pool.share(sender);
        }
        self.send_on(dialed, request, target).await.map_err(|(error, _)| error)
    }

    async fn send_on(
        &self,
        carrier: OriginConnection,
        request: Request<HttpRequestBody>,
        target: &RequestTarget,
    ) -> Result<UpstreamResponse, SendFailure> {
        match carrier {
            OriginConnection::Inline(connection) => self.send_inline(connection, request, target).await,
            OriginConnection::Shared(sender) => Box::pin(send_shared(sender, request, target)).await,
        }
    }

    fn send_inline(
        &self,
        mut connection: Box<InlineConnection>,
        mut request: Request<HttpRequestBody>,
        target: &RequestTarget,
    ) -> impl Future<Output = Result<UpstreamResponse, SendFailure>> {
        *request.uri_mut() = target.path.clone();
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.0.origin.host_header().clone());
        }
        let sent = connection.begin(request);
        async move {
            match connection.finish(sent).await {
                Ok(answered) => Ok(UpstreamResponse::inline(answered, connection, &self.0.pool)),
                Err(refused) => Err(not_answered(refused)),
            }
        }
    }
}

async fn send_shared(
    mut sender: Http2Sender,
    mut request: Request<HttpRequestBody>,
    target: &RequestTarget,
) -> Result<UpstreamResponse, SendFailure> {
    *request.uri_mut() = target.absolute.clone();
    // HTTP/2 carries the host in the URI.
    request.headers_mut().remove(HOST);
    sender.try_send_request(request).await.map(UpstreamResponse::shared).map_err(not_answered)
}

fn not_answered(mut refused: TrySendError<Request<HttpRequestBody>>) -> SendFailure {
    let whole = refused.take_message().filter(|request| request.body().is_whole()).map(Box::new);
    (HttpError::Lost(refused.into_error()), whole)
}

#[cfg(test)]
mod tests;
