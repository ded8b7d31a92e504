//! The embedded store: one file, one writer thread, group commit.

mod budgets;
mod desk;
mod effects;
mod migrate;
mod prune;
mod put;
mod read;
mod recent;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use rusqlite::{Connection, OpenFlags};
use servanda_contract::{CallRecord, Timestamp};
use servanda_gates::{
    Journal, JournalError, Note, NoteKind, Notebook, PortFuture,
    budget::{Booked, Budgets, Entry, Hold, Standing, StandingQuery, Swept},
    effect::{Applied, Change, Effect, EffectQuery, Effects, OwnerId, Target},
};

use crate::{
    LedgerError, LedgerLimits, Pruned, Reader, Store,
    codec::unsigned,
    queue::{Recorded, Write},
    retention::Round,
    room::{Disk, Measured, Room},
    time::StoreTime,
};
pub(crate) use desk::Desk;
pub(crate) use read::FileReader;
use writer::Writer;

/// Memory for pages of the file: keys are in no order, and every one of them needs its page.
const CACHE_KIB: i64 = 32 << 10;
/// How much of the log gathers before it is worked into the file: pages that change often are then written once.
const CHECKPOINT_PAGES: i64 = 8_000;

/// The embedded ledger.
#[derive(Debug)]
pub(crate) struct SqliteLedger {
    path: PathBuf,
    writer: Writer,
    desk: Desk,
    time: StoreTime,
}

impl SqliteLedger {
    /// Opens the ledger for writing, making it or bringing it up to date first.
    pub(crate) fn open(path: &Path, room: Arc<Room>) -> Result<Self, LedgerError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_folder(folder).map_err(|source| LedgerError::Folder { path: folder.to_owned(), source })?;
        }
        private_file(path);
        let mut connection =
            Connection::open(path).map_err(|source| LedgerError::Open { path: path.to_owned(), source })?;
        configure(&connection).map_err(|source| LedgerError::Open { path: path.to_owned(), source })?;
        migrate::to_newest(&mut connection)?;
        let (desk, time) = (Desk::open(path)?, StoreTime::default());
        let writer = Writer::start(connection, path, time.clone(), room)?;
        Ok(Self { path: path.to_owned(), writer, desk, time })
    }
}

impl Store for SqliteLedger {
    fn close(&self) -> PortFuture<'_, ()> {
        Box::pin(self.writer.close())
    }

    fn prune(&self, round: Round) -> PortFuture<'_, Result<Pruned, JournalError>> {
        Box::pin(self.writer.queue().prune(round))
    }

    fn measure(&self, _: LedgerLimits) -> PortFuture<'_, Result<Measured, JournalError>> {
        let path = self.path.clone();
        Box::pin(self.desk.ask(move |connection| measure(connection, &path)))
    }

    fn lost_count(&self) -> u64 {
        self.writer.lost_count()
    }

    fn may_lose_commits(&self) -> Option<String> {
        None
    }

    fn reader(&self) -> PortFuture<'_, Result<Reader, LedgerError>> {
        Box::pin(std::future::ready(Reader::open(&self.path)))
    }

    #[cfg(test)]
    fn time(&self) -> &StoreTime {
        &self.time
    }
}

impl Journal for SqliteLedger {
    fn finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let recorded = Recorded::new(record, quarantine)?;
            self.writer.queue().put(Write::Call(recorded), durable).await
        })
    }

    fn recall<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        let call_id = call_id.to_owned();
        Box::pin(self.desk.ask(move |connection| read::call(connection, &call_id)))
    }
}

impl Notebook for SqliteLedger {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(Write::Note(note), true))
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async move {
            let (kind, key) = (note.kind, note.key.clone());
            self.writer.queue().put(Write::FirstNote(note), true).await?;
            let kept = self.desk.ask(move |connection| read::note(connection, kind, &key)).await?;
            kept.ok_or_else(|| JournalError::new(format!("a {} note that was just written is gone", kind.as_str())))
        })
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            let found = self.desk.ask(move |connection| read::note(connection, kind, &key)).await?;
            Ok(found.filter(|note| !note.is_expired(now)))
        })
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        let after = after.to_owned();
        Box::pin(self.desk.ask(move |connection| read::notes(connection, kind, &after, limit, now)))
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(Write::Erasure { kind, key: key.to_owned() }, true))
    }
}

impl Effects for SqliteLedger {
    fn apply(&self, change: Change) -> PortFuture<'_, Result<Applied, JournalError>> {
        Box::pin(self.writer.queue().apply(change))
    }

    fn find(&self, target: Target) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        Box::pin(self.desk.ask(move |connection| effects::find(connection, &target)))
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        Box::pin(self.desk.ask(move |connection| effects::list(connection, &query)))
    }

    fn orphans(&self, each_max: u32) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        let time = self.time.clone();
        Box::pin(self.desk.ask(move |connection| effects::orphans(connection, each_max, now_ms(connection, &time)?)))
    }

    fn beat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(Write::Beat(owner), true))
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        Box::pin(self.writer.queue().expire(limit))
    }
}

impl Budgets for SqliteLedger {
    fn book(&self, entry: Entry) -> PortFuture<'_, Result<Booked, JournalError>> {
        Box::pin(self.writer.queue().book(entry))
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<Swept, JournalError>> {
        Box::pin(self.writer.queue().sweep(limit))
    }

    fn open_reservations(&self, older_than_ms: u64, limit: u32) -> PortFuture<'_, Result<Vec<Hold>, JournalError>> {
        let time = self.time.clone();
        Box::pin(self.desk.ask(move |connection| {
            let until_ms = now_ms(connection, &time)?.saturating_sub(older_than_ms);
            budgets::open_reservations(connection, until_ms, limit)
        }))
    }

    fn standings(&self, query: StandingQuery) -> PortFuture<'_, Result<Vec<Standing>, JournalError>> {
        let time = self.time.clone();
        Box::pin(self.desk.ask(move |connection| budgets::standings(connection, &query, now_ms(connection, &time)?)))
    }
}

/// Makes a folder that only its owner may look into, and those above it; what is there stays as it is.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Makes an empty file that only its owner may read: it will say who called what. SQLite makes its other files alike. One
/// that is there stays as it is, and one that cannot be made is complained about by whoever opens it.
fn private_file(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.write(true).create_new(true).open(path);
}

/// WAL so that readers never wait, `FULL` because `NORMAL` may forget acknowledged effects when the power goes, a busy
/// wait because the command line may write to the same file as a running gateway.
pub(crate) fn configure(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))
}

fn open_read_only(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        Ok(connection)
    };
    open().map_err(|source| LedgerError::Open { path: path.to_owned(), source })
}

/// How much of the file is in use, and what can still be written. Pages that are free again are written before the file grows.
fn measure(connection: &Connection, path: &Path) -> Result<Measured, LedgerError> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map(unsigned);
    let (pages, free, page_bytes) = (number("page_count")?, number("freelist_count")?, number("page_size")?);
    let reusable_bytes = free.saturating_mul(page_bytes);
    let disk = rustix::fs::statvfs(path).ok().map(|disk| Disk {
        bytes_total: disk.f_blocks.saturating_mul(disk.f_frsize),
        bytes_free: disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(reusable_bytes),
    });
    Ok(Measured { used_bytes: pages.saturating_sub(free).saturating_mul(page_bytes), disk })
}

/// The present, as the database's clock has it.
fn now_ms(connection: &Connection, time: &StoreTime) -> Result<u64, LedgerError> {
    let mut clock = connection.prepare_cached("select cast(unixepoch('subsec') * 1000 as integer)")?;
    Ok(time.at(clock.query_row([], |row| row.get(0))?))
}
