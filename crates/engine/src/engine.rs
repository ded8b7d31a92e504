//! The engine as its owner and the doors see it: it builds the parts of the engine and hands each request to one of them. What happens to a
//! call is in `call`, what happens to everything else in `relay`.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use servanda_catalog::{Catalog, CatalogError, Listing};
use servanda_contract::time::Clock;
use servanda_effects::{
    Journal, JournalError, Notebook, PortFuture,
    budget::BudgetStore,
    effect::{EffectStore, OwnerId},
};
use servanda_gates::{GateLimits, repair::RepairLimits};
use servanda_mcp::{LogLevel, RpcError, fields::method};
use servanda_upstream::Upstream;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    answers::{refusals::invalid_params, tool_result},
    approval_notices,
    approvals::{ApprovalParts, Approvals},
    bridge::{Bridge, ClientSessions},
    budgets::{self, BudgetClient},
    cache::Cache,
    call::{self, Calls},
    call_observer::CallObserver,
    callbacks::{CallbackOutbox, CallbackRetryPolicy, CallbackTransport},
    client::{
        AnswerDetail, CallAnswer, CallRequest, ChangeEvent, ClientMessage, Inquiry, InquiryAnswer, Requester,
        ResourceWatchGuard, strict_json,
    },
    clock::within_ms,
    core::Core,
    deferred::{self, DeferredContext, recovery, upstream_tasks},
    gateway::Gateway,
    long_running::{LONG_WAIT_MS_MAX, LongWorkContext},
    outages::Outages,
    oversight::Oversight,
    quarantine::Quarantine,
    refused_calls::{RefusedCallLimits, RefusedCalls},
    relay::{self, InquiryRelay, announcements, subscriptions},
    world::{
        PresentWorld, World, WorldSnapshot, authorities::Authorities, discovery::Discovery, names, rules_in_force,
    },
};

/// The most events that a slow listener may be behind with.
const NEWS_MAX: usize = 256;
/// How long telling a server how much to log may take.
const LEVEL_MS_MAX: u64 = 10_000;

/// Takes calls through to their answers, and answers everything else.
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
    deferred: Arc<DeferredContext>,
    bridge: Arc<Bridge>,
    sessions: Arc<ClientSessions>,
    relay: Arc<InquiryRelay>,
    calls: Arc<Calls>,
}

/// What an engine is built from.
#[derive(Debug)]
pub struct EngineParts {
    /// Which tools exist and who performs them.
    pub world: World,
    /// Where calls are put on record.
    pub journal: Arc<dyn Journal>,
    /// What outlives the process.
    pub notebook: Arc<dyn Notebook>,
    /// Where effects are kept.
    pub effects: Arc<dyn EffectStore>,
    /// Where budgets are kept.
    pub budgets: Arc<dyn BudgetStore>,
    /// Where approvals are kept, and what signs them.
    pub approvals: ApprovalParts,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What the engine accepts at most.
    pub limits: EngineLimits,
}

/// The stores of the engine.
pub(crate) struct Stores {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) notebook: Arc<dyn Notebook>,
    pub(crate) effects: Arc<dyn EffectStore>,
    pub(crate) budgets: Arc<dyn BudgetStore>,
    pub(crate) approvals: ApprovalParts,
}

/// What the engine accepts at most.
#[derive(Debug, Clone, Copy)]
pub struct EngineLimits {
    /// Limits of arguments.
    pub gates: GateLimits,
    /// Limits of repair loops.
    pub repair: RepairLimits,
    /// Limits of refused calls.
    pub refused: RefusedCallLimits,
    /// Whether calls that cannot be repeated may rely on a store that may lose what it acknowledged.
    pub accepts_lost_commits: bool,
    /// How long a caller waits for long work before it gets a handle, unless the caller says less; none if callers wait for the end like
    /// for any call.
    pub long_wait_ms_max: Option<u64>,
}

impl Default for EngineLimits {
    fn default() -> Self {
        let gates = GateLimits { arguments_bytes_max: 1 << 20, arguments_depth_max: 64 };
        Self {
            gates,
            repair: RepairLimits::default(),
            refused: RefusedCallLimits::default(),
            accepts_lost_commits: false,
            long_wait_ms_max: Some(LONG_WAIT_MS_MAX),
        }
    }
}

impl Gateway for Engine {
    fn listing<'a>(&'a self, requester: &'a Requester) -> PortFuture<'a, Arc<Listing>> {
        Box::pin(async move {
            let snapshot = self.core.snapshot();
            let is_open = |upstream: &str| !snapshot.is_foreign(upstream, &requester.caller);
            let listing = snapshot.discovery.listing(requester, is_open).await;
            let listing = snapshot.visible_listing(listing, requester);
            let has_handles = self.deferred.long_running.wait_ms_max.is_some();
            snapshot.with_own_tools(listing, &requester.caller, has_handles)
        })
    }

    fn known_listing(&self, requester: &Requester) -> Arc<Listing> {
        let snapshot = self.core.snapshot();
        snapshot.visible_listing(snapshot.catalog.listing(requester.viewer()), requester)
    }

    fn whole_listing(&self, requester: &Requester) -> Arc<Listing> {
        self.core.snapshot().catalog.listing(requester.viewer())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.core.changes.subscribe()
    }

    fn call(&self, request: CallRequest) -> PortFuture<'_, CallAnswer> {
        Box::pin(async move {
            let detail = request.terms.detail;
            match (call::call(&self.calls, request).await, detail) {
                (CallAnswer::Result(result), AnswerDetail::Full) => {
                    CallAnswer::Result(tool_result::with_full_detail(result))
                }
                (answer, _) => answer,
            }
        })
    }

    fn inquire(&self, inquiry: Inquiry) -> PortFuture<'_, Result<InquiryAnswer, RpcError>> {
        Box::pin(async move {
            strict_json::check_terms(&inquiry.terms, self.core.gate_limits)?;
            strict_json::check_members("params", &inquiry.params, self.core.gate_limits)?;
            relay::inquire(&self.relay, inquiry).await
        })
    }

    fn change_events(&self) -> broadcast::Receiver<ChangeEvent> {
        self.core.change_events.subscribe()
    }

    fn watch<'a>(
        &'a self,
        requester: &'a Requester,
        uri: &'a str,
    ) -> PortFuture<'a, Result<ResourceWatchGuard, RpcError>> {
        Box::pin(subscriptions::watch(&self.relay, requester, uri))
    }

    fn known_tasks<'a>(&'a self, requester: &'a Requester, task_ids: Vec<String>) -> PortFuture<'a, Vec<String>> {
        Box::pin(upstream_tasks::visible_to(&self.deferred, requester, task_ids))
    }

    fn set_log_level<'a>(&'a self, requester: &'a Requester, level: &'a str) -> PortFuture<'a, Result<(), RpcError>> {
        Box::pin(async move {
            let known = LogLevel::from_wire(level);
            let level = known.ok_or_else(|| invalid_params("`level` must be one of the protocol's log levels"))?;
            self.sessions.set_level(&requester.affinity, level);
            let upstream_requester = requester.upstream_requester();
            for member in self.core.snapshot().members_for(&requester.caller) {
                // The caller does not wait for servers that may be slow or down; each server is told before the next request anyway.
                let (sessions, member, upstream_requester) =
                    (Arc::clone(&self.sessions), Arc::clone(member), upstream_requester.clone());
                tokio::spawn(async move {
                    sessions.send_level(&member, &upstream_requester, Some(level), within_ms(LEVEL_MS_MAX)).await;
                });
            }
            Ok(())
        })
    }

    fn roots_changed(&self, requester: &Requester) {
        let upstream_requester = requester.upstream_requester();
        for member in self.core.snapshot().members_for(&requester.caller) {
            member.server.notify(&upstream_requester, method::ROOTS_LIST_CHANGED, None);
        }
    }

    fn subscribe_session(&self, affinity: &str) -> mpsc::Receiver<ClientMessage> {
        self.sessions.subscribe(affinity, &self.bridge, &self.core.snapshot())
    }

    fn end_session(&self, affinity: &str) {
        self.sessions.end(affinity, &self.core.snapshot());
    }

    fn notebook(&self) -> Arc<dyn Notebook> {
        Arc::clone(&self.core.notebook)
    }
}

impl Engine {
    /// Builds an engine.
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { world, journal, notebook, effects, budgets, approvals, clock, limits } = parts;
        let stores = Stores { journal, notebook, effects, budgets, approvals };
        Self::from_snapshot(WorldSnapshot::new(world, Arc::default()), stores, clock, limits)
    }

    /// Retries that were made, retries that would not have been safe, and blind retries of callers, since the start.
    pub fn retry_counts(&self) -> (u64, u64, u64) {
        self.calls.retry_counters.counts()
    }

    /// Has finished calls measured from now on. The first observer stays.
    pub fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        let _ = self.core.observer.set(observer);
    }

    pub(crate) fn from_snapshot(
        snapshot: WorldSnapshot,
        stores: Stores,
        clock: Arc<dyn Clock>,
        limits: EngineLimits,
    ) -> Self {
        let Stores { journal, notebook, effects, budgets, approvals } = stores;
        let world = Arc::new(PresentWorld::new(Arc::new(snapshot)));
        let in_flight = TaskTracker::new();
        let core = Arc::new(Core {
            quarantine: Quarantine::new(Arc::clone(&notebook), Arc::clone(&clock), Arc::clone(&world)),
            budget_client: Arc::new(BudgetClient::new(budgets, Arc::clone(&clock), in_flight.clone())),
            world,
            journal,
            approvals: Arc::new(Approvals::new(approvals, Arc::clone(&notebook), Arc::clone(&clock))),
            notebook,
            effects,
            owner: OwnerId::new(),
            owner_lease: Arc::default(),
            in_flight_effects: Arc::default(),
            cache: Cache::default(),
            clock,
            gate_limits: limits.gates,
            refused_calls: RefusedCalls::new(limits.refused),
            outages: Outages::default(),
            in_flight,
            change_events: broadcast::Sender::new(NEWS_MAX),
            changes: watch::Sender::new(0),
            outbox: CallbackOutbox::default(),
            mutations: Arc::default(),
            observer: OnceLock::new(),
        });
        Self::assemble(core, limits)
    }

    /// Builds the parts of the engine around what they share.
    fn assemble(core: Arc<Core>, limits: EngineLimits) -> Self {
        let long_running = Arc::new(LongWorkContext::new(Arc::clone(&core), limits.long_wait_ms_max));
        let deferred = Arc::new(DeferredContext::new(long_running));
        let (notebook, clock) = (Arc::clone(&core.notebook), Arc::clone(&core.clock));
        let bridge = Arc::new(Bridge::new(notebook, clock, Arc::clone(&deferred.tasks)));
        let sessions = Arc::new(ClientSessions::default());
        let relay = Arc::new(InquiryRelay::new(Arc::clone(&deferred), Arc::clone(&bridge), Arc::clone(&sessions)));
        let calls = Calls::new(
            Arc::clone(&deferred),
            Arc::clone(&bridge),
            Arc::clone(&sessions),
            limits.repair,
            limits.accepts_lost_commits,
        );
        announcements::follow(&relay, &core.snapshot());
        Self { core, deferred, bridge, sessions, relay, calls: Arc::new(calls) }
    }

    /// Works in another world from now on. Calls in flight end in the world they began in. An upstream that is in both worlds should be the
    /// same handle in both, so that its connections stay. The caller of this function ends upstreams that are no longer used.
    ///
    /// Names that agents were given in this world mean the same tools in the other one, or nothing. If that is not possible, this world
    /// stays. Must not be called twice at once.
    pub fn replace(&self, world: World) -> PortFuture<'_, Result<(), CatalogError>> {
        let logged_objections = self.core.snapshot().discovery.logged_objections();
        Box::pin(self.replace_snapshot(WorldSnapshot::new(world, logged_objections)))
    }

    pub(crate) async fn replace_snapshot(&self, snapshot: WorldSnapshot) -> Result<(), CatalogError> {
        let present = self.core.snapshot();
        let snapshot = snapshot.after_names(present.catalog.names())?;
        // The names are stored before any agent reads them, and the log knows the rules before they decide.
        self.remember(&snapshot).await;
        self.install(snapshot);
        Ok(())
    }

    /// Stores which tools the names of this world mean, for the processes that come after this one, and tells the verifiable log which contracts
    /// and policies decide in it.
    pub async fn remember_world(&self) {
        self.remember(&self.core.snapshot()).await;
    }

    async fn remember(&self, snapshot: &WorldSnapshot) {
        let (notebook, now) = (self.core.notebook.as_ref(), self.core.clock.now());
        names::remember(notebook, snapshot.catalog.names(), now).await;
        rules_in_force::tell(notebook, &snapshot.catalog, &snapshot.authorities, now).await;
    }

    pub(crate) fn install(&self, snapshot: WorldSnapshot) {
        let snapshot = Arc::new(snapshot);
        // Applied before the first call resolves in it, and after, because more holds may have become known meanwhile.
        self.core.quarantine.apply_to(&snapshot.catalog);
        let before = self.core.world.replace(Arc::clone(&snapshot));
        self.core.quarantine.apply_to(&snapshot.catalog);
        // An upstream of the same id may be another server now.
        self.core.cache.clear();
        // The new world is followed before the old one is dropped: announcements of both may arrive twice, which is harmless.
        announcements::follow(&self.relay, &snapshot);
        before.stop.cancel();
        self.sessions.attach_all(&self.bridge, &snapshot);
        subscriptions::watch_again(&self.relay, &snapshot);
        for news in [ChangeEvent::Tools, ChangeEvent::Prompts, ChangeEvent::Resources] {
            self.core.announce(news);
        }
    }

    /// Waits until every call has its answer and its record, but no longer than `wait_max`. This includes calls whose callers have gone,
    /// because what was dispatched must be recorded. Clients are asked nothing any more.
    pub async fn drain(&self, wait_max: Duration) {
        self.bridge.close();
        self.core.in_flight.close();
        if tokio::time::timeout(wait_max, self.core.in_flight.wait()).await.is_err() {
            tracing::warn!(
                calls = self.core.in_flight.len(),
                "calls were still in flight when the engine had to shut down"
            );
        }
    }

    /// How many calls have no answer or no record of their end yet.
    pub fn calls_in_flight(&self) -> usize {
        self.core.in_flight.len()
    }

    /// The ids of the effects that this process is dispatching or settling.
    pub fn effects_in_flight(&self) -> Vec<String> {
        self.core.in_flight_effects.ids().iter().map(ToString::to_string).collect()
    }

    /// Reads which tools are held back for what they did, or by a person. Called before the first call is accepted; after that, the
    /// heartbeat reads it again.
    pub async fn recall_quarantine(&self) -> Result<(), JournalError> {
        self.core.quarantine.recall_first().await
    }

    /// Maintains effects until told to stop: tells the store that this process is alive, and settles what other processes left behind.
    pub fn recover_effects(&self, stop: CancellationToken) -> PortFuture<'_, ()> {
        Box::pin(recovery::run(&self.deferred.long_running, stop))
    }

    /// Gives back the budget units that this process leased and did not hand out. Called when no call is in flight any more.
    pub async fn return_budget_units(&self) {
        budgets::return_units(&self.core.budget_client).await;
    }

    /// Tells the store that this process is alive, until told to stop. Enough for a process that makes a single call.
    pub fn send_heartbeats(&self, stop: CancellationToken) -> PortFuture<'_, ()> {
        Box::pin(recovery::send_heartbeats(&self.core, stop))
    }

    /// Tells callbacks what ended, until told to stop. This includes what other processes left behind.
    pub fn deliver_callbacks(
        &self,
        transport: Arc<dyn CallbackTransport>,
        stop: CancellationToken,
    ) -> PortFuture<'_, ()> {
        Box::pin(deferred::deliver(&self.core, transport, CallbackRetryPolicy::default(), stop))
    }

    /// Ends tickets whose time is over and tells people about tickets, until told to stop.
    pub fn keep_time_of_tickets(&self, stop: CancellationToken) -> PortFuture<'_, ()> {
        Box::pin(approval_notices::keep_time(Arc::clone(&self.core), stop))
    }

    /// Goes on with calls that wait for people as tasks, until told to stop. Without this, no call becomes such a task.
    pub fn repeat_held_calls(&self, stop: CancellationToken) -> PortFuture<'_, ()> {
        Box::pin(call::repeat_held(&self.calls, stop))
    }

    /// The approvals: tickets, and people's decisions about them.
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.core.approvals
    }

    /// What people look at and do beside approvals.
    pub fn oversight(&self) -> Oversight<'_> {
        Oversight::new(&self.core)
    }

    /// The tools that exist.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.core.snapshot().catalog)
    }

    /// What the operator permits to whom.
    pub fn authorities(&self) -> Arc<Authorities> {
        Arc::clone(&self.core.snapshot().authorities)
    }

    /// Keeps the catalog up to date.
    pub fn discovery(&self) -> Arc<Discovery> {
        Arc::clone(&self.core.snapshot().discovery)
    }

    /// The upstreams that perform the tools.
    pub fn upstreams(&self) -> BTreeMap<String, Upstream> {
        self.core.snapshot().upstreams.clone()
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    #[cfg(test)]
    pub(crate) fn long_running(&self) -> &Arc<LongWorkContext> {
        &self.deferred.long_running
    }

    #[cfg(test)]
    pub(crate) fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    #[cfg(test)]
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }
}
