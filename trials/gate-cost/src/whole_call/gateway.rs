//! A gateway as `servanda serve` puts it together by default: one pinned tool with an admitted contract, the built-in policies, callers of
//! this machine, a ledger in SQLite with its position file. Left out is what runs beside calls by the clock: beats, upkeep, callbacks, the tree and
//! the checkpoints of the verifiable log. Calls are counted for `/metrics`.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use servanda_authn::{AuthnSettings, CredentialAuthenticator, root_keys::SealingKeySource};
use servanda_authority::sealing::SealingKey;
use servanda_catalog::{
    Catalog,
    inference::definition_layer,
    names::ExposedNaming,
    pins::{Definition, LockFile, PinPolicy, Pins},
};
use servanda_contract::{
    CallRecord, Timestamp,
    expectation::Expectations,
    layers::{ContractLayers, Defaults},
    record::ContractReference,
};
use servanda_doors::{HttpOptions, ServerIdentity, ServingOptions, http};
use servanda_effects::{Journal, JournalError, PortFuture};
use servanda_engine::{
    Authorities, CallObserver, Engine, EngineLimits, EngineParts, SystemClock, World,
    approvals::{ApprovalParts, EphemeralAttestationKeys},
    callbacks::Callbacks,
};
use servanda_gates::{CompiledContract, RegisteredContracts, admit};
use servanda_ledger::{Ledger, LedgerGuard};
use servanda_telemetry::metrics::{ContractFactSource, ContractFacts, Metrics, SERIES_MAX};
use servanda_upstream::{Transport, Upstream, UpstreamName, UpstreamSpec};
use tokio::{
    io::{DuplexStream, duplex},
    sync::mpsc,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Era, Tally, pipe::PIPE_BYTES, server};

/// The tool, as clients call it.
pub(super) const TOOL: &str = "company__read_query";
const UPSTREAM: &str = "company";

/// Longer than everything takes under callgrind, so that no time runs out.
const PATIENCE_MS: u64 = 600_000;

#[derive(Debug)]
pub(super) struct Gateway {
    ledger: Arc<Ledger>,
    /// Calls that the server was asked for.
    performed: Arc<Tally>,
    /// Calls that were put on record.
    recorded: Arc<Tally>,
    _stop: DropGuard,
}

impl Gateway {
    /// Opens a gateway between a client and a server of that era, and says where the client speaks to it.
    pub(super) async fn open(era: Era, is_logged: bool, folder: &Path) -> (Self, DuplexStream) {
        let (stop, performed, recorded) = (CancellationToken::new(), Arc::<Tally>::default(), Arc::<Tally>::default());
        let ledger = ledger(folder);
        ledger.switch_log(is_logged);
        let (listener, connections) = mpsc::channel(server::BACKLOG);
        tokio::spawn(server::answer_all(connections, era, Arc::clone(&performed)));
        let url = "http://company.test/mcp".to_owned();
        let transport = Transport::Http { url, headers: BTreeMap::new() };
        let spec = UpstreamSpec {
            id: UpstreamName::from(UPSTREAM),
            transport,
            limits: servanda_upstream::UpstreamLimits::default(),
        };
        let upstream = Upstream::in_process(spec, ledger.clone(), listener);
        let journal = OneByOne { ledger: Arc::clone(&ledger), recorded: Arc::clone(&recorded) };
        let engine = engine(&ledger, upstream, journal);
        engine.observe_calls(Arc::new(Counted(Metrics::new(SERIES_MAX, Arc::new(NoFacts)))));
        engine.remember_world().await;
        engine.recall_quarantine().await.expect("a new ledger");
        let discovery = engine.discovery();
        let follow =
            Arc::clone(&discovery).follow(UPSTREAM.to_owned(), Duration::from_millis(PATIENCE_MS), stop.clone());
        tokio::spawn(follow);
        discovery.all_tried().await;
        let (clients, doors) = duplex(PIPE_BYTES);
        let router = http::router(Arc::new(engine), options(&ledger));
        tokio::spawn(http::serve_stream(doors, router, stop.clone(), ServingOptions::default()));
        (Self { ledger, performed, recorded, _stop: stop.drop_guard() }, clients)
    }

    /// Closes it; it must have made so many calls.
    pub(super) async fn close(self, calls: usize) {
        assert_eq!((self.performed.count(), self.recorded.count()), (calls, calls), "performed and recorded");
        assert_eq!(self.ledger.lost_count(), 0, "everything is on record");
        self.ledger.close().await;
    }
}

/// The figures of calls, as every gateway counts them.
#[derive(Debug)]
struct Counted(Metrics);

#[derive(Debug)]
struct NoFacts;

impl CallObserver for Counted {
    fn call_ended(&self, record: &CallRecord) {
        self.0.call_ended(record);
    }
}

impl ContractFactSource for NoFacts {
    fn facts(&self, _contract: &ContractReference) -> Option<ContractFacts> {
        None
    }
}

fn ledger(folder: &Path) -> Arc<Ledger> {
    let guard = LedgerGuard { position_file: Some(folder.join("servanda.position")), ..LedgerGuard::default() };
    Arc::new(Ledger::open_guarded(&folder.join("ledger.db"), &guard).expect("a new ledger"))
}

fn engine(ledger: &Arc<Ledger>, upstream: Upstream, journal: OneByOne) -> Engine {
    let catalog = Arc::new(catalog());
    let authorities = Arc::new(Authorities::with_default_policies(&catalog).expect("the built-in policies"));
    Engine::new(EngineParts {
        world: World {
            catalog,
            upstreams: BTreeMap::from([(UPSTREAM.to_owned(), upstream)]),
            naming: ExposedNaming::Prefixed,
            expectations: Expectations::default(),
            callbacks: Arc::new(Callbacks::default()),
            authorities,
            allowances: Arc::default(),
        },
        journal: Arc::new(journal),
        notebook: ledger.clone(),
        effects: ledger.clone(),
        budgets: ledger.clone(),
        approvals: ApprovalParts { tickets: ledger.clone(), keys: Arc::new(EphemeralAttestationKeys::new()) },
        clock: Arc::new(SystemClock),
        limits: EngineLimits::default(),
    })
}

fn options(ledger: &Arc<Ledger>) -> HttpOptions {
    let name = "servanda".to_owned();
    let mut options = HttpOptions::new(ServerIdentity { name, version: "1".to_owned(), instructions: None });
    let authenticator =
        CredentialAuthenticator::new(ledger.clone(), Arc::new(SystemClock), Arc::new(NoKeys), AuthnSettings::Local);
    options.authenticator = Arc::new(authenticator.expect("an authenticator"));
    // An answer that takes longer goes back as a stream, which is another path.
    options.stream_after_ms = PATIENCE_MS;
    options
}

/// The one tool, pinned as its server lists it.
fn catalog() -> Catalog {
    let mut lock = LockFile::default();
    lock.set(UPSTREAM, &Definition::read(server::DEFINITION).expect("a definition"), Timestamp::from_unix_ms(0));
    let contracts: Vec<CompiledContract> = lock.pins().map(|(_, tool, pin)| contract(tool, &pin.definition)).collect();
    Catalog::pinned(contracts, ExposedNaming::Prefixed, Pins::new(Some(lock), PinPolicy::default())).expect("one tool")
}

fn contract(tool: &str, definition: &Definition) -> CompiledContract {
    let entry = json!({ "class": "READ_ONLY", "behaviour": "PURE|READ|DATA|TEXT" });
    let entry = serde_json::from_value(entry).expect("an entry");
    let (defaults, offered) = (Defaults::default(), definition_layer(definition).0);
    let layers = ContractLayers {
        server: UPSTREAM,
        tool,
        configuration: &defaults,
        server_defaults: &defaults,
        entry: &entry,
        offered: Some(&offered),
    };
    let mut contract = layers.compose().expect("a contract").contract;
    contract.runtime.timeout_ms = PATIENCE_MS;
    contract.runtime.rate_limits.max_requests = 1_000_000;
    admit(contract, &RegisteredContracts::new()).unwrap_or_else(|rejection| panic!("{rejection}"))
}

/// The ledger as the journal, where every record is waited for. Records of reads gather for some milliseconds otherwise, and how many a
/// commit has would depend on how fast the machine is.
#[derive(Debug)]
struct OneByOne {
    ledger: Arc<Ledger>,
    recorded: Arc<Tally>,
}

impl Journal for OneByOne {
    fn record_finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        _durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        self.recorded.add_one();
        self.ledger.record_finished(record, quarantine, true)
    }

    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        self.ledger.find_record(call_id)
    }
}

/// Nobody shows a credential, so no key is asked for.
#[derive(Debug)]
struct NoKeys;

impl SealingKeySource for NoKeys {
    fn roots_key(&self) -> Result<SealingKey, String> {
        Err("there are no keys".to_owned())
    }

    fn attestation_key(&self) -> Result<SealingKey, String> {
        Err("there are no keys".to_owned())
    }
}
