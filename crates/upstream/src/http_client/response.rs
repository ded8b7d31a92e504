//! An answer whose head has arrived. Its body is read in chunks. When the body was read to its end, the connection goes back to the pool.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use bytes::Bytes;
use hyper::{
    StatusCode,
    body::{Body as _, Incoming},
    header::HeaderMap,
};

use super::{error::HttpError, inline::InlineConnection, pool::OriginPool};

/// An answer.
#[derive(Debug)]
pub(crate) struct UpstreamResponse {
    status: StatusCode,
    headers: HeaderMap,
    /// None when the rest was handed to the pool.
    body: Option<Incoming>,
    /// The connection that the body comes on; none with HTTP/2, and after the body has ended.
    inline: Option<(Box<InlineConnection>, Arc<OriginPool>)>,
}

impl UpstreamResponse {
    pub(super) fn inline(
        answered: hyper::Response<Incoming>,
        connection: Box<InlineConnection>,
        pool: &Arc<OriginPool>,
    ) -> Self {
        Self::new(answered, Some((connection, Arc::clone(pool))))
    }

    pub(super) fn shared(answered: hyper::Response<Incoming>) -> Self {
        Self::new(answered, None)
    }

    fn new(answered: hyper::Response<Incoming>, inline: Option<(Box<InlineConnection>, Arc<OriginPool>)>) -> Self {
        let (head, body) = answered.into_parts();
        Self { status: head.status, headers: head.headers, body: Some(body), inline }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// How long the body is, if the server says so.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.body.as_ref()?.size_hint().exact()
    }

    /// The next chunk of the body; none at its end. Cancel safe.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, HttpError>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Stops reading. The server gets a moment to end the answer, so that the connection can be used again.
    pub(crate) fn let_end(mut self) {
        if let (Some((mut connection, pool)), Some(mut body)) = (self.inline.take(), self.body.take()) {
            if connection.discard_arrived(&mut body) {
                pool.put(connection);
            } else {
                pool.put_unended(connection, body);
            }
        }
    }

    fn poll_chunk(&mut self, context: &mut std::task::Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        loop {
            let frame = match &mut self.inline {
                Some((connection, _)) => connection.poll_frame(body, context),
                None => Pin::new(&mut *body).poll_frame(context),
            };
            return match frame {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) => {
                    if let Some((connection, pool)) = self.inline.take() {
                        pool.put(connection);
                    }
                    Poll::Ready(None)
                }
                Poll::Ready(Some(Err(error))) => {
                    self.inline = None;
                    Poll::Ready(Some(Err(HttpError::Lost(error))))
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Poll::Ready(Some(Ok(data))),
                    // Trailers are ignored.
                    Err(_) => continue,
                },
            };
        }
    }
}

impl Drop for UpstreamResponse {
    /// Returns the connection to the pool if the rest of the body has already arrived. Otherwise the connection is closed, and the server
    /// notices that the client has left.
    fn drop(&mut self) {
        if let (Some((mut connection, pool)), Some(body)) = (self.inline.take(), &mut self.body)
            && connection.discard_arrived(body)
        {
            pool.put(connection);
        }
    }
}
