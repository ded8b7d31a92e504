//! The position file: which ledger there was, and how far it had come. It is small and has a fixed size, so
//! that one write replaces all of it. It is written after every commit without a sync, which survives a killed
//! process, and synced when the ledger is checkpointed and when it is closed. After a power cut it may be
//! behind the ledger, never ahead of it.
//!
//! Several processes write it, each under a lock and only upwards.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use super::{LedgerPosition, PositionWitness};

/// How long to wait for another process that is writing. After that, the next commit writes the position
/// instead: being behind is harmless, and a process that was stopped in the middle must not stop the others.
const LOCK_ATTEMPTS_MAX: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(1);
/// Bytes that are read from a file that may be anything.
const FILE_BYTES_MAX: u64 = 4_096;
/// More bytes than a position file has.
const SAID_BYTES: usize = 512;
const HEADING: &str = "servanda position 1";

/// The file, open for writing.
#[derive(Debug)]
pub(crate) struct PositionFile {
    path: PathBuf,
    ledger_id: String,
    made_ms: u64,
    open: Mutex<OpenPositionFile>,
}

#[derive(Debug)]
struct OpenPositionFile {
    file: File,
    /// What this process wrote last. As long as the file says just that, it need not be understood again with every commit.
    written: Option<WrittenPosition>,
}

#[derive(Debug)]
struct WrittenPosition {
    text: String,
    position: u64,
    ended_cleanly: bool,
}

/// Reads a position file. If another process is writing it at the moment, it is read again.
pub(crate) fn read(path: &Path) -> PositionWitness {
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match read_once(path) {
            PositionWitness::Unreadable(_) => thread::sleep(LOCK_PAUSE),
            said => return said,
        }
    }
    read_once(path)
}

fn read_once(path: &Path) -> PositionWitness {
    let file = match servanda_files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return PositionWitness::Nothing,
        Err(error) => return PositionWitness::Unreadable(format!("cannot be opened: {error}")),
    };
    let mut text = String::new();
    match file.take(FILE_BYTES_MAX).read_to_string(&mut text) {
        Ok(_) => parse(&text),
        Err(error) => PositionWitness::Unreadable(format!("cannot be read: {error}")),
    }
}

impl PositionFile {
    /// Opens the position file of this ledger. Makes it if there is none, and replaces one of another ledger
    /// that a person gave up.
    pub(crate) fn open(path: &Path, position: &LedgerPosition) -> io::Result<Self> {
        let same = matches!(read(path), PositionWitness::Known { position: known, .. } if known.ledger_id == position.ledger_id);
        if !same {
            install(path, position)?;
        }
        let open = Mutex::new(OpenPositionFile::new(servanda_files::open_for_update(path)?));
        let opened =
            Self { path: path.to_owned(), ledger_id: position.ledger_id.clone(), made_ms: position.made_ms, open };
        opened.write(position.position, position.written_ms, false)?;
        opened.sync()?;
        Ok(opened)
    }

    /// Notes that the ledger has come further.
    pub(crate) fn advance(&self, position: u64, written_ms: u64) {
        if let Err(error) = self.write(position, written_ms, false) {
            tracing::error!(file = %self.path.display(), %error, "the ledger's position was not written; a lost commit may go unnoticed");
        }
    }

    /// Makes what was written durable. A file that was deleted in the meantime is made again.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut open = self.open_file();
        let (there, ours) = (fs::metadata(&self.path), open.file.metadata()?);
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            if let (PositionWitness::Nothing, PositionWitness::Known { position, .. }) =
                (read(&self.path), self.said(open.bytes(&mut [0; SAID_BYTES])))
            {
                tracing::warn!(file = %self.path.display(), "the ledger's position file was deleted; it is made again");
                install(&self.path, &position)?;
            }
            *open = OpenPositionFile::new(servanda_files::open_for_update(&self.path)?);
        }
        open.file.sync_data()
    }

    /// Notes that the last process that wrote to the ledger ends cleanly.
    pub(crate) fn end(&self) -> io::Result<()> {
        let said = self.said(self.open_file().bytes(&mut [0; SAID_BYTES]));
        if let PositionWitness::Known { position, .. } = said {
            self.write(position.position, position.written_ms, true)?;
        }
        self.sync()
    }

    fn write(&self, position: u64, written_ms: u64, ended_cleanly: bool) -> io::Result<()> {
        let mut open = self.open_file();
        if !lock(&open.file)? {
            return Ok(());
        }
        let written = self.write_upwards(&mut open, position, written_ms, ended_cleanly);
        open.file.unlock().and(written)
    }

    fn write_upwards(
        &self,
        open: &mut OpenPositionFile,
        position: u64,
        written_ms: u64,
        ended_cleanly: bool,
    ) -> io::Result<()> {
        let is_news = |known: u64, ended: bool| position > known || (position == known && ended != ended_cleanly);
        let mut bytes = [0; SAID_BYTES];
        let said = open.bytes(&mut bytes);
        let is_due = match open.written.as_ref().filter(|own| said == Some(own.text.as_bytes())) {
            Some(own) => is_news(own.position, own.ended_cleanly),
            // Another process wrote it, or nobody did.
            None => match self.said(said) {
                PositionWitness::Known { position: known, ended_cleanly: ended } => {
                    known.ledger_id == self.ledger_id && is_news(known.position, ended)
                }
                _ => true,
            },
        };
        if !is_due {
            return Ok(());
        }
        let (ledger_id, made_ms) = (self.ledger_id.clone(), self.made_ms);
        let text = text(&LedgerPosition { ledger_id, position, written_ms, made_ms }, ended_cleanly);
        open.written = None;
        open.file.write_all_at(text.as_bytes(), 0)?;
        open.written = Some(WrittenPosition { text, position, ended_cleanly });
        Ok(())
    }

    /// What bytes of the file say; none if it could not be read.
    fn said(&self, bytes: Option<&[u8]>) -> PositionWitness {
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.map_or_else(|| PositionWitness::Unreadable(format!("`{}` is not text", self.path.display())), parse)
    }

    fn open_file(&self) -> MutexGuard<'_, OpenPositionFile> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenPositionFile {
    fn new(file: File) -> Self {
        Self { file, written: None }
    }

    /// The bytes of the file; none if it cannot be read.
    fn bytes<'a>(&self, bytes: &'a mut [u8; SAID_BYTES]) -> Option<&'a [u8]> {
        let read = self.file.read_at(bytes, 0).ok()?;
        bytes.get(..read)
    }
}

/// Puts a file in place, as a whole and durably.
pub(crate) fn install(path: &Path, position: &LedgerPosition) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = path.with_extension(format!("position.{}", servanda_files::unguessable()));
    let written = servanda_files::write_new(&new, text(position, false).as_bytes(), 0o600);
    if let Err(error) = written.and_then(|()| fs::rename(&new, path)) {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

/// Waits for the lock. Returns whether it was acquired in time.
fn lock(file: &File) -> io::Result<bool> {
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// The content of the file, always of the same length.
fn text(position: &LedgerPosition, ended_cleanly: bool) -> String {
    let LedgerPosition { ledger_id, position, written_ms, made_ms } = position;
    let ended = if ended_cleanly { "cleanly" } else { "not yet" };
    let said = format!(
        "{HEADING}\nledger {ledger_id:<32}\nposition {position:020}\nwritten_ms {written_ms:020}\nmade_ms {made_ms:020}\n\
         ended {ended}\n"
    );
    let check = checksum(said.as_bytes());
    format!("{said}check {check:016x}\n")
}

fn parse(text: &str) -> PositionWitness {
    parsed(text)
        .unwrap_or_else(|| PositionWitness::Unreadable("is not a position file of servanda, or was changed".to_owned()))
}

fn parsed(text: &str) -> Option<PositionWitness> {
    let (said, check) = text.split_at_checked(text.find("check ")?)?;
    let check = u64::from_str_radix(check.strip_prefix("check ")?.trim_end(), 16).ok()?;
    let mut lines = said.lines();
    if check != checksum(said.as_bytes()) || lines.next()? != HEADING {
        return None;
    }
    let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::trim);
    let ledger_id = value("ledger")?.to_owned();
    let (position, written_ms) = (value("position")?.parse().ok()?, value("written_ms")?.parse().ok()?);
    let made_ms = value("made_ms")?.parse().ok()?;
    let ended_cleanly = value("ended")? == "cleanly";
    Some(PositionWitness::Known {
        position: LedgerPosition { ledger_id, position, written_ms, made_ms },
        ended_cleanly,
    })
}

/// FNV-1a: protects against a torn write or an editing mistake, not against malice.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
