//! A scripted peer for tests: an upstream that answers what a test says, and remembers what it was asked.

#[path = "books_testing.rs"]
mod books;
#[path = "clock_testing.rs"]
mod clock;
#[path = "effects_testing.rs"]
mod effects;
#[path = "scenes_testing.rs"]
mod snapshots;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::{
    CallRecord, OperationKeys, ToolContract, document, expectation::Aims, refusal::EffectKnowledge, time::Clock,
};
use servanda_effects::{
    InMemoryNotebook, Journal, JournalError, Notebook, PortFuture, budget::InMemoryBudgets, effect::InMemoryEffects,
    ticket_store::InMemoryTickets,
};
use servanda_gates::{Fenced, RegisteredContracts, admit};
use servanda_mcp::{ClientCapabilities, Era, RpcError};
use servanda_upstream::{
    Announcement, Answer, ConnectionResourceWatch, PerformFailure, QuestionReply, RequestOptions, ServerMessage,
    ServerMessageSink, ToolList, UpstreamError, UpstreamInquiry, UpstreamListedTool, UpstreamOffer, UpstreamOutcome,
    UpstreamQuestion, UpstreamRequester,
};
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    time::Instant,
};

use crate::{
    CallRequest, ClientMessage, Engine, EngineLimits, Inquiry, InquirySubject, RequestTerms, Requester, SystemClock,
    answers::upstream_failure,
    approvals::{ApprovalParts, EphemeralAttestationKeys},
    engine::Stores,
    world::{UpstreamMember, WorldSnapshot, server::UpstreamServer},
};

pub(crate) use books::CountedBudgets;
pub(crate) use clock::EngineTestClock;
pub(crate) use effects::RecordingEffects;
pub(crate) use snapshots::{TestRules, everything, requester_of, requester_with, ruled, snapshot, snapshot_of};

/// What a scripted server is asked, and with which options.
#[derive(Debug)]
pub(crate) struct ScriptedRequest {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) delivery: RequestOptions,
}

/// The script of a server: what it answers.
type ServerScript = Box<dyn Fn(ScriptedRequest) -> PortFuture<'static, Result<Answer, PerformFailure>> + Send + Sync>;

/// A server that does what its script says.
pub(crate) struct ScriptedServer {
    era: Era,
    capabilities: String,
    script: ServerScript,
    /// Method and parameters of every request, and what else it was told.
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) said: broadcast::Sender<Announcement>,
    pub(crate) tools: Mutex<Vec<Value>>,
    pub(crate) attached: Mutex<BTreeMap<String, Arc<dyn ServerMessageSink>>>,
    /// Why nothing can be watched, if nothing can.
    pub(crate) watches_fail: Mutex<Option<PerformFailure>>,
    /// The number of its connection.
    pub(crate) edition: AtomicU64,
    /// Whether it is shown the credentials of the requesters that it answers.
    pub(crate) personal: AtomicBool,
}

impl fmt::Debug for ScriptedServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Scripted")
    }
}

impl ScriptedServer {
    pub(crate) fn new<F>(
        era: Era,
        capabilities: &Value,
        script: impl Fn(ScriptedRequest) -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Result<Answer, PerformFailure>> + Send + 'static,
    {
        Arc::new(Self {
            era,
            capabilities: capabilities.to_string(),
            script: Box::new(move |heard| Box::pin(script(heard))),
            log: Mutex::default(),
            said: broadcast::Sender::new(16),
            tools: Mutex::default(),
            attached: Mutex::default(),
            watches_fail: Mutex::default(),
            edition: AtomicU64::new(0),
            personal: AtomicBool::new(false),
        })
    }

    /// Everything it was asked and told so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    async fn run(
        &self,
        method: &'static str,
        params: Value,
        delivery: RequestOptions,
    ) -> Result<Answer, PerformFailure> {
        let mut seen = params.clone();
        for (name, value) in [
            ("inputResponses", delivery.continuation.input_responses.as_ref().map(|raw| parse(raw.get()))),
            ("requestState", delivery.continuation.request_state.as_ref().map(|state| json!(state))),
            ("task", delivery.task.as_ref().map(|raw| parse(raw.get()))),
            ("headers", (!delivery.param_headers.is_empty()).then(|| json!(delivery.param_headers))),
            ("keyHeader", delivery.key_header.as_ref().map(|header| json!(header))),
            ("meta", (!delivery.meta.is_empty()).then(|| meta_facts(&delivery))),
            ("logLevel", delivery.log_level.as_ref().map(|level| json!(level))),
        ] {
            if let Some(value) = value {
                seen[name] = value;
            }
        }
        self.note(format!("{method} {seen}"));
        (self.script)(ScriptedRequest { method, params, delivery }).await
    }
}

impl UpstreamServer for ScriptedServer {
    fn perform(&self, fenced: Fenced, delivery: RequestOptions) -> PortFuture<'_, UpstreamOutcome> {
        Box::pin(async move {
            let arguments: Value = serde_json::from_slice(fenced.arguments()).unwrap();
            let params = json!({"name": fenced.upstream_tool(), "arguments": arguments});
            let outcome = self.run("tools/call", params, delivery).await;
            let sent = outcome.as_ref().err().is_none_or(|failure| !failure.provably_not_executed());
            UpstreamOutcome { fenced, sent, took_us: 0, outcome }
        })
    }

    fn ask(
        &self,
        question: UpstreamInquiry,
        delivery: RequestOptions,
    ) -> PortFuture<'_, Result<Answer, PerformFailure>> {
        let params: serde_json::Map<String, Value> =
            question.params.iter().map(|(name, raw)| (name.clone(), parse(raw.get()))).collect();
        Box::pin(self.run(question.method, Value::Object(params), delivery))
    }

    fn offer(&self, _deadline: Instant) -> PortFuture<'_, Result<UpstreamOffer, PerformFailure>> {
        let down = self.capabilities == "\"down\"";
        let offer = UpstreamOffer { era: self.era, capabilities: Arc::from(self.capabilities.as_str()) };
        let failure = PerformFailure::Unavailable { why: "it is down".to_owned() };
        Box::pin(std::future::ready(if down { Err(failure) } else { Ok(offer) }))
    }

    fn offer_to<'a>(
        &'a self,
        _: &'a UpstreamRequester,
        by: Instant,
    ) -> PortFuture<'a, Result<UpstreamOffer, PerformFailure>> {
        self.offer(by)
    }

    fn tools<'a>(&'a self, _: &'a UpstreamRequester) -> PortFuture<'a, Result<ToolList, UpstreamError>> {
        let listed = |tool: &Value| UpstreamListedTool {
            name: tool["name"].as_str().unwrap().to_owned(),
            definition: serde_json::value::to_raw_value(tool).unwrap(),
        };
        let tools = self.tools.lock().unwrap().iter().map(listed).collect();
        Box::pin(std::future::ready(Ok(ToolList { tools, ..ToolList::default() })))
    }

    fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.said.subscribe()
    }

    fn watch<'a>(&'a self, uri: &'a str, _: Instant) -> PortFuture<'a, Result<(), PerformFailure>> {
        self.note(format!("watch {uri}"));
        let failure = self.watches_fail.lock().unwrap().clone();
        Box::pin(std::future::ready(failure.map_or(Ok(()), Err)))
    }

    fn watch_alone<'a>(
        &'a self,
        _: &'a UpstreamRequester,
        _: &'a str,
        _: Instant,
    ) -> PortFuture<'a, Result<Option<ConnectionResourceWatch>, PerformFailure>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn unwatch(&self, uri: &str) {
        self.note(format!("unwatch {uri}"));
    }

    fn watch_task<'a>(&'a self, task_id: &'a str, _: Instant) -> PortFuture<'a, Result<(), PerformFailure>> {
        self.note(format!("watch task {task_id}"));
        Box::pin(std::future::ready(Ok(())))
    }

    fn unwatch_task(&self, task_id: &str) {
        self.note(format!("unwatch task {task_id}"));
    }

    fn attach(&self, affinity: &str, session_forwarder: Arc<dyn ServerMessageSink>) {
        self.note(format!("attach {affinity}"));
        self.attached.lock().unwrap().insert(affinity.to_owned(), session_forwarder);
    }

    fn notify(&self, upstream_requester: &UpstreamRequester, method: &'static str, _: Option<Box<RawValue>>) {
        self.note(format!("notify {} {method}", upstream_requester.affinity));
    }

    fn release(&self, affinity: &str) {
        self.note(format!("release {affinity}"));
        self.attached.lock().unwrap().remove(affinity);
    }

    fn is_shown_credentials(&self) -> bool {
        false
    }

    fn is_personal(&self) -> bool {
        self.personal.load(Ordering::Relaxed)
    }

    fn edition(&self, _: &UpstreamRequester) -> Option<u64> {
        Some(self.edition.load(Ordering::Relaxed))
    }
}

/// A journal that remembers its records.
#[derive(Debug, Default)]
pub(crate) struct RecordingJournal {
    pub(crate) finished: Mutex<Vec<CallRecord>>,
    /// Whether the last record had to be stored before its caller was answered.
    pub(crate) last_durable: Mutex<bool>,
}

impl Journal for RecordingJournal {
    fn record_finished(
        &self,
        record: CallRecord,
        _: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        *self.last_durable.lock().unwrap() = durable;
        self.finished.lock().unwrap().push(record);
        Box::pin(std::future::ready(Ok(())))
    }

    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        let finished = self.finished.lock().unwrap();
        let found = finished.iter().rfind(|record| record.call_id.as_str() == call_id).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// An engine with scripted upstreams, its records and its notebook.
pub(crate) struct EngineHarness {
    pub(crate) engine: Engine,
    pub(crate) records: Arc<RecordingJournal>,
    pub(crate) notebook: Arc<InMemoryNotebook>,
    pub(crate) effects: Arc<RecordingEffects>,
    pub(crate) budgets: Arc<CountedBudgets>,
    pub(crate) approvals: ApprovalParts,
}

/// Empty tickets, and a key that lasts as long as the test.
pub(crate) fn approval_parts() -> ApprovalParts {
    let tickets = Arc::new(InMemoryTickets::new(Arc::new(SystemClock)));
    ApprovalParts { tickets, keys: Arc::new(EphemeralAttestationKeys::new()) }
}

impl EngineHarness {
    /// Every upstream has a tool `echo`, which reads, and a tool `write`, which does not.
    pub(crate) fn new(naming: ExposedNaming, servers: &[(&str, Arc<ScriptedServer>)]) -> Self {
        Self::with_notebook(naming, servers, Arc::default())
    }

    pub(crate) fn with_notebook(
        naming: ExposedNaming,
        servers: &[(&str, Arc<ScriptedServer>)],
        notebook: Arc<InMemoryNotebook>,
    ) -> Self {
        Self::in_snapshot(snapshot(naming, servers), notebook, Arc::new(SystemClock))
    }

    /// A harness whose tools have other contracts.
    pub(crate) fn in_snapshot(snapshot: WorldSnapshot, notebook: Arc<InMemoryNotebook>, clock: Arc<dyn Clock>) -> Self {
        let records = Arc::new(RecordingJournal::default());
        let kept: Arc<dyn Notebook> = notebook.clone();
        let tickets = Arc::new(InMemoryTickets::new(Arc::clone(&clock)));
        let approvals = ApprovalParts { tickets: tickets.clone(), keys: Arc::new(EphemeralAttestationKeys::new()) };
        let effects = Arc::new(RecordingEffects {
            effects: InMemoryEffects::new(Arc::clone(&clock)).with_notebook(notebook.clone()).with_tickets(tickets),
            records: records.clone(),
            down: AtomicBool::new(false),
            away: AtomicBool::new(false),
            late: AtomicBool::new(false),
            unkept_ends: AtomicU8::new(0),
        });
        let budgets = Arc::new(CountedBudgets::new(InMemoryBudgets::new(Arc::clone(&clock), effects.clone())));
        let stores = Stores {
            journal: records.clone(),
            notebook: kept,
            effects: effects.clone(),
            budgets: budgets.clone(),
            approvals: approvals.clone(),
        };
        let engine = Engine::from_snapshot(snapshot, stores, clock, EngineLimits::default());
        Self { engine, records, notebook, effects, budgets, approvals }
    }

    /// The same harness after its process died and another was started: the records, notes and effects are still there.
    pub(crate) fn restarted(&self, snapshot: WorldSnapshot, clock: Arc<dyn Clock>) -> Self {
        let kept: Arc<dyn Notebook> = self.notebook.clone();
        let effects = self.effects.clone();
        let budgets = self.budgets.clone();
        let stores = Stores {
            journal: self.records.clone(),
            notebook: kept,
            effects: effects.clone(),
            budgets: budgets.clone(),
            approvals: self.approvals.clone(),
        };
        let engine = Engine::from_snapshot(snapshot, stores, clock, EngineLimits::default());
        let (records, notebook, approvals) = (self.records.clone(), self.notebook.clone(), self.approvals.clone());
        Self { engine, records, notebook, effects, budgets, approvals }
    }

    /// The outcome of every recorded call, in order.
    pub(crate) fn outcomes(&self) -> Vec<&'static str> {
        self.records.finished.lock().unwrap().iter().map(|record| record.outcome.name()).collect()
    }

    pub(crate) fn last_record(&self) -> CallRecord {
        self.records.finished.lock().unwrap().last().unwrap().clone()
    }

    /// What the last record says: the outcome, what is known of the effect, and whether it was durable.
    pub(crate) fn last_word(&self) -> (&'static str, Option<EffectKnowledge>, bool) {
        let record = self.last_record();
        let effect = record.refusal.map(|refusal| refusal.effect);
        (record.outcome.name(), effect, *self.records.last_durable.lock().unwrap())
    }
}

fn contract(upstream: &str, tool: &str, writes: bool) -> servanda_gates::CompiledContract {
    admit(draft(upstream, tool, writes), &RegisteredContracts::new()).unwrap()
}

/// The contract of `echo` or `write`, to be changed.
pub(crate) fn draft(upstream: &str, tool: &str, writes: bool) -> ToolContract {
    let text = include_str!("../../contract/tests/fixtures/void_invoice.yaml");
    let mut contract: ToolContract = document::read("void_invoice.yaml", text).unwrap();
    contract.identity.name = format!("{upstream}.{tool}");
    contract.binding.upstream = upstream.to_owned();
    contract.binding.tool = tool.to_owned();
    // Tests are faster than agents.
    contract.runtime.rate_limits.max_requests = 100_000;
    contract.affordance.output_schema.clear();
    contract.affordance.examples.clear();
    contract.rules.clear();
    contract.affordance.examples =
        vec![serde_json::from_value(json!({"description": "a word", "arguments": {"text": "x"}})).unwrap()];
    let schema = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "description": "Any.", "x-mcp-header": "Text"}}});
    contract.affordance.input_schema = schema.as_object().unwrap().clone().into();
    if !writes {
        contract.effect = Some(serde_json::from_value(json!({"class": "R", "mutation_class": "read_only"})).unwrap());
        contract.transactional = serde_json::from_value(json!({
            "side_effect_class": "READ_ONLY", "confirmation_required": false, "semantics": "read_only",
            "compensation_tool": null, "post_action_verification_required": false
        }))
        .unwrap();
        contract.behaviour = Some(
            serde_json::from_value(json!({"mutability": "PURE", "action": "READ", "output_domain": "DATA"})).unwrap(),
        );
        contract.verification = None;
    }
    contract
}

/// A server that is only a name.
pub(crate) fn member(id: &str) -> UpstreamMember {
    let silent = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(said(Era::Modern, &json!({}))) });
    let snapshot = snapshot(ExposedNaming::Prefixed, &[(id, silent)]);
    let member = snapshot.member(id).unwrap().clone();
    drop(snapshot);
    Arc::into_inner(member).unwrap()
}

/// A requester of an era with capabilities.
pub(crate) fn requester(era: Era, capabilities: &Value) -> Requester {
    let raw = RawValue::from_string(capabilities.to_string()).unwrap();
    Requester { era, capabilities: ClientCapabilities::parse(Some(&raw)), ..Requester::local() }
}

pub(crate) fn call(requester: &Requester, tool: &str, terms: RequestTerms) -> CallRequest {
    CallRequest {
        requester: requester.clone(),
        tool: tool.to_owned(),
        arguments: Bytes::from_static(br#"{"text":"hello"}"#),
        chain: None,
        keys: OperationKeys::default(),
        aims: Aims::default(),
        task: None,
        terms,
    }
}

pub(crate) fn inquiry(requester: &Requester, subject: InquirySubject, params: &Value, terms: RequestTerms) -> Inquiry {
    let params = params.as_object().unwrap().iter();
    let params = params.map(|(name, value)| (name.clone(), serde_json::value::to_raw_value(value).unwrap())).collect();
    Inquiry { requester: requester.clone(), subject, params, terms }
}

/// Terms of a requester that comes back.
pub(crate) fn again(state: &Value, responses: &Value) -> RequestTerms {
    let input_responses = (!responses.is_null()).then(|| serde_json::value::to_raw_value(responses).unwrap());
    let request_state = state.as_str().map(str::to_owned);
    RequestTerms { input_responses, request_state, ..RequestTerms::default() }
}

/// Terms of a legacy requester, and the messages that it receives.
pub(crate) fn listening() -> (RequestTerms, mpsc::Receiver<ClientMessage>) {
    let (sink, messages) = mpsc::channel(16);
    (RequestTerms { messages: Some(sink), wants_progress: true, ..RequestTerms::default() }, messages)
}

pub(crate) fn said(era: Era, result: &Value) -> Answer {
    Answer { result: Bytes::from(result.to_string()), era }
}

/// A tool result of one text.
pub(crate) fn text(era: Era, text: &str) -> Answer {
    said(era, &json!({"content": [{"type": "text", "text": text}]}))
}

pub(crate) fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Asks the client of a request, as a legacy server does.
pub(crate) fn ask(delivery: &RequestOptions, method: &str, params: &Value) -> oneshot::Receiver<QuestionReply> {
    let (reply, replied) = oneshot::channel();
    let params = Some(serde_json::value::to_raw_value(params).unwrap());
    let question = UpstreamQuestion { method: method.to_owned(), params, reply };
    delivery
        .server_messages
        .as_ref()
        .expect("a listener")
        .try_send(ServerMessage::Ask(question))
        .expect("there is room");
    replied
}

/// A server's error.
pub(crate) fn rejected(code: i64, message: &str, data: Option<&Value>) -> PerformFailure {
    let data = data.map(|data| serde_json::value::to_raw_value(data).unwrap());
    upstream_failure::rejected(RpcError { code, message: message.to_owned(), data })
}

fn meta_facts(delivery: &RequestOptions) -> Value {
    let members = delivery.meta.iter().map(|(name, raw)| (name.clone(), parse(raw.get())));
    Value::Object(members.collect())
}
