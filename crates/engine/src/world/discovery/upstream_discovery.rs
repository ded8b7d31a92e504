//! One upstream, and on which of its connections the list is current: it was asked for there, and no change was announced since.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_catalog::{Catalog, Inventory, RejectedDefinition, ToolStanding, Viewer, pins::Definition};
use servanda_contract::{Digest, digest::DigestDomain, shared::Shared};
use servanda_mcp::Era;
use servanda_upstream::{PerformFailure, ToolList, Upstream, UpstreamError, UpstreamRequester, UpstreamStatus};
use tokio::{sync::watch, time::Instant};

use super::{RETRY_MS, fully_capable_client, logged_objections::LoggedObjections, operator_log};

/// How long to wait for an upstream before the wait is logged.
const SLOW_MS: u64 = 3_000;
/// How many connections are remembered. When there are more, the oldest is asked again.
const EDITIONS_MAX: usize = 256;
/// How often in a row a list is asked for that changes while it is read.
const ROUNDS_MAX: usize = 5;
/// How many questions on behalf of clients run at once. A connection that hangs delays few others, and never the shared one.
const ASKING_MAX: usize = 16;

/// An upstream, and what is known about it.
#[derive(Debug)]
pub(super) struct UpstreamDiscovery {
    id: String,
    upstream: Upstream,
    catalog: Arc<Catalog>,
    /// Counts the changes that may affect the upstream's lists.
    changes: watch::Receiver<u64>,
    /// Held while the upstream is asked on behalf of a client, so that a thousand calls ask once and no old answer comes after a new one.
    /// The first one is for the shared connection.
    asking: [tokio::sync::Mutex<()>; ASKING_MAX],
    hashing: RandomState,
    state: Mutex<DiscoveryState>,
    logged_objections: Arc<LoggedObjections>,
    /// Whether the common list was asked for once: the upstream answered, or it could not be asked.
    tried: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct DiscoveryState {
    /// The change count at the time when a list was asked for, by connection.
    editions: BTreeMap<u64, u64>,
    /// The requester and the time of the last failure.
    failed: Option<(UpstreamRequester, Instant)>,
    /// The last list, so that an identical one is not parsed again.
    last: Option<(Digest, Arc<Inventory>)>,
}

/// Whether an upstream answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamReachability {
    /// It answered the last question.
    Yes,
    /// It could not be asked, for this reason.
    No(String),
    /// It was asked and has not answered yet.
    NotYet,
}

impl UpstreamDiscovery {
    pub(super) fn new(
        id: String,
        upstream: Upstream,
        catalog: Arc<Catalog>,
        logged_objections: Arc<LoggedObjections>,
    ) -> Self {
        let changes = upstream.changes();
        Self {
            id,
            upstream,
            catalog,
            changes,
            asking: Default::default(),
            hashing: RandomState::new(),
            state: Mutex::default(),
            logged_objections,
            tried: watch::Sender::new(false),
        }
    }

    /// Waits until the upstream has answered once or could not be asked.
    pub(super) async fn tried(&self) {
        // This never fails: the sender is a field of this value.
        let _ = self.tried.subscribe().wait_for(|tried| *tried).await;
    }

    /// Whether it answered the last question.
    pub(super) fn reachability(&self) -> UpstreamReachability {
        match self.catalog.unreachable_reason(&self.id) {
            Some(why) => UpstreamReachability::No(why),
            None if *self.tried.borrow() => UpstreamReachability::Yes,
            None => UpstreamReachability::NotYet,
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.upstream.changes()
    }

    /// Whether the upstream may offer this client something else than others. A legacy server knows the client by a separate connection.
    /// A modern server learns the client's capabilities with every request, and its list is the same for all.
    pub(super) fn has_own_list(&self, upstream_requester: &UpstreamRequester) -> bool {
        self.upstream.has_own_connection(upstream_requester)
    }

    /// The requester that the server takes a client for: what it offers to that requester, it offers to the client. If a server of both
    /// eras no longer knows legacy clients, what it offered to them is forgotten.
    pub(super) fn effective_upstream_requester(&self, upstream_requester: &UpstreamRequester) -> UpstreamRequester {
        let known = self.upstream.connection_requester(upstream_requester);
        if upstream_requester.era == Era::Legacy && known.era == Era::Modern && self.is_modern() {
            self.catalog.forget_profiles(&self.id, Era::Legacy);
        }
        known
    }

    /// Whether every user has a separate connection, in any era.
    pub(super) fn is_personal(&self) -> bool {
        self.upstream.is_personal()
    }

    /// Whether the server has not been reached yet.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.upstream.status(), UpstreamStatus::NotConnected | UpstreamStatus::Connecting)
    }

    /// Whether the server's era is known.
    pub(super) fn knows_era(&self) -> bool {
        self.upstream.known_era().is_some()
    }

    /// Whether the list was asked for on the connection that such a request would use now, and no change was announced since.
    pub(super) fn is_current(&self, upstream_requester: &UpstreamRequester) -> bool {
        let changes = *self.changes.borrow();
        let edition = self.upstream.edition(upstream_requester);
        edition.is_some_and(|edition| self.state().editions.get(&edition) == Some(&changes))
    }

    /// Closes a connection to calls while its list is unknown, if a person agreed to definitions. The upstream checks this before each
    /// call, so it also holds for connections that are made later.
    pub(super) fn close_unknown_list(&self, upstream_requester: &UpstreamRequester) {
        let guarded = self.catalog.is_guarded();
        self.upstream.require_judged(guarded);
        if guarded
            && let Some(edition) = self.upstream.edition(upstream_requester)
            && !self.is_current(upstream_requester)
        {
            self.upstream.set_judged(upstream_requester, edition, false);
        }
    }

    /// Asks until the list is current: many servers announce a change right after they were asked, while they start. It stops when asking
    /// has just failed, or when the time is over; then the last known list stays in use.
    pub(super) async fn refresh(&self, upstream_requester: &UpstreamRequester, wait: Duration) {
        let refreshed = async {
            let _asking = self.lock_asking(upstream_requester).await;
            for _ in 0..ROUNDS_MAX {
                if self.failed_just_now(upstream_requester) || self.is_current(upstream_requester) {
                    return;
                }
                self.ask_now(upstream_requester).await;
            }
        };
        let _ = tokio::time::timeout(wait, refreshed).await;
    }

    /// Asks for the list and informs the catalog. Returns whether there was an answer.
    pub(super) async fn ask(&self, upstream_requester: &UpstreamRequester) -> bool {
        let _asking = self.lock_asking(upstream_requester).await;
        let mut answered = std::pin::pin!(self.ask_now(upstream_requester));
        if let Ok(answered) = tokio::time::timeout(Duration::from_millis(SLOW_MS), &mut answered).await {
            return answered;
        }
        let wait_s_max = self.upstream.spec().limits.connect_ms_max / 1_000;
        match self.reachability() {
            // Many servers take a while to start. Those that have not answered when the gateway is ready are named then.
            UpstreamReachability::NotYet => {
                tracing::info!(upstream = %self.id, wait_s_max, "the upstream has not answered yet; the gateway waits for it");
            }
            UpstreamReachability::Yes => {
                tracing::warn!(upstream = %self.id, wait_s_max, "the upstream does not answer; the gateway waits for it");
            }
            // It was already logged that it does not answer.
            UpstreamReachability::No(_) => {}
        }
        answered.await
    }

    /// Logs the tools that have a contract but are offered to no client. A legacy server that hides such tools from the common client is
    /// asked once more, on behalf of a client with all capabilities. That list decides nothing.
    ///
    /// Cancel safe.
    pub(super) async fn report_missing(&self) {
        let mut missing = self.withdrawn();
        let anybody = fully_capable_client();
        if missing.is_empty() {
            return;
        }
        if self.has_own_list(&anybody) {
            let listed = self.upstream.tools(&anybody).await;
            self.upstream.release(&anybody.affinity);
            // Without an answer there is nothing to report.
            let Ok(list) = listed else { return };
            missing.retain(|(_, own_name)| list.tools.iter().all(|tool| tool.name != *own_name));
        }
        operator_log::log_missing(&self.id, &missing.into_iter().map(|(tool, _)| tool).collect::<Vec<_>>());
    }

    /// The exposed names and own names of the tools that clients without capabilities are not offered.
    fn withdrawn(&self) -> Vec<(String, String)> {
        let nobody = UpstreamRequester::gateway().capabilities;
        let bindings = self.catalog.entries().map(|(name, entry)| (name, &entry.contract.contract().binding));
        let own = bindings.filter(|(_, binding)| binding.upstream == self.id);
        let gone = own.filter(|(name, _)| *self.catalog.standing(name, &nobody) == ToolStanding::Withdrawn);
        gone.map(|(name, binding)| (name.to_owned(), binding.tool.clone())).collect()
    }

    fn is_modern(&self) -> bool {
        self.upstream.known_era() == Some(Era::Modern)
    }

    async fn lock_asking(&self, upstream_requester: &UpstreamRequester) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let others = ASKING_MAX as u64 - 1;
        let own = self.is_on_behalf(upstream_requester);
        let place = if own { 1 + self.hashing.hash_one(upstream_requester) % others } else { 0 };
        let turn = usize::try_from(place).ok().and_then(|place| self.asking.get(place))?;
        Some(turn.lock().await)
    }

    /// Whether the question is on behalf of one client or user, and not for the common list.
    fn is_on_behalf(&self, upstream_requester: &UpstreamRequester) -> bool {
        upstream_requester.capabilities.answers_anything()
            || upstream_requester.era == Era::Legacy
            || (self.is_personal() && upstream_requester.on_behalf_of.is_some())
    }

    fn failed_just_now(&self, upstream_requester: &UpstreamRequester) -> bool {
        let recent = |at: &Instant| at.elapsed() < Duration::from_millis(RETRY_MS);
        self.state().failed.as_ref().is_some_and(|(whose, at)| whose == upstream_requester && recent(at))
    }

    async fn ask_now(&self, upstream_requester: &UpstreamRequester) -> bool {
        // The count is read before asking: a change during the answer must be asked for again.
        let changes = *self.changes.borrow();
        let answered = self.upstream.tools(upstream_requester).await;
        let is_somebodys = self.is_on_behalf(upstream_requester);
        let answered = match answered {
            Ok(list) => {
                self.take_list(upstream_requester, &list, changes);
                true
            }
            Err(error) => {
                let first = self.state().failed.replace((upstream_requester.clone(), Instant::now())).is_none();
                // A failure on behalf of one client says nothing about the others.
                if !is_somebodys {
                    // The connection itself logs that its server cannot be reached; a second line would repeat it.
                    let is_news = (first || self.catalog.unreachable_reason(&self.id).is_none())
                        && !matches!(error, UpstreamError::Page(PerformFailure::Unavailable { .. }));
                    if is_news {
                        tracing::warn!(upstream = %self.id, %error, "the upstream could not be asked for its tools");
                    }
                    self.catalog.mark_unreachable(&self.id, &error.to_string());
                }
                false
            }
        };
        if !is_somebodys {
            self.tried.send_replace(true);
        }
        answered
    }

    fn take_list(&self, upstream_requester: &UpstreamRequester, list: &ToolList, changes: u64) {
        let digest = digest(list);
        let before = self.state().last.clone();
        let inventory = match before {
            Some((known, inventory)) if known == digest => inventory,
            _ => {
                let inventory = Arc::new(read_inventory(list, |definition| self.catalog.unify(&self.id, definition)));
                operator_log::log_rejected(&self.id, &inventory);
                inventory
            }
        };
        if self.is_modern() {
            // The lists that single modern clients got while this was a legacy server no longer apply.
            self.catalog.forget_profiles(&self.id, Era::Modern);
        }
        // A server that turned out not to accept the legacy handshake was asked in the modern era.
        let known = if self.is_modern() {
            self.effective_upstream_requester(upstream_requester)
        } else {
            upstream_requester.clone()
        };
        let viewer = Viewer { era: known.era, capabilities: &known.capabilities };
        let turned = self.catalog.observe(&self.id, viewer, &inventory);
        for change in &turned {
            operator_log::log_change(change);
            self.logged_objections.log_once(change, &self.catalog);
        }
        let mut memory = self.state();
        memory.last = Some((digest, inventory));
        memory.failed = None;
        // If a tool's standing changed on one connection, it may have changed on all of them.
        if turned.iter().any(|change| !(change.before.is_open() && change.now.is_open())) {
            memory.editions.clear();
        }
        let Some(edition) = list.edition else { return };
        if memory.editions.len() >= EDITIONS_MAX {
            memory.editions.pop_first();
        }
        memory.editions.insert(edition, changes);
        drop(memory);
        self.upstream.set_judged(upstream_requester, edition, true);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, DiscoveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses a list definition by definition; `share` gets each as soon as it is parsed.
pub(super) fn read_inventory(list: &ToolList, share: impl FnMut(&mut Shared<Definition>)) -> Inventory {
    let listed = list.tools.iter().map(|tool| (tool.name.as_str(), tool.definition.get()));
    let mut inventory = Inventory::read_each(listed, share);
    let nameless = list.rejected.iter().map(|rejected| RejectedDefinition {
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
    Digest::compute(DigestDomain::Definition, &parts)
}
