//! Pages for people, beside the protocol for agents. A port: the console answers, the door passes requests on.
//!
//! Deliberately not here: which requests reach the pages, and the limits of bodies and streams, which the door keeps (`page_answer`).

use std::{fmt, net::IpAddr, pin::Pin};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method, StatusCode, Uri};
use servanda_engine::PortFuture;

/// The longest body of a form.
pub const PAGE_BODY_BYTES_MAX: usize = 64 << 10;

/// Answers the requests that are neither the protocol's nor the gateway's own.
pub trait Pages: Send + Sync + fmt::Debug {
    /// Answers a request. The door has checked its host and bounded its body.
    fn answer(&self, request: PageRequest) -> PortFuture<'_, PageResponse>;
}

/// A request for a page.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// The method.
    pub method: Method,
    /// The address: path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body of a POST; empty for every other method.
    pub body: Bytes,
    /// The address that the request came from. Behind a proxy it is the proxy's.
    pub peer: IpAddr,
}

/// The answer to a request for a page.
#[derive(Debug)]
pub struct PageResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: PageBody,
    /// Why a credential in the request was not accepted, if that is the reason; it contains nothing of the credential.
    pub wrong_credential: Option<String>,
}

/// The body of a page.
pub enum PageBody {
    /// All of it.
    Whole(Bytes),
    /// Server-sent events, each a whole frame with its empty line.
    Events(PageEvents),
}

/// Server-sent events as they come. The door drops the stream when its client leaves or the gateway shuts down.
pub type PageEvents = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl fmt::Debug for PageBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => formatter.debug_tuple("Whole").field(&bytes.len()).finish(),
            Self::Events(_) => formatter.write_str("Events"),
        }
    }
}
