//! The frames on their way to one connection, limited in number and in bytes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

/// The end that is filled.
#[derive(Debug, Clone)]
pub(super) struct Filling {
    frames: mpsc::Sender<Bytes>,
    load: Arc<Load>,
    bytes_max: usize,
}

/// The end that is read.
#[derive(Debug)]
pub(in crate::http) struct Reading {
    frames: mpsc::Receiver<Bytes>,
    load: Arc<Load>,
}

/// The connection is closed, or too far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotTaken;

/// The bytes that were not read yet.
#[derive(Debug, Default)]
struct Load {
    bytes: AtomicUsize,
    taken: Notify,
}

/// A queue for so many frames. Once it has more than these bytes it takes no further frame, so that even the longest has its
/// turn.
pub(super) fn queue(frames_max: usize, bytes_max: usize) -> (Filling, Reading) {
    let (sender, receiver) = mpsc::channel(frames_max);
    let load = Arc::new(Load::default());
    (Filling { frames: sender, load: Arc::clone(&load), bytes_max }, Reading { frames: receiver, load })
}

impl Filling {
    pub(super) fn push(&self, frame: Bytes) -> Result<(), NotTaken> {
        if self.is_full() { Err(NotTaken) } else { self.push_owed(frame) }
    }

    /// The same for frames that are kept elsewhere within limits of their own.
    pub(super) fn push_owed(&self, frame: Bytes) -> Result<(), NotTaken> {
        let bytes = frame.len();
        // Counted first: it may be read at once.
        self.load.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.frames.try_send(frame).map_err(|_| {
            self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            NotTaken
        })
    }

    /// Waits until another frame is taken, or nobody reads any more. Cancel safe.
    pub(super) async fn room(&self) {
        loop {
            let taken = self.load.taken.notified();
            if !self.is_full() {
                break;
            }
            tokio::select! {
                () = taken => {}
                () = self.frames.closed() => return,
            }
        }
        let _ = self.frames.reserve().await;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.frames.is_closed()
    }

    fn is_full(&self) -> bool {
        self.load.bytes.load(Ordering::Relaxed) > self.bytes_max
    }
}

impl Reading {
    /// The next frame, nothing at the end. Cancel safe.
    pub(in crate::http) async fn recv(&mut self) -> Option<Bytes> {
        let frame = self.frames.recv().await?;
        self.count_out(&frame);
        Some(frame)
    }

    #[cfg(test)]
    pub(super) fn try_recv(&mut self) -> Result<Bytes, mpsc::error::TryRecvError> {
        self.frames.try_recv().inspect(|frame| self.count_out(frame))
    }

    fn count_out(&self, frame: &Bytes) {
        self.load.bytes.fetch_sub(frame.len(), Ordering::Relaxed);
        // Several may wait: those who carry an answer, and the herald.
        self.load.taken.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn frame(bytes: usize) -> Bytes {
        vec![b'x'; bytes].into()
    }

    #[test]
    fn frames_and_bytes_have_limits() {
        let (filling, mut reading) = queue(3, 10);
        assert_eq!(filling.push(frame(50)), Ok(()), "the first is taken however long it is");
        assert_eq!(filling.push(frame(1)), Err(NotTaken));
        assert_eq!(filling.room().now_or_never(), None);
        assert_eq!(filling.push_owed(frame(1)), Ok(()));
        assert_eq!(reading.try_recv().unwrap().len(), 50);
        assert_eq!(filling.room().now_or_never(), Some(()));
        assert_eq!((filling.push(frame(1)), filling.push(frame(1))), (Ok(()), Ok(())));
        assert_eq!(filling.push(frame(1)), Err(NotTaken), "three frames");
        assert_eq!(filling.load.bytes.load(Ordering::Relaxed), 3, "what was not taken does not count");
    }

    #[tokio::test]
    async fn whoever_waits_for_room_hears_of_it() {
        let (filling, mut reading) = queue(3, 10);
        filling.push(frame(11)).unwrap();
        let ((), read) = tokio::join!(filling.room(), reading.recv());
        assert_eq!(read.unwrap().len(), 11);
        filling.push(frame(11)).unwrap();
        tokio::join!(filling.room(), async { drop(reading) });
        assert!(filling.is_closed());
    }
}
