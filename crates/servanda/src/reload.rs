//! Notices that the configuration or a contract changed. Looked at once a second: no system interface tells of changes on
//! every file system, and a second is soon enough for a person who has just saved a file.
//!
//! What is done about a change is the station's business.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use crate::config::Loaded;

/// How often the files are looked at.
const LOOK_INTERVAL_MS: u64 = 1_000;

/// What can be seen of the files without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glimpse(Vec<(PathBuf, Option<SystemTime>, u64)>);

/// Whether files that changed have been at rest since: an editor or a checkout may still be writing.
#[derive(Debug)]
pub(crate) struct Vigil {
    applied: Glimpse,
    seen: Glimpse,
}

impl Glimpse {
    /// Of the configuration, the lock and every file in the contracts' folder.
    pub(crate) fn of(loaded: &Loaded) -> Self {
        let mut files = vec![loaded.file.clone(), loaded.folder.join(LOCK_FILE)];
        files.extend(entries(&loaded.contracts_folder()));
        files.sort();
        let seen = |file: PathBuf| {
            let metadata = std::fs::metadata(&file).ok();
            let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
            (file, modified, metadata.map_or(0, |metadata| metadata.len()))
        };
        Self(files.into_iter().map(seen).collect())
    }
}

/// The file that pins definitions, beside the configuration.
const LOCK_FILE: &str = "servanda.lock";

impl Vigil {
    pub(crate) fn begin(applied: Glimpse) -> Self {
        Self { seen: applied.clone(), applied }
    }

    /// Takes the next look. True once something differs from what was applied and is at rest; it counts as applied then.
    pub(crate) fn look(&mut self, now: Glimpse) -> bool {
        let at_rest = now == self.seen;
        self.seen = now;
        let due = at_rest && self.seen != self.applied;
        if due {
            self.applied = self.seen.clone();
        }
        due
    }
}

/// Waits until the files of a configuration have changed and are at rest. Cancel safe.
pub(crate) async fn changed(vigil: &mut Vigil, loaded: &Loaded, stop: &CancellationToken) -> bool {
    loop {
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(Duration::from_millis(LOOK_INTERVAL_MS)) => {}
        }
        if vigil.look(Glimpse::of(loaded)) {
            return true;
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Glimpse, Vigil};

    fn glimpse(bytes: u64) -> Glimpse {
        Glimpse(vec![("servanda.yaml".into(), None, bytes)])
    }

    #[test]
    fn a_change_counts_once_and_only_at_rest() {
        let mut vigil = Vigil::begin(glimpse(1));
        let looks = [(1, false), (2, false), (3, false), (3, true), (3, false), (1, false), (1, true)];
        for (number, (bytes, due)) in looks.into_iter().enumerate() {
            assert_eq!(vigil.look(glimpse(bytes)), due, "look {number}");
        }
    }

    #[test]
    fn a_change_that_was_taken_back_is_none() {
        let mut vigil = Vigil::begin(glimpse(1));
        assert!(![2, 1, 1, 1].into_iter().any(|bytes| vigil.look(glimpse(bytes))));
    }
}
