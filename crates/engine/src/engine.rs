//! The engine as its owner and the doors see it: it makes the rooms and hands each request to one. What happens to a call is in `call`,
//! to everything else in `relay`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use servanda_catalog::{Catalog, CatalogError, Listing};
use servanda_contract::time::Clock;
use servanda_effects::{
    Journal, JournalError, Notebook,
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
    bridge::{Bridge, ClientSessions},
    budgets::{self, BudgetClient},
    cache::Cache,
    call::{self, Calls},
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
    quarantine::Quarantine,
    refused_calls::{RefusedCallLimits, RefusedCalls},
    relay::{self, InquiryRelay, announcements, subscriptions},
    world::{PresentWorld, World, WorldSnapshot, authorities::Authorities, discovery::Discovery, names},
};

/// News a slow listener may be behind with.
const NEWS_MAX: usize = 256;
/// How long a server has to hear how much it should log.
const LEVEL_MS_MAX: u64 = 10_000;

/// Takes calls through, and answers everything else.
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
    deferred: Arc<DeferredContext>,
    bridge: Arc<Bridge>,
    sessions: Arc<ClientSessions>,
    relay: Arc<InquiryRelay>,
    calls: Arc<Calls>,
}

/// What an engine is made of.
#[derive(Debug)]
pub struct EngineParts {
    /// Which tools exist and who performs them.
    pub world: World,
    /// Where calls are put on record.
    pub journal: Arc<dyn Journal>,
    /// What outlives the process.
    pub notebook: Arc<dyn Notebook>,
    /// Where what changes the world is kept.
    pub effects: Arc<dyn EffectStore>,
    /// Where budgets are kept.
    pub budgets: Arc<dyn BudgetStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How much is taken.
    pub limits: EngineLimits,
}

/// Where the engine keeps things.
pub(crate) struct Stores {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) notebook: Arc<dyn Notebook>,
    pub(crate) effects: Arc<dyn EffectStore>,
    pub(crate) budgets: Arc<dyn BudgetStore>,
}

/// How much the engine takes.
#[derive(Debug, Clone, Copy)]
pub struct EngineLimits {
    /// Of the arguments.
    pub gates: GateLimits,
    /// Of repair loops.
    pub repair: RepairLimits,
    /// Limits of refused calls.
    pub refused: RefusedCallLimits,
    /// Whether a store that may lose what it acknowledged is good enough for calls that cannot be repeated.
    pub accepts_lost_commits: bool,
    /// How long a caller waits for long work before it gets a handle, unless it says less itself; none if it waits for the end
    /// like any caller.
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
    async fn listing(&self, requester: &Requester) -> Arc<Listing> {
        let snapshot = self.core.snapshot();
        let listing =
            snapshot.discovery.listing(requester, |upstream| !snapshot.is_foreign(upstream, &requester.caller)).await;
        let listing = snapshot.visible_listing(listing, requester);
        if self.deferred.long_running.wait_ms_max.is_some() {
            snapshot.with_own_tools(listing, &requester.caller)
        } else {
            listing
        }
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

    async fn call(&self, request: CallRequest) -> CallAnswer {
        let detail = request.terms.detail;
        match (call::call(&self.calls, request).await, detail) {
            (CallAnswer::Result(result), AnswerDetail::Full) => {
                CallAnswer::Result(tool_result::with_full_detail(result))
            }
            (answer, _) => answer,
        }
    }

    async fn inquire(&self, inquiry: Inquiry) -> Result<InquiryAnswer, RpcError> {
        strict_json::check_terms(&inquiry.terms, self.core.gate_limits)?;
        strict_json::check_members("params", &inquiry.params, self.core.gate_limits)?;
        relay::inquire(&self.relay, inquiry).await
    }

    fn change_events(&self) -> broadcast::Receiver<ChangeEvent> {
        self.core.change_events.subscribe()
    }

    async fn watch(&self, requester: &Requester, uri: &str) -> Result<ResourceWatchGuard, RpcError> {
        subscriptions::watch(&self.relay, requester, uri).await
    }

    async fn known_tasks(&self, requester: &Requester, task_ids: Vec<String>) -> Vec<String> {
        upstream_tasks::visible_to(&self.deferred, requester, task_ids).await
    }

    async fn set_log_level(&self, requester: &Requester, level: &str) -> Result<(), RpcError> {
        let known = LogLevel::from_wire(level);
        let level = known.ok_or_else(|| invalid_params("`level` must be one of the protocol's log levels"))?;
        self.sessions.set_level(&requester.affinity, level);
        let upstream_requester = requester.upstream_requester();
        for member in self.core.snapshot().members_for(&requester.caller) {
            // Nobody waits for servers that may be slow or down; before the next request each is told anyway.
            let (sessions, member, upstream_requester) =
                (Arc::clone(&self.sessions), Arc::clone(member), upstream_requester.clone());
            tokio::spawn(async move {
                sessions.send_level(&member, &upstream_requester, Some(level), within_ms(LEVEL_MS_MAX)).await;
            });
        }
        Ok(())
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
    /// Puts an engine together.
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { world, journal, notebook, effects, budgets, clock, limits } = parts;
        let stores = Stores { journal, notebook, effects, budgets };
        Self::from_snapshot(WorldSnapshot::new(world, Arc::default()), stores, clock, limits)
    }

    pub(crate) fn from_snapshot(
        snapshot: WorldSnapshot,
        stores: Stores,
        clock: Arc<dyn Clock>,
        limits: EngineLimits,
    ) -> Self {
        let Stores { journal, notebook, effects, budgets } = stores;
        let world = Arc::new(PresentWorld::new(Arc::new(snapshot)));
        let in_flight = TaskTracker::new();
        let core = Arc::new(Core {
            quarantine: Quarantine::new(Arc::clone(&notebook), Arc::clone(&clock), Arc::clone(&world)),
            budget_client: Arc::new(BudgetClient::new(budgets, Arc::clone(&clock), in_flight.clone())),
            world,
            journal,
            notebook,
            effects,
            owner: OwnerId::new(),
            owner_lease: Arc::default(),
            in_flight_effects: Arc::default(),
            cache: Cache::default(),
            clock,
            gate_limits: limits.gates,
            refused_calls: RefusedCalls::new(limits.refused),
            in_flight,
            change_events: broadcast::Sender::new(NEWS_MAX),
            changes: watch::Sender::new(0),
            outbox: CallbackOutbox::default(),
            mutations: Arc::default(),
        });
        Self::assemble(core, limits)
    }

    /// The rooms around what they share.
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

    /// Works in another world from now on. Calls in flight end in the one they began in; an upstream that is in both should
    /// be the same handle in both, so that its connections stay. Those that are in none any more are the caller's to end.
    ///
    /// Names that agents heard in this world mean the same tools in the other, or nothing. Where that cannot be, this world
    /// stays. Not to be called twice at once.
    pub async fn replace(&self, world: World) -> Result<(), CatalogError> {
        let logged_objections = self.core.snapshot().discovery.logged_objections();
        self.replace_snapshot(WorldSnapshot::new(world, logged_objections)).await
    }

    pub(crate) async fn replace_snapshot(&self, snapshot: WorldSnapshot) -> Result<(), CatalogError> {
        let present = self.core.snapshot();
        let snapshot = snapshot.after_names(present.catalog.names())?;
        // Before anybody hears them.
        self.remember(&snapshot).await;
        self.install(snapshot);
        Ok(())
    }

    /// Has the store remember which tools the names of this world mean, for whoever comes after this process.
    pub async fn remember_names(&self) {
        self.remember(&self.core.snapshot()).await;
    }

    async fn remember(&self, snapshot: &WorldSnapshot) {
        names::remember(self.core.notebook.as_ref(), snapshot.catalog.names(), self.core.clock.now()).await;
    }

    pub(crate) fn install(&self, snapshot: WorldSnapshot) {
        let snapshot = Arc::new(snapshot);
        // Before the first call resolves in it; and after, because more may have become known meanwhile.
        self.core.quarantine.apply_to(&snapshot.catalog);
        let before = self.core.world.replace(Arc::clone(&snapshot));
        self.core.quarantine.apply_to(&snapshot.catalog);
        // An upstream of the same id may be another one by now.
        self.core.cache.clear();
        // The new world is followed before the old one is not: what both say is said twice, which harms nobody.
        announcements::follow(&self.relay, &snapshot);
        before.stop.cancel();
        self.sessions.attach_all(&self.bridge, &snapshot);
        subscriptions::watch_again(&self.relay, &snapshot);
        for news in [ChangeEvent::Tools, ChangeEvent::Prompts, ChangeEvent::Resources] {
            self.core.announce(news);
        }
    }

    /// Waits until every call has its answer and its record, but not longer than that. Calls whose caller has gone are
    /// waited for too: what was dispatched must be recorded. Nobody is asked anything any more.
    pub async fn drain(&self, wait_max: Duration) {
        self.bridge.close();
        self.core.in_flight.close();
        if tokio::time::timeout(wait_max, self.core.in_flight.wait()).await.is_err() {
            tracing::warn!(calls = self.core.in_flight.len(), "calls were still in flight when the engine had to end");
        }
    }

    /// How many calls have no answer and no record of their end yet.
    pub fn calls_in_flight(&self) -> usize {
        self.core.in_flight.len()
    }

    /// The ids of the effects that this process is dispatching or settling.
    pub fn effects_in_flight(&self) -> Vec<String> {
        self.core.in_flight_effects.ids().iter().map(ToString::to_string).collect()
    }

    /// Learns which tools are held back for what they did, or by a person. Called before the first call is taken; later on
    /// whoever says that this process is alive looks again.
    pub async fn recall_quarantine(&self) -> Result<(), JournalError> {
        self.core.quarantine.recall_first().await
    }

    /// Looks after effects until told to stop: says that this process is alive, and settles what others left behind.
    pub async fn recover_effects(&self, stop: CancellationToken) {
        recovery::run(&self.deferred.long_running, stop).await;
    }

    /// Gives back what this process leased of budgets and did not hand out. Called when no call is in flight any more.
    pub async fn return_budget_units(&self) {
        budgets::return_units(&self.core.budget_client).await;
    }

    /// Says that this process is alive until told to stop: enough for one that makes a single call.
    pub async fn send_heartbeats(&self, stop: CancellationToken) {
        recovery::send_heartbeats(&self.core, stop).await;
    }

    /// Tells callbacks of what ended until told to stop, what others left behind too.
    pub async fn deliver_callbacks(&self, transport: Arc<dyn CallbackTransport>, stop: CancellationToken) {
        deferred::deliver(&self.core, transport, CallbackRetryPolicy::default(), stop).await;
    }

    /// Which tools exist.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.core.snapshot().catalog)
    }

    /// What the operator lets whom do.
    pub fn authorities(&self) -> Arc<Authorities> {
        Arc::clone(&self.core.snapshot().authorities)
    }

    /// Keeps the catalog told.
    pub fn discovery(&self) -> Arc<Discovery> {
        Arc::clone(&self.core.snapshot().discovery)
    }

    /// Who performs them.
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
