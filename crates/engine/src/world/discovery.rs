//! What upstreams offer: asked for at the beginning, whenever one says that it changed, every so often because one may change
//! without a word, and before a call that would otherwise be decided by what a former connection said.
//!
//! The catalog is told and decides; what it decided is put into the log here. An upstream that does not answer loses
//! nothing but its mark of being available.

mod acquaintance;
mod doubts;
mod listed;
mod telling;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use servanda_catalog::{
    Catalog, Hold, Inventory, Listing, Standing,
    pins::{Definition, Lock},
};
use servanda_contract::Proposal;
use servanda_mcp::ClientCapabilities;
use servanda_upstream::{Counterpart, Upstream, UpstreamError};
use tokio_util::sync::CancellationToken;

pub use self::acquaintance::Answering;
use self::acquaintance::{Acquaintance, read};
pub(crate) use self::doubts::Doubts;
pub use self::listed::listed;
pub(crate) use self::telling::changed as tell_change;
use crate::client::Guest;

/// How long to wait before asking an upstream again that could not be asked, doubled up to the time between probes.
const RETRY_MS: u64 = 1_000;
/// How often an upstream is asked at the most because it says that it changed.
const ASK_INTERVAL_MS_MIN: u64 = 1_000;
/// How long a list or a call waits for what an upstream offers.
const WAIT_MS_MAX: u64 = 10_000;

/// Keeps the catalog told of what every upstream offers.
#[derive(Debug)]
pub struct Discovery {
    catalog: Arc<Catalog>,
    acquaintances: BTreeMap<String, Arc<Acquaintance>>,
    /// For whom lists are asked that everybody sees.
    nobody: Counterpart,
    /// What the log has had, in this world and those before it.
    doubts: Arc<Doubts>,
}

/// Asks an upstream for its tools, those included that it shows only to clients it can ask something: all of them need a
/// contract. One bad definition never hides the others.
pub async fn discover(upstream: &Upstream) -> Result<Inventory, UpstreamError> {
    upstream.tools(&anybody()).await.map(|list| read(&list, |_| {}))
}

/// A client that can be asked everything: whatever a server shows to anybody, it shows to this one.
fn anybody() -> Counterpart {
    let affinity = Arc::from("servanda/discovery");
    Counterpart { capabilities: ClientCapabilities::all(), affinity, ..Counterpart::nobody() }
}

impl Discovery {
    /// Nobody is asked yet.
    pub fn new(catalog: Arc<Catalog>, upstreams: &BTreeMap<String, Upstream>) -> Self {
        Self::remembering(Arc::default(), catalog, upstreams)
    }

    /// The same, where some doubts were told already.
    pub(crate) fn remembering(
        doubts: Arc<Doubts>,
        catalog: Arc<Catalog>,
        upstreams: &BTreeMap<String, Upstream>,
    ) -> Self {
        let of = |(id, upstream): (&String, &Upstream)| {
            let (catalog, doubts) = (catalog.clone(), doubts.clone());
            (id.clone(), Arc::new(Acquaintance::new(id.clone(), upstream.clone(), catalog, doubts)))
        };
        let acquaintances = upstreams.iter().map(of).collect();
        Self { catalog, acquaintances, nobody: Counterpart::nobody(), doubts }
    }

    /// What the log has had.
    pub(crate) fn doubts(&self) -> Arc<Doubts> {
        Arc::clone(&self.doubts)
    }

    /// The list a guest sees. What a legacy server offers may depend on what its client can do, so such a server is asked
    /// on behalf of the first guest of a kind; one that does not answer in time is listed as to anybody.
    ///
    /// Only servers that are open to the guest are asked.
    ///
    /// Cancel safe: nothing but the list is lost.
    pub async fn listing(&self, guest: &Guest, open: impl Fn(&str) -> bool) -> Arc<Listing> {
        if guest.capabilities.answers_anything() || self.acquaintances.values().any(|upstream| upstream.is_personal()) {
            let counterpart = guest.counterpart();
            let mut asking = tokio::task::JoinSet::new();
            let asked =
                self.acquaintances.iter().filter(|(id, upstream)| open(id) && upstream.knows_alone(&counterpart));
            for (_, acquaintance) in asked {
                let (acquaintance, counterpart) = (Arc::clone(acquaintance), counterpart.clone());
                asking
                    .spawn(async move { acquaintance.refresh(&counterpart, Duration::from_millis(WAIT_MS_MAX)).await });
            }
            asking.join_all().await;
        }
        self.catalog.listing(guest.viewer())
    }

    /// Makes sure that a call is decided by what its upstream said on the connection that the call is made on: a server that
    /// was started anew may be another one, and a legacy server has one connection for each client that it can ask
    /// something. Where it does not say anything in time, nothing is called on that connection if somebody agreed to
    /// definitions; else the call is decided by what is known.
    ///
    /// What is left: lists and calls are two requests, so a server may serve one definition and perform another.
    ///
    /// Cancel safe.
    pub(crate) async fn acquaint(&self, proposal: &Proposal, guest: &Guest) {
        let Some(entry) = self.catalog.entry(&proposal.tool) else { return };
        let contract = entry.contract.contract();
        let Some(acquaintance) = self.acquaintances.get(&contract.binding.upstream) else { return };
        let wait = || {
            // How long a tool takes says nothing about how long its server takes to start.
            let patience_ms = if acquaintance.is_starting() { WAIT_MS_MAX } else { contract.timeout_ms() };
            let wait_ms = patience_ms.min(proposal.caller_wait_ms.unwrap_or(u64::MAX)).min(WAIT_MS_MAX);
            Duration::from_millis(wait_ms)
        };
        let mut counterpart = guest.counterpart();
        if counterpart.capabilities.answers_anything() && !acquaintance.knows_era() && !acquaintance.is_personal() {
            // Only the shared connection tells whether this guest gets one of its own.
            Box::pin(acquaintance.refresh(&self.nobody, wait())).await;
        }
        counterpart = acquaintance.known_as(&counterpart);
        if !acquaintance.is_current(&counterpart) {
            Box::pin(acquaintance.refresh(&counterpart, wait())).await;
        }
        acquaintance.guard(&counterpart);
    }

    /// The same for a call that the gateway makes on its own account.
    ///
    /// Cancel safe.
    pub(crate) async fn acquaint_itself(&self, tool: &str) {
        let Some(entry) = self.catalog.entry(tool) else { return };
        let Some(acquaintance) = self.acquaintances.get(&entry.contract.contract().binding.upstream) else { return };
        if !acquaintance.is_current(&self.nobody) {
            acquaintance.refresh(&self.nobody, Duration::from_millis(WAIT_MS_MAX)).await;
        }
        acquaintance.guard(&self.nobody);
    }

    /// Takes another lock file for what was agreed to.
    pub fn adopt(&self, lock: Lock) {
        for change in self.catalog.adopt(lock) {
            telling::changed(&change);
            self.doubts.tell(&change, &self.catalog);
        }
    }

    /// What was agreed to; none where nothing ever was.
    pub fn agreed(&self) -> Option<Arc<Lock>> {
        self.catalog.agreed()
    }

    /// Definitions that were seen first and are to be pinned as they were, by upstream.
    pub fn first_sights(&self) -> Vec<(String, Definition)> {
        self.catalog.first_sights()
    }

    /// Tools that wait for somebody to agree to their definitions, by exposed name.
    pub fn waiting(&self) -> Vec<String> {
        let waits =
            |name: &str| *self.catalog.standing(name, &self.nobody.capabilities) == Standing::Held(Hold::Unpinned);
        self.catalog.entries().map(|(name, _)| name).filter(|name| waits(name)).map(str::to_owned).collect()
    }

    /// Whether tools are let through that nobody has agreed to.
    pub fn passes_unpinned(&self) -> bool {
        self.catalog.passes_unpinned()
    }

    /// Ends when every upstream has answered once or could not be asked.
    pub async fn all_tried(&self) {
        for acquaintance in self.acquaintances.values() {
            acquaintance.tried().await;
        }
    }

    /// Whether each upstream answers, by its id.
    pub fn answering(&self) -> BTreeMap<String, Answering> {
        self.acquaintances.iter().map(|(id, known)| (id.clone(), known.answering())).collect()
    }

    /// Follows an upstream until stopped: connects, asks, hears of changes, probes.
    pub async fn follow(self: Arc<Self>, id: String, probe_interval: Duration, stop: CancellationToken) {
        let Some(acquaintance) = self.acquaintances.get(&id) else { return };
        let mut changes = acquaintance.changes();
        let mut retry = Duration::from_millis(RETRY_MS);
        let mut looked_for_missing = false;
        loop {
            changes.borrow_and_update();
            let asked = tokio::select! {
                asked = acquaintance.ask(&self.nobody) => asked,
                () = stop.cancelled() => return,
            };
            if asked && !looked_for_missing {
                looked_for_missing = true;
                tokio::select! {
                    () = acquaintance.look_for_missing() => {}
                    () = stop.cancelled() => return,
                }
            }
            let pause = if asked {
                retry = Duration::from_millis(RETRY_MS);
                probe_interval
            } else {
                let pause = retry.min(probe_interval);
                retry = retry.saturating_mul(2);
                pause
            };
            // A server that announces changes without end is asked once a second, not once an announcement.
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(ASK_INTERVAL_MS_MIN).min(probe_interval)) => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                said = changes.changed() => {
                    if said.is_err() {
                        return;
                    }
                    self.catalog.doubt(&id);
                }
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}
