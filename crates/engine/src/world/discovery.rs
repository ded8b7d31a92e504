//! Learns what upstreams offer. It asks each upstream at the start, whenever the upstream announces a change, at intervals because it may
//! change without an announcement, and before a call that would otherwise be decided by the list of an earlier connection.
//!
//! The catalog decides what a list means; its decisions are logged here. If an upstream does not answer, its tools are only marked as
//! unavailable.

mod listed_items;
mod logged_objections;
mod operator_log;
#[cfg(test)]
mod tests;
mod upstream_discovery;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use servanda_catalog::{
    Catalog, Inventory, Listing, ToolHold, ToolStanding,
    pins::{Definition, LockFile},
};
use servanda_contract::Proposal;
use servanda_effects::PortFuture;
use servanda_mcp::ClientCapabilities;
use servanda_upstream::{Upstream, UpstreamError, UpstreamRequester};
use tokio_util::sync::CancellationToken;

pub use self::listed_items::list_items;
pub(crate) use self::logged_objections::LoggedObjections;
pub(crate) use self::operator_log::log_change as tell_change;
pub use self::upstream_discovery::UpstreamReachability;
use self::upstream_discovery::{UpstreamDiscovery, read_inventory};
use crate::client::Requester;

/// How long to wait before asking again after a failure. The time doubles up to the probe interval.
const RETRY_MS: u64 = 1_000;
/// The shortest time between two questions when an upstream keeps announcing changes.
const ASK_INTERVAL_MS_MIN: u64 = 1_000;
/// How long a list or a call waits for an upstream's answer.
const WAIT_MS_MAX: u64 = 10_000;

/// Keeps the catalog informed of what every upstream offers.
#[derive(Debug)]
pub struct Discovery {
    catalog: Arc<Catalog>,
    upstream_discoveries: BTreeMap<String, Arc<UpstreamDiscovery>>,
    /// The requester without capabilities on whose behalf the common lists are asked for.
    nobody: UpstreamRequester,
    /// The objections that were logged, in this world and in earlier ones.
    logged_objections: Arc<LoggedObjections>,
}

/// Asks an upstream for its tools, including those that it shows only to clients with capabilities: all of them need a contract. One bad
/// definition never hides the others.
pub fn discover(upstream: &Upstream) -> PortFuture<'_, Result<Inventory, UpstreamError>> {
    Box::pin(async move { upstream.tools(&fully_capable_client()).await.map(|list| read_inventory(&list, |_| {})) })
}

/// A client with all capabilities: a server shows it every tool that it shows to any client.
fn fully_capable_client() -> UpstreamRequester {
    let affinity = Arc::from("servanda/discovery");
    UpstreamRequester { capabilities: ClientCapabilities::all(), affinity, ..UpstreamRequester::gateway() }
}

impl Discovery {
    /// Creates the discovery. It does not ask any upstream yet.
    pub fn new(catalog: Arc<Catalog>, upstreams: &BTreeMap<String, Upstream>) -> Self {
        Self::with_logged_objections(Arc::default(), catalog, upstreams)
    }

    /// The same, with the objections that were logged already.
    pub(crate) fn with_logged_objections(
        logged_objections: Arc<LoggedObjections>,
        catalog: Arc<Catalog>,
        upstreams: &BTreeMap<String, Upstream>,
    ) -> Self {
        let of = |(id, upstream): (&String, &Upstream)| {
            let (catalog, logged_objections) = (catalog.clone(), logged_objections.clone());
            (id.clone(), Arc::new(UpstreamDiscovery::new(id.clone(), upstream.clone(), catalog, logged_objections)))
        };
        let upstream_discoveries = upstreams.iter().map(of).collect();
        Self { catalog, upstream_discoveries, nobody: UpstreamRequester::gateway(), logged_objections }
    }

    /// The objections that were logged.
    pub(crate) fn logged_objections(&self) -> Arc<LoggedObjections> {
        Arc::clone(&self.logged_objections)
    }

    /// The list that a requester sees. A legacy server may offer different tools to clients with different capabilities, so it is asked
    /// on behalf of the first requester with these capabilities. If it does not answer in time, the common list is used.
    ///
    /// Only servers that are open to the requester are asked.
    ///
    /// Cancel safe: only the list is lost.
    pub(crate) async fn listing(&self, requester: &Requester, open: impl Fn(&str) -> bool) -> Arc<Listing> {
        if requester.capabilities.answers_anything()
            || self.upstream_discoveries.values().any(|upstream| upstream.is_personal())
        {
            let upstream_requester = requester.upstream_requester();
            let mut asking = tokio::task::JoinSet::new();
            let asked = self
                .upstream_discoveries
                .iter()
                .filter(|(id, upstream)| open(id) && upstream.has_own_list(&upstream_requester));
            for (_, upstream_discovery) in asked {
                let (upstream_discovery, upstream_requester) =
                    (Arc::clone(upstream_discovery), upstream_requester.clone());
                asking.spawn(async move {
                    upstream_discovery.refresh(&upstream_requester, Duration::from_millis(WAIT_MS_MAX)).await;
                });
            }
            asking.join_all().await;
        }
        self.catalog.listing(requester.viewer())
    }

    /// Makes sure that a call is decided by the list that its upstream gave on the call's own connection. A restarted server may be a
    /// different one, and a legacy server has a separate connection for each client with capabilities. If there is no list in time, the
    /// connection is closed to calls if a person agreed to definitions; otherwise the call is decided by the last known list.
    ///
    /// What remains possible: lists and calls are separate requests, so a server may show one definition and perform another.
    ///
    /// Cancel safe.
    pub(crate) async fn refresh_for_call(&self, proposal: &Proposal, requester: &Requester) {
        let Some(entry) = self.catalog.entry(&proposal.tool) else { return };
        let contract = entry.contract.contract();
        let Some(upstream_discovery) = self.upstream_discoveries.get(&contract.binding.upstream) else { return };
        let wait = || {
            // A tool's timeout says nothing about how long its server takes to start.
            let patience_ms = if upstream_discovery.is_starting() { WAIT_MS_MAX } else { contract.timeout_ms() };
            let wait_ms = patience_ms.min(proposal.caller_wait_ms.unwrap_or(u64::MAX)).min(WAIT_MS_MAX);
            Duration::from_millis(wait_ms)
        };
        let mut upstream_requester = requester.upstream_requester();
        if upstream_requester.capabilities.answers_anything()
            && !upstream_discovery.knows_era()
            && !upstream_discovery.is_personal()
        {
            // Only the shared connection tells whether this requester gets a connection of its own.
            Box::pin(upstream_discovery.refresh(&self.nobody, wait())).await;
        }
        upstream_requester = upstream_discovery.effective_upstream_requester(&upstream_requester);
        if !upstream_discovery.is_current(&upstream_requester) {
            Box::pin(upstream_discovery.refresh(&upstream_requester, wait())).await;
        }
        upstream_discovery.close_unknown_list(&upstream_requester);
    }

    /// The same for a call that the gateway makes on its own account.
    ///
    /// Cancel safe.
    pub(crate) async fn refresh_for_gateway(&self, tool: &str) {
        let Some(entry) = self.catalog.entry(tool) else { return };
        let Some(upstream_discovery) = self.upstream_discoveries.get(&entry.contract.contract().binding.upstream)
        else {
            return;
        };
        if !upstream_discovery.is_current(&self.nobody) {
            upstream_discovery.refresh(&self.nobody, Duration::from_millis(WAIT_MS_MAX)).await;
        }
        upstream_discovery.close_unknown_list(&self.nobody);
    }

    /// Replaces the lock file, which holds the definitions that a person agreed to.
    pub fn adopt(&self, lock: LockFile) {
        for change in self.catalog.replace_lock(lock) {
            operator_log::log_change(&change);
            self.logged_objections.log_once(&change, &self.catalog);
        }
    }

    /// The definitions that a person agreed to; none if there is no lock file.
    pub fn agreed_lock(&self) -> Option<Arc<LockFile>> {
        self.catalog.lock_file()
    }

    /// Definitions that were seen for the first time and will be pinned as they are, by upstream.
    pub fn first_sights(&self) -> Vec<(String, Definition)> {
        self.catalog.first_sights()
    }

    /// Tools whose definitions no person has agreed to yet, by exposed name.
    pub fn waiting(&self) -> Vec<String> {
        let waits = |name: &str| {
            *self.catalog.standing(name, &self.nobody.capabilities) == ToolStanding::Held(ToolHold::Unpinned)
        };
        self.catalog.entries().map(|(name, _)| name).filter(|name| waits(name)).map(str::to_owned).collect()
    }

    /// Whether tools pass whose definitions no person has agreed to.
    pub fn passes_unpinned(&self) -> bool {
        self.catalog.passes_unpinned()
    }

    /// Waits until every upstream has answered once or could not be asked.
    pub async fn all_tried(&self) {
        for upstream_discovery in self.upstream_discoveries.values() {
            upstream_discovery.tried().await;
        }
    }

    /// Whether each upstream answers, by its id.
    pub fn reachability(&self) -> BTreeMap<String, UpstreamReachability> {
        self.upstream_discoveries.iter().map(|(id, known)| (id.clone(), known.reachability())).collect()
    }

    /// Follows an upstream until stopped: connects, asks, listens for changes, probes.
    pub fn follow(
        self: Arc<Self>,
        id: String,
        probe_interval: Duration,
        stop: CancellationToken,
    ) -> PortFuture<'static, ()> {
        Box::pin(async move {
            let Some(upstream_discovery) = self.upstream_discoveries.get(&id) else { return };
            let mut changes = upstream_discovery.changes();
            let mut retry = Duration::from_millis(RETRY_MS);
            let mut looked_for_missing = false;
            loop {
                changes.borrow_and_update();
                let asked = tokio::select! {
                    asked = upstream_discovery.ask(&self.nobody) => asked,
                    () = stop.cancelled() => return,
                };
                if asked && !looked_for_missing {
                    looked_for_missing = true;
                    tokio::select! {
                        () = upstream_discovery.report_missing() => {}
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
                // A server that announces changes all the time is asked once a second, not for every announcement.
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(ASK_INTERVAL_MS_MIN).min(probe_interval)) => {}
                    () = stop.cancelled() => return,
                }
                tokio::select! {
                    said = changes.changed() => {
                        if said.is_err() {
                            return;
                        }
                        self.catalog.mark_stale(&id);
                    }
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => return,
                }
            }
        })
    }
}
