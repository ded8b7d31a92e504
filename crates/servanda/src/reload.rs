//! Notices that the configuration or a contract changed, and has the gateway work by it without ending. Looked at once a
//! second: no system interface tells of changes on every file system, and a second is soon enough for a person who has just
//! saved a file. A configuration with a mistake in it changes nothing but the log.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{config::Loaded, wiring::Station};

/// How often the files are looked at.
const LOOK_INTERVAL_MS: u64 = 1_000;

/// How deep folders are looked into.
const DEPTH_MAX: usize = 16;
/// Files that are looked at.
const ENTRIES_MAX: usize = 20_000;

/// What can be seen of the files without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Glimpse(Vec<(PathBuf, Option<SystemTime>, u64)>);

/// Whether files that changed have been at rest since: an editor or a checkout may still be writing.
#[derive(Debug)]
struct Vigil {
    applied: Glimpse,
    seen: Glimpse,
}

impl Glimpse {
    /// Of the configuration and every file in the contracts' folder.
    fn of(loaded: &Loaded) -> Self {
        let mut files = vec![loaded.file.clone()];
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

impl Vigil {
    fn begin(applied: Glimpse) -> Self {
        Self { seen: applied.clone(), applied }
    }

    /// Takes the next look. True once something differs from what was applied and is at rest; it counts as applied then.
    fn look(&mut self, now: Glimpse) -> bool {
        let at_rest = now == self.seen;
        self.seen = now;
        let due = at_rest && self.seen != self.applied;
        if due {
            self.applied = self.seen.clone();
        }
        due
    }
}

/// Has a running gateway keep up with its files, for as long as this is polled.
pub(crate) async fn keep_up(station: &Station, mut loaded: Loaded) -> Infallible {
    let mut vigil = Vigil::begin(Glimpse::of(&loaded));
    loop {
        tokio::time::sleep(Duration::from_millis(LOOK_INTERVAL_MS)).await;
        if !vigil.look(Glimpse::of(&loaded)) {
            continue;
        }
        let reloaded = Loaded::read(&loaded.file).and_then(|now| station.reload(&now).map(|()| now));
        match reloaded {
            Ok(now) => {
                tell(&loaded, &now);
                // Contracts may be somewhere else now.
                vigil = Vigil::begin(Glimpse::of(&now));
                loaded = now;
            }
            Err(failure) => {
                tracing::error!("the changed configuration is not used, the one before holds: {failure}");
            }
        }
    }
}

fn tell(before: &Loaded, now: &Loaded) {
    let upstreams = now.config.upstreams.len();
    tracing::info!(upstreams, "the changed configuration is in use; calls in flight end as they began");
    let (before, now) = (&before.config, &now.config);
    let fixed = [
        ("listen", before.listen != now.listen),
        ("ledger", before.ledger != now.ledger),
        ("limits", before.limits != now.limits),
    ];
    for (name, _) in fixed.into_iter().filter(|(_, differs)| *differs) {
        tracing::warn!("`{name}` changed, which takes effect when servanda is started again");
    }
}

/// Everything in a folder and the folders in it, in which contracts are.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if found.len() >= ENTRIES_MAX {
                return found;
            }
            // Links may lead in a circle, which ends at that depth.
            if depth < DEPTH_MAX && entry.path().is_dir() {
                folders.push((entry.path(), depth + 1));
            }
            found.push(entry.path());
        }
    }
    found
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
