//! The body of a request: bytes that are taken out of their parcel at the moment the transport is about to write them.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::request::parcel::Parcel;

/// Empty, or one parcel.
#[derive(Debug, Default)]
pub(crate) struct HttpRequestBody {
    parcel: Option<Parcel>,
    length: u64,
    after_taken: Option<fn()>,
}

/// The body was withdrawn before it was taken.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn")]
pub(crate) struct RequestWithdrawn;

impl HttpRequestBody {
    /// A request without a body.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// A body from a parcel. Its length is known beforehand, so it is not sent in chunks, which some servers cannot read.
    pub(crate) fn parcel(parcel: Parcel, length: usize) -> Self {
        Self { parcel: Some(parcel), length: length as u64, after_taken: None }
    }

    /// Bytes that cannot be withdrawn.
    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let length = bytes.len();
        Self::parcel(Parcel::new(bytes), length)
    }

    /// Adds a function that is called when the bytes were handed over.
    pub(crate) fn on_taken(self, after_taken: fn()) -> Self {
        Self { after_taken: Some(after_taken), ..self }
    }

    /// Whether not a byte of it was taken.
    pub(super) fn is_whole(&self) -> bool {
        self.length == 0 || self.parcel.is_some()
    }
}

impl Body for HttpRequestBody {
    type Data = Bytes;
    type Error = RequestWithdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestWithdrawn>>> {
        let Some(parcel) = self.parcel.take() else { return Poll::Ready(None) };
        let taken = parcel.take().ok_or(RequestWithdrawn).map(Frame::data);
        if let Some(after_taken) = self.after_taken {
            after_taken();
        }
        Poll::Ready(Some(taken))
    }

    fn is_end_stream(&self) -> bool {
        self.parcel.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(if self.parcel.is_some() { self.length } else { 0 })
    }
}
