//! One upstream and how well it is known: which of its lists are those of its present connection.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_catalog::{Catalog, Inventory, Rejected};
use servanda_contract::{Digest, digest::Domain};
use servanda_mcp::{ClientCapabilities, Era};
use servanda_upstream::{Counterpart, ToolList, Upstream, UpstreamStatus};
use tokio::{sync::watch, time::Instant};

use super::{RETRY_MS, telling};

/// Kinds of clients whose lists' editions are remembered; when there are more, all are asked for again.
const EDITIONS_MAX: usize = 64;

/// An upstream and what is known of it.
#[derive(Debug)]
pub(super) struct Acquaintance {
    id: String,
    upstream: Upstream,
    catalog: Arc<Catalog>,
    /// Counts what may have changed the upstream's lists.
    changes: watch::Receiver<u64>,
    /// Held while it is asked: a thousand calls ask once, and no old answer comes after a new one.
    asking: tokio::sync::Mutex<()>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// What the count was when a list was asked for, by kind of client.
    editions: BTreeMap<ClientCapabilities, u64>,
    failed_at: Option<Instant>,
    /// The last list, so that the same one again is not read again.
    last: Option<(Digest, Arc<Inventory>)>,
}

impl Acquaintance {
    pub(super) fn new(id: String, upstream: Upstream, catalog: Arc<Catalog>) -> Self {
        let changes = upstream.changes();
        Self { id, upstream, catalog, changes, asking: tokio::sync::Mutex::default(), memory: Mutex::default() }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.upstream.changes()
    }

    /// Whether what it offers may depend on what its client can do: a modern server is told that with every request, and
    /// lists are the same for all.
    pub(super) fn varies_by_client(&self) -> bool {
        matches!(self.upstream.status(), UpstreamStatus::Ready { era: Era::Legacy, .. })
    }

    /// Whether its list for such a client was asked for on the present connection, and nothing was said since.
    pub(super) fn is_current(&self, capabilities: &ClientCapabilities) -> bool {
        let edition = *self.changes.borrow();
        self.memory().editions.get(capabilities) == Some(&edition)
            && matches!(self.upstream.status(), UpstreamStatus::Ready { .. })
    }

    /// Asks unless its list is current, or asking has just failed. Waits no longer than that.
    pub(super) async fn refresh(&self, counterpart: &Counterpart, wait: Duration) {
        let refreshed = async {
            let _asking = self.asking.lock().await;
            let failed = self.memory().failed_at.is_some_and(|at| at.elapsed() < Duration::from_millis(RETRY_MS));
            if !failed && !self.is_current(&counterpart.capabilities) {
                self.ask_now(counterpart).await;
            }
        };
        // What is known is used where nothing new is learned in time.
        let _ = tokio::time::timeout(wait, refreshed).await;
    }

    /// Asks for the list and tells the catalog. Says whether there was an answer.
    pub(super) async fn ask(&self, counterpart: &Counterpart) -> bool {
        let _asking = self.asking.lock().await;
        self.ask_now(counterpart).await
    }

    async fn ask_now(&self, counterpart: &Counterpart) -> bool {
        // Before asking: what changes while it answers has to be asked for again.
        let edition = *self.changes.borrow();
        match self.upstream.tools(counterpart).await {
            Ok(list) => {
                self.take(&counterpart.capabilities, &list, edition);
                true
            }
            Err(error) => {
                let first = self.memory().failed_at.replace(Instant::now()).is_none();
                // What could not be asked on behalf of one client says nothing about the others.
                if counterpart.capabilities == ClientCapabilities::none() {
                    if first || self.catalog.silence(&self.id).is_none() {
                        tracing::warn!(upstream = %self.id, %error, "the upstream could not be asked for its tools");
                    }
                    self.catalog.lose(&self.id, &error.to_string());
                }
                false
            }
        }
    }

    fn take(&self, capabilities: &ClientCapabilities, list: &ToolList, edition: u64) {
        let digest = digest(list);
        let before = self.memory().last.clone();
        let inventory = match before {
            Some((known, inventory)) if known == digest => inventory,
            _ => {
                let inventory = Arc::new(read(list));
                telling::rejected(&self.id, &inventory);
                inventory
            }
        };
        for change in self.catalog.observe(&self.id, capabilities, &inventory) {
            telling::changed(&change);
        }
        let mut memory = self.memory();
        memory.last = Some((digest, inventory));
        memory.failed_at = None;
        if memory.editions.len() >= EDITIONS_MAX {
            memory.editions.clear();
        }
        memory.editions.insert(capabilities.clone(), edition);
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a list definition by definition.
pub(super) fn read(list: &ToolList) -> Inventory {
    let listed = list.tools.iter().map(|tool| (tool.name.as_str(), tool.definition.get()));
    let mut inventory = Inventory::read(listed);
    let nameless = list.rejected.iter().map(|rejected| Rejected {
        name: None,
        position: rejected.position,
        reason: rejected.reason.clone(),
        definition: None,
    });
    inventory.rejected.extend(nameless);
    inventory
}

fn digest(list: &ToolList) -> Digest {
    let mut parts: Vec<&[u8]> = list.tools.iter().map(|tool| tool.definition.get().as_bytes()).collect();
    parts.extend(list.rejected.iter().map(|rejected| rejected.reason.as_bytes()));
    Digest::of(Domain::Definition, &parts)
}
