//! The frames on their way to one connection, limited in number and in bytes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

/// The sending end.
#[derive(Debug, Clone)]
pub(super) struct FrameSender {
    frames: mpsc::Sender<Bytes>,
    load: Arc<FrameQueueLoad>,
    bytes_max: usize,
}

/// The receiving end.
#[derive(Debug)]
pub(in crate::http) struct FrameReceiver {
    frames: mpsc::Receiver<Bytes>,
    load: Arc<FrameQueueLoad>,
}

/// The connection is closed, or too far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameRejected;

/// The bytes that were not received yet.
#[derive(Debug, Default)]
struct FrameQueueLoad {
    bytes: AtomicUsize,
    taken: Notify,
}

/// A queue for `frames_max` frames. Once it holds more than `bytes_max` bytes it accepts no further frame; so even a
/// frame longer than that passes, on its own.
pub(super) fn queue(frames_max: usize, bytes_max: usize) -> (FrameSender, FrameReceiver) {
    let (sender, receiver) = mpsc::channel(frames_max);
    let load = Arc::new(FrameQueueLoad::default());
    (FrameSender { frames: sender, load: Arc::clone(&load), bytes_max }, FrameReceiver { frames: receiver, load })
}

impl FrameSender {
    pub(super) fn push(&self, frame: Bytes) -> Result<(), FrameRejected> {
        if self.is_full() { Err(FrameRejected) } else { self.push_over_limit(frame) }
    }

    /// The same without the limit of bytes, for frames that are kept elsewhere within limits of their own.
    pub(super) fn push_over_limit(&self, frame: Bytes) -> Result<(), FrameRejected> {
        let bytes = frame.len();
        // Counted first: the frame may be received at once.
        self.load.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.frames.try_send(frame).map_err(|_| {
            self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            FrameRejected
        })
    }

    /// Waits until the queue accepts another frame, or the receiver is gone. Cancel safe.
    pub(super) async fn wait_for_room(&self) {
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

impl FrameReceiver {
    /// The next frame, or `None` at the end. Cancel safe.
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
        // Several tasks may wait: those that carry answers, and the session's own task.
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
        assert_eq!(filling.push(frame(1)), Err(FrameRejected));
        assert_eq!(filling.wait_for_room().now_or_never(), None);
        assert_eq!(filling.push_over_limit(frame(1)), Ok(()));
        assert_eq!(reading.try_recv().unwrap().len(), 50);
        assert_eq!(filling.wait_for_room().now_or_never(), Some(()));
        assert_eq!((filling.push(frame(1)), filling.push(frame(1))), (Ok(()), Ok(())));
        assert_eq!(filling.push(frame(1)), Err(FrameRejected), "three frames");
        assert_eq!(filling.load.bytes.load(Ordering::Relaxed), 3, "what was not taken does not count");
    }

    #[tokio::test]
    async fn a_sender_that_waits_for_room_is_woken() {
        let (filling, mut reading) = queue(3, 10);
        filling.push(frame(11)).unwrap();
        let ((), read) = tokio::join!(filling.wait_for_room(), reading.recv());
        assert_eq!(read.unwrap().len(), 11);
        filling.push(frame(11)).unwrap();
        tokio::join!(filling.wait_for_room(), async { drop(reading) });
        assert!(filling.is_closed());
    }
}
