//! Where a log is read from: the folder of a copy, or the ledger.

use std::{io, path::PathBuf};

use servanda_audit::{
    TileSource,
    tile::{CHECKPOINT_PATH, TilePath},
};
use servanda_ledger::LedgerReader;
use tokio::{runtime::Handle, task::block_in_place};

/// A copy of a log.
#[derive(Debug)]
pub(super) struct LogFolder(pub(super) PathBuf);

/// The log in a ledger.
#[derive(Debug)]
pub(super) struct LedgerLog(pub(super) LedgerReader);

/// Either of them.
#[derive(Debug)]
pub(super) enum LogPlace {
    Folder(LogFolder),
    Ledger(LedgerLog),
}

impl TileSource for LogPlace {
    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Folder(folder) => folder.read(path, bytes_max),
            Self::Ledger(ledger) => ledger.read(path, bytes_max),
        }
    }
}

impl TileSource for LogFolder {
    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        match servanda_files::read(&self.0.join(path), bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl TileSource for LedgerLog {
    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        // The ledger is asked from a thread that may wait: commands run on a runtime with several.
        let found = block_in_place(|| Handle::current().block_on(self.find(path)))?;
        match found {
            Some(bytes) if bytes.len() > bytes_max => Err(io::ErrorKind::FileTooLarge.into()),
            found => Ok(found),
        }
    }
}

impl LedgerLog {
    async fn find(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        if path == CHECKPOINT_PATH {
            let checkpoint = self.0.log_checkpoint().await.map_err(io::Error::other)?;
            return Ok(checkpoint.map(String::into_bytes));
        }
        let path: TilePath = path.parse().map_err(io::Error::other)?;
        self.0.log_file(&path).await.map_err(io::Error::other)
    }
}
