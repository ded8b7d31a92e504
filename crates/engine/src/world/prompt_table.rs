//! The prompts of one upstream by their exposed names, as of the last reading of its list. Deliberately not here: reading the list, which
//! `relay` does.

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

/// The shortest time between two readings of a list because of names that are not found.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// An upstream's prompts by their exposed names.
#[derive(Debug, Default)]
pub(crate) struct PromptTable {
    table: Mutex<PromptTableState>,
    /// Held by the request that reads the list, so that many requests that miss a name read it once.
    reading: AsyncMutex<()>,
}

/// An upstream's prompts, from one complete reading of its list.
#[derive(Debug, Default)]
pub(crate) struct PromptNames {
    /// Own names by exposed names.
    pub(crate) names: BTreeMap<String, String>,
    /// Own names of prompts that agents are not shown.
    pub(crate) withheld: BTreeSet<String>,
    /// The value of [`PromptTable::changes`] before the list was read.
    pub(crate) changes: u64,
    /// The edition of the pins that the names were judged by.
    pub(crate) pins_edition: u64,
}

#[derive(Debug, Default)]
struct PromptTableState {
    read: Option<PromptNames>,
    read_at: Option<Instant>,
    /// Counts the changes that the upstream announced. The names are valid as long as the count is the same as when they were read.
    changes: u64,
}

impl PromptTable {
    /// Records that the upstream announced a change of its prompts.
    pub(crate) fn outdate(&self) {
        self.table().changes += 1;
    }

    /// How many changes the upstream announced.
    pub(crate) fn changes(&self) -> u64 {
        self.table().changes
    }

    /// Waits for the right to read the list.
    pub(crate) async fn reading(&self) -> AsyncMutexGuard<'_, ()> {
        self.reading.lock().await
    }

    /// A prompt's own name.
    pub(crate) fn get(&self, exposed: &str) -> Option<String> {
        self.table().read.as_ref()?.names.get(exposed).cloned()
    }

    /// Whether the names are still valid.
    pub(crate) fn holds(&self, catalog: &Catalog) -> bool {
        let table = self.table();
        let read = table.read.as_ref();
        read.is_some_and(|read| read.changes == table.changes && read.pins_edition == catalog.pins_edition())
    }

    /// Whether the list should be read for a name that was missed at this time.
    pub(crate) fn may_be_read(&self, catalog: &Catalog, missed_at: Instant) -> bool {
        let read_at = self.table().read_at;
        !self.holds(catalog) || read_at.is_none_or(|read_at| read_at < missed_at && read_at.elapsed() >= READ_INTERVAL)
    }

    /// Whether a prompt is hidden from agents.
    pub(crate) fn withholds(&self, own_name: &str) -> bool {
        self.table().read.as_ref().is_some_and(|read| read.withheld.contains(own_name))
    }

    /// Stores the names that were just read.
    pub(crate) fn fill(&self, read: PromptNames) {
        let mut table = self.table();
        (table.read, table.read_at) = (Some(read), Some(Instant::now()));
    }

    fn table(&self) -> MutexGuard<'_, PromptTableState> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
