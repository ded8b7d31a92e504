//! Whether the verifiable log is written. The writers of a store share the switch; it is set when the ledger is opened for a gateway, and by
//! its configuration afterwards.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::leaves::LeafWriter;

/// Whether the log is written, and what writes its leaves.
#[derive(Debug, Clone)]
pub(crate) struct LogSwitch {
    is_on: Arc<AtomicBool>,
    /// Whether leaves may have been written that are not in the tree.
    has_news: Arc<AtomicBool>,
    writer: LeafWriter,
}

impl LogSwitch {
    /// Off at first.
    pub(crate) fn new(writer: LeafWriter) -> Self {
        Self { is_on: Arc::default(), has_news: Arc::new(AtomicBool::new(true)), writer }
    }

    pub(crate) fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Notes that leaves were written.
    pub(crate) fn note_news(&self) {
        self.has_news.store(true, Ordering::Release);
    }

    /// Whether leaves were written since the last time that this was asked.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::AcqRel)
    }

    /// What writes leaves; none if the log is switched off.
    pub(crate) fn writer(&self) -> Option<&LeafWriter> {
        self.is_on.load(Ordering::Relaxed).then_some(&self.writer)
    }
}
