//! Whole calls through the engine, where the store matters more than the upstream.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use servanda_catalog::{Catalog, names::ExposedNaming};
use servanda_contract::{
    CallRecord, GateName, OperationKeys, Refusal, TaxonomyClass, ToolContract, document, record::Outcome,
    refusal::EffectKnowledge,
};
use servanda_effects::{
    InMemoryNotebook, Journal, JournalError, Notebook, PortFuture, RecordsRefused,
    budget::InMemoryBudgets,
    effect::{
        AppliedChange, Effect, EffectChange, EffectQuery, EffectStore, EffectTarget, InMemoryEffects, OrphanQuery,
        OwnerId,
    },
};
use servanda_gates::{RegisteredContracts, admit};
use servanda_upstream::{Transport, Upstream, UpstreamLimits, UpstreamName, UpstreamSpec};

use crate::{
    Authorities, CallAnswer, CallRequest, Engine, EngineLimits, EngineParts, Gateway as _, RequestTerms, Requester,
    SystemClock, World, testing::draft,
};

/// A store whose disk may hang, and that remembers the ends that it was told.
#[derive(Debug)]
struct Disk {
    hangs: bool,
    /// Why it takes no records.
    refuses: Mutex<Option<RecordsRefused>>,
    finished: Mutex<Vec<CallRecord>>,
    effects: InMemoryEffects,
}

impl Disk {
    fn new(hangs: bool) -> Arc<Self> {
        let effects = InMemoryEffects::new(Arc::new(SystemClock));
        Arc::new(Self { hangs, refuses: Mutex::default(), finished: Mutex::default(), effects })
    }
}

impl EffectStore for Disk {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        if self.hangs {
            return Box::pin(std::future::pending());
        }
        let finished = change.record.clone().filter(|record| record.outcome != Outcome::Dispatching);
        self.finished.lock().unwrap().extend(finished);
        self.effects.apply(change)
    }

    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        self.effects.find(target)
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.list(query)
    }

    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.orphans(query)
    }

    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        self.effects.heartbeat(owner)
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        self.effects.expire(limit)
    }
}

impl Journal for Disk {
    fn record_finished(
        &self,
        record: CallRecord,
        _quarantine: Option<Bytes>,
        _durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        self.finished.lock().unwrap().push(record);
        Box::pin(async { Ok(()) })
    }

    fn refuses_records(&self) -> Option<RecordsRefused> {
        self.refuses.lock().unwrap().clone()
    }

    fn find_record<'a>(&'a self, _: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        Box::pin(async { Ok(None) })
    }
}

fn engine(journal: Arc<Disk>) -> Engine {
    let text = include_str!("../../../contract/tests/fixtures/void_invoice.yaml");
    let contract: ToolContract = document::read("void_invoice.yaml", text).unwrap();
    let contract = admit(contract, &RegisteredContracts::new()).unwrap();
    let read = admit(draft("company", "echo", false), &RegisteredContracts::new()).unwrap();
    let nowhere = Transport::Stdio {
        command: "no-such-program-anywhere".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        cwd: None,
    };
    let spec =
        UpstreamSpec { id: UpstreamName("company".to_owned()), transport: nowhere, limits: UpstreamLimits::default() };
    let notebook: Arc<dyn Notebook> = Arc::new(InMemoryNotebook::default());
    let catalog = Arc::new(Catalog::new([contract, read], ExposedNaming::Prefixed).unwrap());
    Engine::new(EngineParts {
        approvals: crate::testing::approval_parts(),
        world: World {
            authorities: Arc::new(Authorities::with_default_policies(&catalog).unwrap()),
            catalog,
            upstreams: BTreeMap::from([("company".to_owned(), Upstream::new(spec, notebook.clone()))]),
            naming: ExposedNaming::Prefixed,
            expectations: servanda_contract::expectation::Expectations::default(),
            callbacks: Arc::default(),
            allowances: Arc::default(),
        },
        journal: journal.clone(),
        notebook,
        budgets: Arc::new(InMemoryBudgets::new(Arc::new(SystemClock), journal.clone())),
        effects: journal,
        clock: Arc::new(SystemClock),
        limits: EngineLimits::default(),
    })
}

fn request(tool: &str, wait_ms: u64) -> CallRequest {
    CallRequest {
        requester: Requester::local(),
        tool: tool.to_owned(),
        arguments: Bytes::from_static(br#"{"invoice_id":"inv_1007","reason":"duplicate"}"#),
        chain: None,
        keys: OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
        task: None,
        terms: RequestTerms { caller_wait_ms: Some(wait_ms), ..RequestTerms::default() },
    }
}

fn refusal(answer: CallAnswer) -> Refusal {
    match answer {
        CallAnswer::UnknownTool(refusal) => *refusal,
        CallAnswer::InputRequired(_) | CallAnswer::Task(_) | CallAnswer::Failed(_) => panic!("not a refusal"),
        CallAnswer::Result(result) => {
            let result: serde_json::Value =
                serde_json::from_str(&crate::answers::tool_result::with_full_detail(result).json).unwrap();
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
        }
    }
}

#[tokio::test]
async fn a_ledger_that_hangs_refuses_the_call_within_its_time() {
    let disk = Disk::new(true);
    let refused = refusal(engine(disk.clone()).call(request("company__void_invoice", 50)).await);
    assert_eq!(refused.gate, GateName::Fence);
    let record = disk.finished.lock().unwrap().pop().unwrap();
    assert_eq!((record.outcome, record.dispatched_at), (Outcome::NotExecuted, None), "nothing was sent");
}

#[tokio::test]
async fn a_call_that_cannot_reach_its_upstream_was_not_executed() {
    let disk = Disk::new(false);
    let refused = refusal(engine(disk.clone()).call(request("company__void_invoice", 5_000)).await);
    assert_eq!(refused.gate, GateName::Perform);
    assert!(refused.retryable);
    assert_eq!(disk.finished.lock().unwrap().pop().unwrap().outcome, Outcome::NotExecuted);
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_on_record_too() {
    let disk = Disk::new(false);
    let refused = refusal(engine(disk.clone()).call(request("company__void_invoce", 50)).await);
    assert_eq!(refused.gate, GateName::Resolve);
    assert!(refused.message.contains("`company__void_invoice`?"), "{}", refused.message);
    assert_eq!(disk.finished.lock().unwrap().len(), 1);
}

/// No call without a record: one that would get none is not read, and does nothing.
#[tokio::test]
async fn a_call_that_would_get_no_record_is_refused_unread() {
    let (waiting, no_room) =
        (RecordsRefused::Waiting("the store is away".to_owned()), RecordsRefused::NoRoom("7 bytes left".to_owned()));
    let (read, change) = ("company__echo", "company__void_invoice");
    for (refused, tool, is_read) in
        [(&waiting, read, false), (&waiting, change, false), (&no_room, read, false), (&no_room, change, true)]
    {
        let disk = Disk::new(false);
        *disk.refuses.lock().unwrap() = Some(refused.clone());
        let engine = engine(disk.clone());
        let refusal = refusal(engine.call(request(tool, 5_000)).await);
        let records = disk.finished.lock().unwrap().len();
        if is_read {
            assert_eq!((refusal.gate, records), (GateName::Perform, 1), "{tool}: {refusal:?}");
            continue;
        }
        assert_eq!((refusal.gate, refusal.error_code), (GateName::Resolve, TaxonomyClass::DependencyUnavailable));
        assert_eq!((refusal.effect, refusal.retryable, records), (EffectKnowledge::None, true, 0), "{tool}");
        assert!(refusal.retry_after_ms.is_some() && refusal.message.contains("not read"), "{refusal:?}");
        *disk.refuses.lock().unwrap() = None;
        engine.call(request(tool, 5_000)).await;
        assert_eq!(disk.finished.lock().unwrap().len(), 1, "{tool}: it is read again");
    }
}
