//! Whether a ledger can really be written to. A small row may still fit into the write-ahead log on a full
//! disk, so a file is written beside it too.

use std::{fs, path::Path, sync::mpsc, thread, time::Duration};

use rusqlite::{Connection, ErrorCode, params};

use super::super::{file_permissions::beside, open_read_only};
use crate::{LedgerError, LedgerGuard, codec::signed, report::Soundness};

/// Bytes that have to fit beside the ledger.
const PROBE_FILE_BYTES: usize = 1 << 20;
/// Bytes that are written into the ledger.
const PROBE_ROW_BYTES: u32 = 64 << 10;
/// How long to look for damage.
const CHECK_MAX: Duration = Duration::from_secs(10);

/// Writes to the ledger and looks for damage.
pub(crate) fn probe(path: &Path, guard: &LedgerGuard) -> Result<Soundness, LedgerError> {
    probe_disk(path)?;
    super::write(path, guard, |transaction, now_ms| {
        let sql = "insert into probes (one, written_ms, padding) values (1, ?1, randomblob(?2)) \
                   on conflict (one) do update set written_ms = excluded.written_ms, padding = excluded.padding";
        Ok(transaction.execute(sql, params![signed(now_ms), PROBE_ROW_BYTES])?)
    })?;
    super::write(path, guard, |transaction, _| Ok(transaction.execute("update probes set padding = x''", [])?))?;
    look_for_damage(&open_read_only(path)?)
}

/// Whether a file could be made in the folder, or in the parent if the folder does not exist yet.
pub(crate) fn probe_place(path: &Path) -> Result<(), LedgerError> {
    let there = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.exists());
    let folder = there.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    probe_disk(&folder.join("servanda-probe"))
}

fn probe_disk(path: &Path) -> Result<(), LedgerError> {
    // The name cannot be guessed, and the file must not exist yet, so that no link is followed and no other file is overwritten.
    let probe = beside(path, &format!("-probe-{}", servanda_files::unguessable()));
    let written = servanda_files::write_new(&probe, &vec![0x5e; PROBE_FILE_BYTES], 0o600);
    let _ = fs::remove_file(&probe);
    written.map_err(|source| LedgerError::NotWritable { path: path.to_owned(), source })
}

fn look_for_damage(connection: &Connection) -> Result<Soundness, LedgerError> {
    let interrupt = connection.get_interrupt_handle();
    let (done, over) = mpsc::sync_channel::<()>(1);
    let watch = thread::spawn(move || {
        if over.recv_timeout(CHECK_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
            interrupt.interrupt();
        }
    });
    let found = connection.query_row("pragma quick_check(1)", [], |row| row.get::<_, String>(0));
    drop(done);
    let _ = watch.join();
    match found {
        Ok(found) if found == "ok" => Ok(Soundness::Sound),
        Ok(found) => Ok(Soundness::Broken(found)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(Soundness::TooLarge),
        Err(error) => Err(error.into()),
    }
}
