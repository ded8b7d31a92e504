//! Notices that the configuration or a contract changed, and applies the change to the running gateway. The files are checked once a
//! second: no system interface reports changes on every file system, and a second is soon enough for a person who has just saved a file. An
//! invalid configuration changes nothing and is logged.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use servanda_catalog::Catalog;
use servanda_config::LoadedConfig;
use servanda_contract::Digest;
use servanda_engine::Authorities;
use servanda_policy::Policies;

use crate::{
    configuration,
    failure::CommandFailure,
    policies,
    screen::{self, Screen, plural},
    wiring::AssembledGateway,
};

/// How often the files are checked.
const LOOK_INTERVAL_MS: u64 = 1_000;

/// How deep subfolders are searched.
const DEPTH_MAX: usize = 16;
/// The most files that are watched.
const ENTRIES_MAX: usize = 20_000;

/// How many names a log line has.
const NAMES_SHOWN_MAX: usize = 5;

/// The state of the files, without their contents.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FilesSnapshot(Vec<(PathBuf, Option<SystemTime>, u64)>);

/// Tells whether changed files are at rest, because an editor or a checkout may still be writing.
#[derive(Debug)]
struct FileChangeDetector {
    applied: FilesSnapshot,
    seen: FilesSnapshot,
}

/// A configuration and the state of its files when it was read: a file that is saved from then on counts as changed.
#[derive(Debug)]
pub(crate) struct WatchedConfig {
    /// The configuration.
    pub loaded: LoadedConfig,
    detector: FileChangeDetector,
}

impl WatchedConfig {
    /// Reads the configuration. Everything else that belongs to it must be read after this.
    pub(crate) fn read(config: &Path) -> Result<Self, CommandFailure> {
        let mut loaded = configuration::read(config)?;
        loaded.had_policies = policies::has_folder(&loaded);
        let detector = FileChangeDetector::new(FilesSnapshot::take(&loaded));
        Ok(Self { loaded, detector })
    }
}

impl FilesSnapshot {
    /// The configuration, every file in the contracts' folder, the policies, and the lock file, from which contracts take their schemas.
    fn take(loaded: &LoadedConfig) -> Self {
        let mut files = vec![loaded.file.clone(), loaded.lock_file()];
        files.extend(entries(&loaded.contracts_folder()));
        files.extend(policies::watched(loaded));
        files.sort();
        let seen = |file: PathBuf| {
            let metadata = std::fs::metadata(&file).ok();
            let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
            (file, modified, metadata.map_or(0, |metadata| metadata.len()))
        };
        Self(files.into_iter().map(seen).collect())
    }
}

impl FileChangeDetector {
    fn new(applied: FilesSnapshot) -> Self {
        Self { seen: applied.clone(), applied }
    }

    /// Takes the next observation. Returns true once something differs from what was applied and is at rest; it then counts as applied.
    fn observe(&mut self, now: FilesSnapshot) -> bool {
        let at_rest = now == self.seen;
        self.seen = now;
        let due = at_rest && self.seen != self.applied;
        if due {
            self.applied = self.seen.clone();
        }
        due
    }
}

/// Applies file changes to a running gateway, for as long as this is polled.
pub(crate) async fn keep_up(gateway: &AssembledGateway, files: WatchedConfig, screen: Screen) -> Infallible {
    let WatchedConfig { mut loaded, mut detector } = files;
    loop {
        tokio::time::sleep(Duration::from_millis(LOOK_INTERVAL_MS)).await;
        if !detector.observe(FilesSnapshot::take(&loaded)) {
            continue;
        }
        let (before, rules) = (gateway.engine.catalog(), gateway.engine.authorities());
        let reloaded = match WatchedConfig::read(&loaded.file) {
            Ok(mut now) => {
                now.loaded.had_policies |= loaded.had_policies && loaded.config.policy.files.is_none();
                gateway.reload(&now.loaded).await.map(|()| now)
            }
            Err(failure) => Err(failure),
        };
        match reloaded {
            Ok(now) => {
                screen::log::follow(&now.loaded.config.log);
                let catalog = gateway.engine.catalog();
                let mut changes = ConfigChanges::between((&loaded, &before), (&now.loaded, &catalog));
                let authorities = gateway.engine.authorities();
                changes.add_policies(&rules, &authorities);
                let file = now.loaded.file.display();
                screen.say(format_args!("reloaded {file}: {changes}; calls in flight end as they began"));
                if let Some(warning) = policies::warning(&now.loaded, &authorities) {
                    screen.say(warning);
                }
                warn_of_fixed(&loaded, &now.loaded);
                // The contracts' folder may have changed.
                WatchedConfig { loaded, detector } = now;
            }
            Err(failure) => {
                tracing::error!(
                    "the changed configuration is not used, the earlier one stays in force: {}",
                    failure.to_string().replace("\n  ", " ")
                );
            }
        }
    }
}

/// What another configuration changed, for the person who saved a file and wants to know whether it was applied.
#[derive(Debug, Default, PartialEq, Eq)]
struct ConfigChanges(Vec<String>);

impl ConfigChanges {
    fn between(before: (&LoadedConfig, &Catalog), now: (&LoadedConfig, &Catalog)) -> Self {
        let contracts = |catalog: &Catalog| -> BTreeMap<String, Digest> {
            catalog.entries().map(|(name, entry)| (name.to_owned(), entry.contract.digest())).collect()
        };
        let mut changes = Self::default();
        changes.add(("tool", "tools"), &contracts(before.1), &contracts(now.1));
        changes.add(("upstream", "upstreams"), &before.0.config.upstreams, &now.0.config.upstreams);
        if before.0.config.budgets != now.0.config.budgets {
            changes.0.push("other budgets".to_owned());
        }
        if before.0.config.log != now.0.config.log {
            changes.0.push("another log".to_owned());
        }
        changes
    }

    /// Policies that are now in force and were not, and policies that are now in shadow.
    fn add_policies(&mut self, before: &Authorities, now: &Authorities) {
        let of = |policies: &Policies| -> BTreeMap<String, String> {
            policies.texts().map(|(id, text)| (id.to_owned(), text.to_owned())).collect()
        };
        let shadow = |authorities: &Authorities| authorities.shadow().map(|shadow| of(shadow.policies()));
        self.add(("policy", "policies"), &of(before.policies()), &of(now.policies()));
        let tried_out = ("policy in shadow", "policies in shadow");
        self.add(tried_out, &shadow(before).unwrap_or_default(), &shadow(now).unwrap_or_default());
    }

    fn add<T: PartialEq>(
        &mut self,
        (one, many): (&str, &str),
        before: &BTreeMap<String, T>,
        now: &BTreeMap<String, T>,
    ) {
        let added = now.keys().filter(|name| !before.contains_key(*name)).collect();
        let removed = before.keys().filter(|name| !now.contains_key(*name)).collect();
        let differs = |(name, new): (_, &T)| before.get(name).is_some_and(|old| old != new).then_some(name);
        let changed = now.iter().filter_map(differs).collect();
        for (what, names) in [("new", added), ("gone", removed), ("changed", changed)] {
            let names: Vec<&String> = names;
            if !names.is_empty() {
                let shown: Vec<&str> = names.iter().take(NAMES_SHOWN_MAX).map(|name| name.as_str()).collect();
                let more = if names.len() > NAMES_SHOWN_MAX { ", ..." } else { "" };
                let counted = plural(names.len(), one, many);
                self.0.push(format!("{counted} {what} ({}{more})", shown.join(", ")));
            }
        }
    }
}

impl fmt::Display for ConfigChanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return formatter.write_str("the same tools, upstreams and policies as before");
        }
        formatter.write_str(&self.0.join(", "))
    }
}

/// Warns about settings that a reload does not apply.
fn warn_of_fixed(before: &LoadedConfig, now: &LoadedConfig) {
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

/// Everything in a folder with contracts, and in its subfolders.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if found.len() >= ENTRIES_MAX {
                return found;
            }
            // Links may form a circle, which ends at that depth.
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
    use super::{FileChangeDetector, FilesSnapshot};

    fn snapshot(bytes: u64) -> FilesSnapshot {
        FilesSnapshot(vec![("servanda.yaml".into(), None, bytes)])
    }

    #[test]
    fn a_change_counts_once_and_only_at_rest() {
        let mut detector = FileChangeDetector::new(snapshot(1));
        let looks = [(1, false), (2, false), (3, false), (3, true), (3, false), (1, false), (1, true)];
        for (number, (bytes, due)) in looks.into_iter().enumerate() {
            assert_eq!(detector.observe(snapshot(bytes)), due, "look {number}");
        }
    }

    #[test]
    fn a_change_that_was_taken_back_is_none() {
        let mut detector = FileChangeDetector::new(snapshot(1));
        assert!(![2, 1, 1, 1].into_iter().any(|bytes| detector.observe(snapshot(bytes))));
    }
}
