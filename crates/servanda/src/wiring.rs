//! Assembles a gateway from its configuration: contracts, upstreams, ledger, engine. `ending` closes it again.

mod catalogs;
pub(crate) mod checkpoints;
mod command_notebook;
mod ending;
mod health;
mod metrics;
pub(crate) mod people;
pub(crate) mod preflight;
pub(crate) mod reload;
pub(crate) mod remembered_names;
pub(crate) mod survey;
mod telemetry;
mod upkeep;
mod upstream_set;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use servanda_authn::{AuthnSettings, CredentialAuthenticator, log_key::LogKeyStore};
use servanda_catalog::Catalog;
use servanda_config::{CredentialConfig, LoadedConfig};
use servanda_effects::Notebook;
use servanda_engine::{
    Authorities, Engine, EngineLimits, EngineParts, RefusedCallLimits, SystemClock, World,
    approvals::ApprovalParts,
    callbacks::{ANSWER_MS_MAX, Callbacks},
};
use servanda_gates::{GateLimits, repair::RepairLimits};
use servanda_ledger::{Ledger, LedgerSchemaPolicy, Migration};
use servanda_upstream::{Upstream, WebhookClient};
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::TaskTracker,
};

use self::{
    catalogs::{bad_names, catalog_by, named_as_before},
    checkpoints::LogProgress,
    health::LedgerHealth,
    metrics::GatewayMetrics,
    preflight::Preflight,
    telemetry::{CallTelemetry, SpanExport},
    upkeep::CurrentRetention,
    upstream_set::with_credentials,
};
pub(crate) use self::{
    catalogs::{catalog, hold_quarantined},
    ending::UnfinishedWork,
    upstream_set::{notebook_for_command, upstreams},
};
use crate::{
    contracts::{
        self,
        lock::{self, LockFileWatcher},
    },
    credentials,
    failure::CommandFailure,
    policies,
};

/// How long a starting gateway waits for its upstreams before it is ready without those that have not answered.
const FIRST_ANSWERS_MS_MAX: u64 = 10_000;

/// An assembled gateway.
#[derive(Debug)]
pub(crate) struct AssembledGateway {
    /// Runs calls.
    pub engine: Arc<Engine>,
    /// Checks credentials at the HTTP door.
    pub authenticator: Arc<CredentialAuthenticator>,
    /// Where the HTTP door is, once it is open.
    door: OnceLock<SocketAddr>,
    ledger: Arc<Ledger>,
    /// How long the ledger keeps finished calls.
    retention: CurrentRetention,
    /// What belongs to the current configuration.
    epoch: Mutex<ConfigEpoch>,
    followers: TaskTracker,
    stop: CancellationToken,
    /// Cancelled when this process has nothing more to settle.
    ledger_closes: CancellationToken,
    /// Cancelled when every upstream has answered or is known not to, or when the wait for them is over.
    asked: CancellationToken,
    /// Signs the verifiable log.
    log_key: Arc<LogKeyStore>,
    /// Exports spans. A reload does not change it.
    span_export: SpanExport,
    /// How far the verifiable log is.
    log_progress: Arc<LogProgress>,
    /// Counts calls, if the configuration wants that. A reload does not change it.
    metrics: Option<Arc<GatewayMetrics>>,
    /// What the engine hands finished calls to.
    telemetry: Weak<CallTelemetry>,
    /// How long an unused session is kept. A reload does not change it.
    pub session_idle_ms_max: u64,
}

/// What belongs to one configuration and ends with it.
#[derive(Debug)]
struct ConfigEpoch {
    lock: Arc<LockFileWatcher>,
    probe_interval: Duration,
    /// The credentials of each upstream.
    shown: BTreeMap<String, Vec<CredentialConfig>>,
    stop: CancellationToken,
}

impl AssembledGateway {
    /// Assembles a gateway. Nothing is started or connected yet, and an error leaves nothing half done. `schema` says what to do with a
    /// ledger of an earlier version; `door` is the address for callers over HTTP, if there is one.
    pub(crate) async fn assemble(
        loaded: &LoadedConfig,
        schema: LedgerSchemaPolicy,
        door: Option<SocketAddr>,
    ) -> Result<Self, CommandFailure> {
        // Read once, because contracts share the schemas of the pins.
        let pins = lock::pins(loaded)?;
        let contracts = contracts::load_with(loaded, pins.lock.as_deref())?;
        let read = Preflight::read(loaded, contracts, pins, door)?;
        let Preflight { catalog, callbacks, authorities, ledger, upstreams, traces } = read;
        let metrics = GatewayMetrics::begin(&loaded.config.telemetry.metrics);
        let (telemetry, span_export) =
            CallTelemetry::start(metrics.as_ref().map(|metrics| metrics.counted.clone()), traces)?;
        let measuring = Arc::downgrade(&telemetry);
        let ledger = ledger.open_with(schema).await?;
        limit(&ledger, loaded).await;
        let notebook: Arc<dyn Notebook> = ledger.clone();
        let catalog = named_as_before(catalog, notebook.as_ref()).await?;
        let upstreams = with_credentials(loaded, upstreams, &notebook)?;
        let world = world(loaded, catalog, upstreams, callbacks, authorities);
        let engine = Engine::new(engine_parts(loaded, &ledger, world));
        engine.observe_calls(telemetry);
        engine.remember_world().await;
        // Quarantined tools are known before the first call, so that none of their calls passes.
        if let Err(error) = engine.recall_quarantine().await {
            ledger.close().await;
            let read = format!("which tools are held back cannot be read: {}", error.reason());
            return Err(CommandFailure::failed(read).hint("nothing was started; `servanda doctor` looks at the ledger"));
        }
        let authenticator = match authenticator(loaded, &ledger) {
            Ok(authenticator) => Arc::new(authenticator),
            Err(failure) => {
                ledger.close().await;
                return Err(failure);
            }
        };
        let (stop, ledger_closes) = (CancellationToken::new(), CancellationToken::new());
        let epoch = Mutex::new(ConfigEpoch::new(loaded, &engine, &stop));
        let (engine, followers) = (Arc::new(engine), TaskTracker::new());
        if let Some(metrics) = &metrics {
            metrics.know(&engine);
        }
        let session_idle_ms_max = loaded.config.limits.session_idle_ms_max;
        let retention = CurrentRetention::new(loaded.config.retention.retention());
        Ok(Self {
            log_key: Arc::new(credentials::log_key(loaded, ledger.clone())),
            span_export,
            log_progress: Arc::default(),
            metrics,
            telemetry: measuring,
            engine,
            authenticator,
            door: OnceLock::new(),
            ledger,
            retention,
            epoch,
            followers,
            stop,
            ledger_closes,
            asked: CancellationToken::new(),
            session_idle_ms_max,
        })
    }

    /// Applies the configuration's admission terms at that address. On an error the earlier terms stay.
    pub(crate) fn admit_at(&self, loaded: &LoadedConfig, address: SocketAddr) -> Result<(), CommandFailure> {
        self.authenticator.replace(loaded.admission_terms(address, &self.engine.catalog())?);
        // Set only once, because a gateway has one HTTP door.
        let _ = self.door.set(address);
        Ok(())
    }

    /// The notebook in this gateway's ledger.
    pub(crate) fn notebook(&self) -> &dyn Notebook {
        self.ledger.as_ref()
    }

    /// The health that health checks report.
    pub(crate) fn health(&self, configuration: Option<String>) -> LedgerHealth {
        LedgerHealth {
            ledger: Arc::clone(&self.ledger),
            engine: Arc::clone(&self.engine),
            authenticator: Arc::clone(&self.authenticator),
            asked: self.asked.clone(),
            configuration,
        }
    }

    /// Ends when every upstream has answered or is known not to, or when the wait for them is over.
    pub(crate) fn upstreams_asked(&self) -> WaitForCancellationFutureOwned {
        self.asked.clone().cancelled_owned()
    }

    /// How the ledger was migrated, if it was.
    pub(crate) fn migration(&self) -> Option<&Migration> {
        self.ledger.migration()
    }

    /// Signals that this process is alive, so that no other process takes over its effects, until its ledger is closed.
    pub(crate) fn stay_alive(&self) {
        let (engine, over) = (Arc::clone(&self.engine), self.ledger_closes.clone());
        tokio::spawn(async move { engine.send_heartbeats(over).await });
    }

    /// Settles effects that other processes left behind.
    fn look_after_effects(&self) {
        let (engine, stop) = (Arc::clone(&self.engine), self.stop.clone());
        self.followers.spawn(async move { engine.recover_effects(stop).await });
    }

    /// Ends tickets whose time is over, and goes on with calls that wait for people as tasks.
    fn follow_tickets(&self) {
        let (engine, stop) = (Arc::clone(&self.engine), self.stop.clone());
        self.followers.spawn(async move { engine.keep_time_of_tickets(stop).await });
        let (engine, stop) = (Arc::clone(&self.engine), self.stop.clone());
        self.followers.spawn(async move { engine.repeat_held_calls(stop).await });
    }

    /// Sends callbacks about ended work.
    fn deliver_callbacks(&self) {
        let (engine, stop) = (Arc::clone(&self.engine), self.stop.clone());
        match WebhookClient::new(ANSWER_MS_MAX) {
            Ok(post) => {
                self.followers.spawn(async move { engine.deliver_callbacks(Arc::new(post), stop).await });
            }
            Err(error) => tracing::error!(%error, "callbacks are not delivered by this process"),
        }
    }

    /// Connects to every upstream and keeps the catalog up to date with what each offers. An upstream that is down delays nothing.
    pub(crate) fn follow_upstreams(&self) {
        self.follow_epoch();
        let (discovery, asked, stop) = (self.engine.discovery(), self.asked.clone(), self.stop.clone());
        self.followers.spawn(async move {
            let _done = asked.drop_guard();
            let tried = tokio::time::timeout(Duration::from_millis(FIRST_ANSWERS_MS_MAX), discovery.all_tried());
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tried => {}
            }
        });
        self.stay_alive();
        self.look_after_effects();
        self.deliver_callbacks();
        self.follow_tickets();
        let (ledger, retention, stop) = (self.ledger.clone(), self.retention.clone(), self.stop.clone());
        self.followers.spawn(upkeep::remove_what_is_over(ledger, retention, stop));
        let (ledger, key, stop) = (self.ledger.clone(), self.log_key.clone(), self.stop.clone());
        self.followers.spawn(checkpoints::sign_checkpoints(ledger, key, self.log_progress.clone(), stop));
    }

    /// Switches to another configuration; on an error everything stays as it was. Running calls end in the world they began in. An upstream
    /// with an unchanged configuration keeps its connections; any other is ended after its last call.
    pub(crate) async fn reload(&self, loaded: &LoadedConfig) -> Result<(), CommandFailure> {
        let pins = lock::pins_after(loaded, self.engine.discovery().agreed_lock())?;
        let contracts = contracts::load_with(loaded, pins.lock.as_deref())?;
        let catalog = Arc::new(catalog_by(loaded, contracts, pins)?);
        let callbacks = Arc::new(loaded.callbacks()?);
        let notebook: Arc<dyn Notebook> = self.ledger.clone();
        let before = self.engine.upstreams();
        let mut upstreams = BTreeMap::new();
        for (id, config) in &loaded.config.upstreams {
            let spec = loaded.upstream(id, config)?;
            let shown_as_before = self.epoch().shown.get(id) == Some(&config.credential);
            let kept = before.get(id).filter(|upstream| *upstream.spec() == spec && shown_as_before).cloned();
            let upstream = match kept {
                Some(kept) => kept,
                None => credentials::upstream(loaded, config, spec, notebook.clone())?,
            };
            upstreams.insert(id.clone(), upstream);
        }
        let terms = self.door.get().map(|address| loaded.admission_terms(*address, &catalog)).transpose()?;
        let authorities = authorities(loaded, &catalog, self.door.get().copied())?;
        let next = world(loaded, catalog, upstreams, callbacks, authorities);
        self.engine.replace(next).await.map_err(|error| bad_names(&error))?;
        if let Some(terms) = terms {
            self.authenticator.replace(terms);
        }
        self.retention.replace(loaded.config.retention.retention());
        limit(&self.ledger, loaded).await;
        self.ledger.switch_log(loaded.config.audit.log);
        let next = ConfigEpoch::new(loaded, &self.engine, &self.stop);
        let former = std::mem::replace(&mut *self.epoch(), next);
        former.stop.cancel();
        self.follow_epoch();
        Ok(())
    }

    fn follow_epoch(&self) {
        let epoch = self.epoch();
        let discovery = self.engine.discovery();
        for id in self.engine.upstreams().into_keys() {
            self.followers.spawn(Arc::clone(&discovery).follow(id, epoch.probe_interval, epoch.stop.clone()));
        }
        self.followers.spawn(epoch.lock.clone().watch(epoch.probe_interval, epoch.stop.clone()));
    }

    fn epoch(&self) -> MutexGuard<'_, ConfigEpoch> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConfigEpoch {
    fn new(loaded: &LoadedConfig, engine: &Engine, stop: &CancellationToken) -> Self {
        Self {
            lock: Arc::new(LockFileWatcher::new(loaded, engine.discovery())),
            probe_interval: Duration::from_millis(loaded.config.limits.probe_interval_ms),
            shown: loaded.config.upstreams.iter().map(|(id, config)| (id.clone(), config.credential.clone())).collect(),
            stop: stop.child_token(),
        }
    }
}

/// What authenticates callers and people; for now as on one machine, until a door says otherwise.
fn authenticator(loaded: &LoadedConfig, ledger: &Arc<Ledger>) -> Result<CredentialAuthenticator, CommandFailure> {
    let (clock, keys) = (Arc::new(SystemClock), credentials::sealing_keys(loaded));
    let authenticator = CredentialAuthenticator::new(ledger.clone(), clock, keys, AuthnSettings::Local)
        .map_err(|error| CommandFailure::failed(format!("no HTTP client can be made: {error}")))?;
    Ok(authenticator.with_client_secrets(credentials::client_secrets(loaded)))
}

/// Applies the limits of a configuration to the ledger. If its size cannot be read now, it is read again with every heartbeat.
async fn limit(ledger: &Ledger, loaded: &LoadedConfig) {
    if let Err(error) = ledger.set_limits(loaded.config.ledger_limits.limits()).await {
        tracing::warn!(%error, "the size of the ledger could not be measured");
    }
}

/// The parts of an engine on that ledger.
fn engine_parts(loaded: &LoadedConfig, ledger: &Arc<Ledger>, world: World) -> EngineParts {
    let notebook: Arc<dyn Notebook> = ledger.clone();
    EngineParts {
        world,
        journal: ledger.clone(),
        approvals: ApprovalParts {
            tickets: ledger.clone(),
            keys: credentials::attestation_keys(loaded, Arc::clone(&notebook)),
        },
        notebook,
        effects: ledger.clone(),
        budgets: ledger.clone(),
        clock: Arc::new(SystemClock),
        limits: engine_limits(loaded),
    }
}

/// Assembles the world of a configuration from its parts.
fn world(
    loaded: &LoadedConfig,
    catalog: Arc<Catalog>,
    upstreams: BTreeMap<String, Upstream>,
    callbacks: Arc<Callbacks>,
    authorities: Arc<Authorities>,
) -> World {
    let (naming, expectations) = (loaded.config.naming(), loaded.config.expectations());
    World { catalog, upstreams, naming, expectations, callbacks, authorities, allowances: loaded.config.allowances() }
}

/// The policies for the tools of a catalog. They are read before anything is built, because an invalid policy refuses the start.
fn authorities(
    loaded: &LoadedConfig,
    catalog: &Catalog,
    door: Option<SocketAddr>,
) -> Result<Arc<Authorities>, CommandFailure> {
    let contracts = catalog.entries().map(|(_, entry)| &*entry.contract);
    policies::authorities(loaded, contracts, door.map(policies::console_url)).map(Arc::new)
}

fn engine_limits(loaded: &LoadedConfig) -> EngineLimits {
    let limits = &loaded.config.limits;
    EngineLimits {
        gates: GateLimits {
            arguments_bytes_max: limits.arguments_bytes_max,
            arguments_depth_max: limits.arguments_depth_max,
        },
        repair: RepairLimits { attempts_max: limits.repair_attempts_max, ..RepairLimits::default() },
        refused: RefusedCallLimits {
            calls_per_minute_max: limits.refused_calls_per_minute_max.max(1),
            records_per_day_max: limits.refused_records_per_day_max.max(1),
        },
        accepts_lost_commits: loaded.config.accepts_lost_commits,
        long_wait_ms_max: loaded.config.long_work.wait_ms_max,
    }
}
