//! The prompts of one upstream by their exposed names, as its list had them when it was read last. Reading the list is in `relay`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use servanda_catalog::Catalog;
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard},
    time::Instant,
};

/// How often a list is read again for names that are not found.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// An upstream's prompts by their exposed names.
#[derive(Debug, Default)]
pub(crate) struct PromptTable {
    table: Mutex<PromptTableState>,
    /// Held by the request that reads the list, so that it is read once for many that miss a name.
    reading: AsyncMutex<()>,
}

/// An upstream's prompts, as a whole reading of its list found them.
#[derive(Debug, Default)]
pub(crate) struct PromptNames {
    /// Own names by exposed names.
    pub(crate) names: BTreeMap<String, String>,
    /// Own names of prompts that agents are not shown.
    pub(crate) withheld: BTreeSet<String>,
    /// What [`PromptTable::changes`] was before the list was read.
    pub(crate) changes: u64,
    /// The edition of the pins that the names were judged by.
    pub(crate) pins_edition: u64,
}

#[derive(Debug, Default)]
struct PromptTableState {
    read: Option<PromptNames>,
    read_at: Option<Instant>,
    /// Counts what the upstream says about changes; the names hold as long as it is what it was when they were read.
    changes: u64,
}

impl PromptTable {
    /// The upstream said that its prompts changed.
    pub(crate) fn outdate(&self) {
        self.table().changes += 1;
    }

    /// How often the upstream said so.
    pub(crate) fn changes(&self) -> u64 {
        self.table().changes
    }

    /// The turn to read the list.
    pub(crate) async fn reading(&self) -> AsyncMutexGuard<'_, ()> {
        self.reading.lock().await
    }

    /// A prompt's own name.
    pub(crate) fn get(&self, exposed: &str) -> Option<String> {
        self.table().read.as_ref()?.names.get(exposed).cloned()
    }

    /// Whether what was read still holds.
    pub(crate) fn holds(&self, catalog: &Catalog) -> bool {
        let table = self.table();
        let read = table.read.as_ref();
        read.is_some_and(|read| read.changes == table.changes && read.pins_edition == catalog.pins_edition())
    }

    /// Whether the list is to be read for a name that was missed at that moment.
    pub(crate) fn may_be_read(&self, catalog: &Catalog, missed_at: Instant) -> bool {
        let read_at = self.table().read_at;
        !self.holds(catalog) || read_at.is_none_or(|read_at| read_at < missed_at && read_at.elapsed() >= READ_INTERVAL)
    }

    /// Whether agents are not shown a prompt.
    pub(crate) fn withholds(&self, own_name: &str) -> bool {
        self.table().read.as_ref().is_some_and(|read| read.withheld.contains(own_name))
    }

    /// Takes what was read just now.
    pub(crate) fn fill(&self, read: PromptNames) {
        let mut table = self.table();
        (table.read, table.read_at) = (Some(read), Some(Instant::now()));
    }

    fn table(&self) -> MutexGuard<'_, PromptTableState> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
