//! Bytes that either leave or are withdrawn, never both: the proof behind "nothing was sent".
//!
//! The transport takes the bytes out at the moment it is about to write the first of them; a caller that gives up takes them out to
//! withdraw them. The first of the two decides.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::DispatchLease;

/// A message on its way to the transport, shared between the caller and the transport.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    bytes: Arc<Mutex<Option<Bytes>>>,
    lease: Option<DispatchLease>,
}

impl Parcel {
    pub(crate) fn new(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: Arc::new(Mutex::new(Some(bytes.into()))), lease: None }
    }

    /// Adds a lease: after it has ended, the bytes are not sent.
    pub(crate) fn with_lease(self, lease: Option<DispatchLease>) -> Self {
        Self { lease, ..self }
    }

    /// Takes the bytes to write them; none if they were withdrawn or their lease has ended.
    pub(crate) fn take(&self) -> Option<Bytes> {
        if self.is_lease_over() {
            return None;
        }
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether its lease has ended, so that its bytes are no longer sent.
    pub(crate) fn is_lease_over(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.holds())
    }

    /// Puts the bytes back: they were taken, but provably not one byte was written.
    pub(crate) fn put_back(&self, bytes: Bytes) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }

    /// Withdraws the bytes. True means that they are never sent; false that they were, or may have been.
    pub(crate) fn withdraw(&self) -> bool {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn leaves_or_is_withdrawn() {
        let sent = Parcel::new("a");
        assert!(sent.take().is_some());
        assert!(!sent.withdraw());

        let withdrawn = Parcel::new("a");
        assert!(withdrawn.withdraw());
        assert!(withdrawn.take().is_none());

        let late = Parcel::new("a").with_lease(Some(DispatchLease::new(Instant::now(), Arc::default())));
        assert!(late.take().is_none(), "its lease has ended");
        assert!(late.withdraw(), "and not a byte was sent");

        let unwritten = Parcel::new("a");
        let bytes = unwritten.take().unwrap();
        unwritten.put_back(bytes);
        assert!(unwritten.withdraw());
    }
}
