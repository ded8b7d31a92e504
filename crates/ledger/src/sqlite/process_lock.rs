//! Which processes have the ledger open for writing. Each holds a shared lock on a file beside it for as long
//! as it lives; the system releases the lock when the process is killed. A process that examines, restores or
//! adopts a ledger holds the lock alone.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::file_permissions::{beside, require_plain};
use crate::LedgerError;

/// How often to try while another process is opening the ledger.
const WAIT_ATTEMPTS_MAX: u32 = 1_500;
const WAIT_PAUSE: Duration = Duration::from_millis(20);

/// Held while this process has the ledger open.
#[derive(Debug)]
pub(super) struct LedgerProcessLock {
    file: File,
    path: PathBuf,
    /// Whether no other process has it open.
    alone: bool,
}

impl LedgerProcessLock {
    /// Takes the lock alone if no other process has the ledger open; else shares it, once the others have
    /// opened the ledger.
    pub(super) fn enter(ledger: &Path) -> Result<Self, LedgerError> {
        let mut live = Self::open(ledger)?;
        if live.try_alone()? {
            return Ok(live);
        }
        for _ in 0..WAIT_ATTEMPTS_MAX {
            match live.file.try_lock_shared() {
                Ok(()) => return Ok(live),
                Err(TryLockError::WouldBlock) => thread::sleep(WAIT_PAUSE),
                Err(TryLockError::Error(source)) => return Err(LedgerError::Folder { path: live.path, source }),
            }
        }
        Err(LedgerError::InUse { path: ledger.to_owned() })
    }

    /// Takes the lock alone, or fails.
    pub(super) fn alone(ledger: &Path) -> Result<Self, LedgerError> {
        let mut live = Self::open(ledger)?;
        if live.try_alone()? { Ok(live) } else { Err(LedgerError::InUse { path: ledger.to_owned() }) }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Shares the lock with other processes.
    pub(super) fn share(&mut self) -> Result<(), LedgerError> {
        self.alone = false;
        self.file.lock_shared().map_err(|source| LedgerError::Folder { path: self.path.clone(), source })
    }

    /// Whether this is the last process that has the ledger open.
    pub(super) fn is_last(&mut self) -> bool {
        self.try_alone().unwrap_or_default()
    }

    fn open(ledger: &Path) -> Result<Self, LedgerError> {
        let path = beside(ledger, "-lock");
        require_plain(ledger)?;
        let opened = servanda_files::open_own_or_new(&path);
        let file = opened.map_err(|source| LedgerError::Folder { path: path.clone(), source })?;
        Ok(Self { file, path, alone: false })
    }

    fn try_alone(&mut self) -> Result<bool, LedgerError> {
        match self.file.try_lock() {
            Ok(()) => self.alone = true,
            Err(TryLockError::WouldBlock) => self.alone = false,
            Err(TryLockError::Error(source)) => return Err(LedgerError::Folder { path: self.path.clone(), source }),
        }
        Ok(self.alone)
    }
}

/// Whether a process has the ledger open for writing.
pub(super) fn is_open_for_writing(ledger: &Path) -> bool {
    let Ok(file) = servanda_files::open(&beside(ledger, "-lock")) else { return false };
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}
