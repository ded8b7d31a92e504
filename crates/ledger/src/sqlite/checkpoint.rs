//! Moves the write-ahead log into the file, on a thread and a connection of its own, shortly after something
//! was written. So the log stays small, and a copy of the file alone lacks little. It never makes a writer
//! wait.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use rusqlite::Connection;

use super::configure;
use crate::{LedgerError, identity::PositionFile};

/// How often the log is checkpointed, if something was written since.
const INTERVAL: Duration = Duration::from_secs(2);

/// The handle of the thread.
#[derive(Debug)]
pub(super) struct Checkpointer {
    written: Arc<AtomicBool>,
    stop: SyncSender<()>,
    thread: thread::JoinHandle<()>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path, position_file: Option<Arc<PositionFile>>) -> Result<Self, LedgerError> {
        let connection = Connection::open(path)?;
        configure(&connection)?;
        let (stop, stopped) = sync_channel(1);
        let written = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&written);
        let thread = thread::Builder::new()
            .name("ledger-checkpoint".to_owned())
            .spawn(move || run(&connection, &seen, &stopped, position_file.as_deref()))
            .map_err(LedgerError::Thread)?;
        Ok(Self { written, stop, thread })
    }

    /// Notes that something was written.
    pub(super) fn written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Ends the thread and closes its connection.
    pub(super) fn end(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the ledger's checkpoints did not end cleanly");
        }
    }
}

fn run(connection: &Connection, written: &AtomicBool, stopped: &Receiver<()>, position_file: Option<&PositionFile>) {
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if written.swap(false, Ordering::Relaxed) {
            checkpoint(connection, position_file);
        }
    }
}

fn checkpoint(connection: &Connection, position_file: Option<&PositionFile>) {
    if let Err(error) = connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())) {
        tracing::debug!(%error, "the ledger was not checkpointed");
    }
    if let Some(Err(error)) = position_file.map(PositionFile::sync) {
        tracing::warn!(%error, "the ledger's position file was not synced");
    }
}
