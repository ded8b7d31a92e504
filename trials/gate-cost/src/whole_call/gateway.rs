//! A gateway as `servanda serve` puts it together by default: one pinned tool with an admitted contract, the built-in policies, callers of
//! this machine, a ledger in SQLite with its position file. Left out is what runs beside calls by the clock: beats, upkeep, callbacks.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use servanda_authority::sealing::SealingKey;
use servanda_catalog::{
    Catalog,
    inference::offered,
    names::Naming,
    pins::{Definition, Lock, Pins, Policy},
};
use servanda_contract::{
    CallRecord, Timestamp,
    expectation::Expectations,
    layers::{Defaults, Layers},
};
use servanda_doors::{HttpOptions, ServerIdentity, Serving, http};
use servanda_effects::{Journal, JournalError, PortFuture};
use servanda_engine::{Authorities, Engine, EngineParts, Limits, SystemClock, World, callbacks::Callbacks};
use servanda_gates::{CompiledContract, Registered, admit};
use servanda_ledger::{Guard, Ledger};
use servanda_porter::{Porter, Terms, roots::SealingKeys};
use servanda_upstream::{Transport, Upstream, UpstreamId, UpstreamSpec};
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
    pub(super) async fn open(era: Era, folder: &Path) -> (Self, DuplexStream) {
        let (stop, performed, recorded) = (CancellationToken::new(), Arc::<Tally>::default(), Arc::<Tally>::default());
        let ledger = ledger(folder);
        let (listener, connections) = mpsc::channel(server::BACKLOG);
        tokio::spawn(server::answer_all(connections, era, Arc::clone(&performed)));
        let url = "http://company.test/mcp".to_owned();
        let transport = Transport::Http { url, headers: BTreeMap::new() };
        let spec =
            UpstreamSpec { id: UpstreamId::from(UPSTREAM), transport, limits: servanda_upstream::Limits::default() };
        let upstream = Upstream::in_process(spec, ledger.clone(), listener);
        let journal = OneByOne { ledger: Arc::clone(&ledger), recorded: Arc::clone(&recorded) };
        let engine = engine(&ledger, upstream, journal);
        engine.remember_names().await;
        engine.recall_quarantine().await.expect("a new ledger");
        let discovery = engine.discovery();
        let follow =
            Arc::clone(&discovery).follow(UPSTREAM.to_owned(), Duration::from_millis(PATIENCE_MS), stop.clone());
        tokio::spawn(follow);
        discovery.all_tried().await;
        let (clients, doors) = duplex(PIPE_BYTES);
        let router = http::router(Arc::new(engine), options(&ledger));
        tokio::spawn(http::serve_stream(doors, router, stop.clone(), Serving::default()));
        (Self { ledger, performed, recorded, _stop: stop.drop_guard() }, clients)
    }

    /// Closes it; it must have made so many calls.
    pub(super) async fn close(self, calls: usize) {
        assert_eq!((self.performed.count(), self.recorded.count()), (calls, calls), "performed and recorded");
        assert_eq!(self.ledger.lost_count(), 0, "everything is on record");
        self.ledger.close().await;
    }
}

fn ledger(folder: &Path) -> Arc<Ledger> {
    let guard = Guard { position_file: Some(folder.join("servanda.position")), ..Guard::default() };
    Arc::new(Ledger::open_guarded(&folder.join("ledger.db"), &guard).expect("a new ledger"))
}

fn engine(ledger: &Arc<Ledger>, upstream: Upstream, journal: OneByOne) -> Engine {
    let catalog = Arc::new(catalog());
    let authorities = Arc::new(Authorities::of_defaults(&catalog).expect("the built-in policies"));
    Engine::new(EngineParts {
        world: World {
            catalog,
            upstreams: BTreeMap::from([(UPSTREAM.to_owned(), upstream)]),
            naming: Naming::Prefixed,
            expectations: Expectations::default(),
            callbacks: Arc::new(Callbacks::default()),
            authorities,
            allowances: Arc::default(),
        },
        journal: Arc::new(journal),
        notebook: ledger.clone(),
        effects: ledger.clone(),
        budgets: ledger.clone(),
        clock: Arc::new(SystemClock),
        limits: Limits::default(),
    })
}

fn options(ledger: &Arc<Ledger>) -> HttpOptions {
    let name = "servanda".to_owned();
    let mut options = HttpOptions::new(ServerIdentity { name, version: "1".to_owned(), instructions: None });
    let porter = Porter::new(ledger.clone(), Arc::new(SystemClock), Arc::new(NoKeys), Terms::Local);
    options.doorkeeper = Arc::new(porter.expect("a porter"));
    // An answer that takes longer goes back as a stream, which is another path.
    options.answer_moment_ms = PATIENCE_MS;
    options
}

/// The one tool, pinned as its server lists it.
fn catalog() -> Catalog {
    let mut lock = Lock::default();
    lock.set(UPSTREAM, &Definition::read(server::DEFINITION).expect("a definition"), Timestamp::from_unix_ms(0));
    let contracts: Vec<CompiledContract> = lock.pins().map(|(_, tool, pin)| contract(tool, &pin.definition)).collect();
    Catalog::pinned(contracts, Naming::Prefixed, Pins::new(Some(lock), Policy::default())).expect("one tool")
}

fn contract(tool: &str, definition: &Definition) -> CompiledContract {
    let entry = json!({ "class": "READ_ONLY", "behaviour": "PURE|READ|DATA|TEXT" });
    let entry = serde_json::from_value(entry).expect("an entry");
    let (defaults, offered) = (Defaults::default(), offered(definition).0);
    let layers = Layers {
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
    admit(contract, &Registered::new()).unwrap_or_else(|rejection| panic!("{rejection}"))
}

/// The ledger as the journal, where every record is waited for. Records of reads gather for some milliseconds otherwise, and how many a
/// commit has would depend on how fast the machine is.
#[derive(Debug)]
struct OneByOne {
    ledger: Arc<Ledger>,
    recorded: Arc<Tally>,
}

impl Journal for OneByOne {
    fn finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        _durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        self.recorded.add_one();
        self.ledger.finished(record, quarantine, true)
    }

    fn recall<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        self.ledger.recall(call_id)
    }
}

/// Nobody shows a credential, so no key is asked for.
#[derive(Debug)]
struct NoKeys;

impl SealingKeys for NoKeys {
    fn roots_key(&self) -> Result<SealingKey, String> {
        Err("there are no keys".to_owned())
    }
}
