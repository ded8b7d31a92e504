//! `servanda.lock`: the pins of tools, in a file beside the configuration. Read whole or not at all, written in one step, and read again by
//! a running gateway when it changes.

use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_catalog::pins::{LockFile, Pins};
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_engine::{Discovery, SystemClock};
use tokio_util::sync::CancellationToken;

use crate::{configuration, failure::CommandFailure, files};

/// How often a running gateway checks whether the file changed, if it does not probe more often.
const LOOK_MS_MAX: u64 = 2_000;
/// How many held-back tools a message names.
const TOLD_MAX: usize = 20;
/// Readable by all users who can reach the folder: it contains nothing that a server does not tell every client.
const LOCK_MODE: u32 = 0o644;
/// How much of the lock file is read: enough for ten thousand tools and the servers' other lists.
pub(crate) const LOCK_BYTES_MAX: u64 = 256 << 20;

/// The pins of a configuration.
pub(crate) fn pins(loaded: &LoadedConfig) -> Result<Pins, CommandFailure> {
    Ok(Pins::new(read(&loaded.lock_file())?, loaded.config.pins.policy()))
}

/// The pins that a running gateway uses. If the file is gone, the earlier pins stay in force.
pub(crate) fn pins_after(loaded: &LoadedConfig, before: Option<Arc<LockFile>>) -> Result<Pins, CommandFailure> {
    let mut pins = pins(loaded)?;
    if pins.lock.is_none() && before.is_some() {
        tracing::warn!("{} is gone; its pins stay in force until the gateway ends", loaded.lock_file().display());
        pins.lock = before;
    }
    Ok(pins)
}

/// The contents of the file; none if there is no file.
pub(crate) fn read(file: &Path) -> Result<Option<LockFile>, CommandFailure> {
    let text = match files::read_text(file, LOCK_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CommandFailure::bad_input(format!("cannot read `{}`: {error}", file.display()))),
    };
    let lock = LockFile::read(&file.display().to_string(), &text).map_err(|error| {
        CommandFailure::bad_input(error.to_string())
            .hint("restore the file from version control, or move it away and agree anew with `servanda pin --all`")
    })?;
    Ok(Some(lock))
}

/// The text of the file.
pub(crate) fn text(lock: &LockFile) -> Result<String, CommandFailure> {
    lock.write().map_err(|error| CommandFailure::failed(format!("the pins cannot be written: {error}")))
}

/// Writes the file in one step: a concurrent reader sees the old file or the new one.
pub(crate) fn write(file: &Path, lock: &LockFile) -> Result<(), CommandFailure> {
    let text = text(lock)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    files::write_inside(folder, file, &text, LOCK_MODE)
        .map_err(|error| CommandFailure::failed(format!("cannot write `{}`: {error}", file.display())))
}

/// Synchronises a running gateway with the file.
#[derive(Debug)]
pub(crate) struct LockFileWatcher {
    file: PathBuf,
    config: PathBuf,
    discovery: Arc<Discovery>,
    seen: Mutex<Option<LockFileStamp>>,
}

/// What tells versions of a file apart without reading it.
type LockFileStamp = (u64, i64, i64, u64);

impl LockFileWatcher {
    /// Starts with a file that has just been read.
    pub(crate) fn new(loaded: &LoadedConfig, discovery: Arc<Discovery>) -> Self {
        let file = loaded.lock_file();
        let seen = Mutex::new(stamp(&file));
        Self { file, config: loaded.file.clone(), discovery, seen }
    }

    /// Checks the file periodically, until stopped.
    pub(crate) async fn watch(self: Arc<Self>, probe_interval: Duration, stop: CancellationToken) {
        self.warn();
        let pause = probe_interval.min(Duration::from_millis(LOOK_MS_MAX));
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
            self.look();
            self.keep_first_sights();
        }
    }

    /// Warns at the start about tools that are not pinned.
    fn warn(&self) {
        if self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_none() && self.discovery.passes_unpinned() {
            tracing::warn!(
                "there is no {}: a tool whose definition changes goes unnoticed; `servanda pin --all` agrees to what \
                 the servers offer now",
                self.file.display()
            );
        }
        let waiting = self.discovery.waiting();
        if !waiting.is_empty() {
            let tools = waiting.iter().take(TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                count = waiting.len(),
                tools,
                "tools are held back because their definitions are not pinned; `servanda pin --all` agrees to them"
            );
        }
    }

    /// Pins tools at first sight, if the configuration says so.
    pub(crate) fn keep_first_sights(&self) {
        let sights = self.discovery.first_sights();
        if sights.is_empty() {
            return;
        }
        let kept = read(&self.file).and_then(|lock| {
            // A deleted file revokes no pins.
            let agreed = || self.discovery.agreed_lock().map(|agreed| (*agreed).clone());
            let mut lock = lock.or_else(agreed).unwrap_or_default();
            let now = SystemClock.now();
            for (upstream, definition) in &sights {
                // A person may have pinned another definition meanwhile; then that one counts.
                if lock.pin(upstream, &definition.name).is_none() {
                    lock.set(upstream, definition, now);
                    tracing::warn!(%upstream, tool = definition.name, "a tool was pinned as it was first seen");
                }
            }
            write(&self.file, &lock).map(|()| lock)
        });
        match kept {
            Ok(lock) => {
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamp(&self.file);
                self.discovery.adopt(lock);
            }
            Err(failure) => tracing::warn!("tools could not be pinned at first sight: {failure}"),
        }
    }

    /// Loads the file if it changed. If it is gone or cannot be read, the earlier pins stay in force.
    fn look(&self) {
        let now = stamp(&self.file);
        if std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), now) == now {
            return;
        }
        match read(&self.file) {
            Ok(Some(lock)) => self.discovery.adopt(self.with_removed(lock)),
            Ok(None) => {
                tracing::warn!("{} is gone; its pins stay in force until the gateway ends", self.file.display());
            }
            Err(failure) => tracing::warn!("{failure}; the earlier pins stay in force"),
        }
    }

    /// The pins of the file, and the earlier pins of servers that the configuration no longer has. `servanda remove` is removing such a
    /// server: the next reload drops it, and until then the gateway must not ask for consent to its tools again.
    fn with_removed(&self, mut lock: LockFile) -> LockFile {
        let before = self.discovery.agreed_lock().unwrap_or_default();
        let has = |lock: &LockFile, id: &String| lock.upstreams.contains_key(id) || lock.listed.contains_key(id);
        let known = before.upstreams.keys().chain(before.listed.keys());
        let lost: BTreeSet<&String> = known.filter(|id| !has(&lock, id)).collect();
        let Some(configured) = (!lost.is_empty()).then(|| configuration::read(&self.config).ok()).flatten() else {
            return lock;
        };
        for id in lost.into_iter().filter(|id| !configured.config.upstreams.contains_key(*id)) {
            lock.upstreams.extend(before.upstreams.get(id).map(|pins| (id.clone(), pins.clone())));
            lock.listed.extend(before.listed.get(id).map(|pins| (id.clone(), pins.clone())));
        }
        lock
    }
}

fn stamp(file: &Path) -> Option<LockFileStamp> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
}
