//! One call, from proposal to answer. Reads top to bottom in the order things happen.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_catalog::{Catalog, Listing};
use servanda_contract::{
    CallId, CallRecord, Digest, GateName, Proposal, Refusal, TaxonomyClass, ToolContract,
    digest::Domain,
    observation::{Observation, Occasion, Verification},
    record::{Decision, Outcome, Verdict},
    refusal::EffectKnowledge,
    taxonomy::EnvelopeCode,
    time::Clock,
};
use servanda_gates::{
    Fenced, GateLimits, Journal, Notebook, Permit, Resolved, Stopwatch as _, Trail, fence, pass_all,
    repair::RepairLimits,
};
use servanda_mcp::{RpcError, envelope::code};
use servanda_upstream::{Answer, Counterpart, Delivery, Performed, Remark, Upstream};
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use crate::{
    answer,
    clock::CallStopwatch,
    discovery::Discovery,
    gateway::{CallAnswer, CallRequest, Gateway, Guest, Inquiry, InquiryAnswer, News, Terms, ToolResult},
    observe, refusals,
    repairs::Repairs,
    trace, upstream_failure,
    watch::Watch,
};

/// Takes calls through.
#[derive(Debug)]
pub struct Engine {
    catalog: Arc<Catalog>,
    discovery: Arc<Discovery>,
    upstreams: BTreeMap<String, Upstream>,
    journal: Arc<dyn Journal>,
    notebook: Arc<dyn Notebook>,
    news: broadcast::Sender<News>,
    clock: Arc<dyn Clock>,
    gate_limits: GateLimits,
    repairs: Repairs,
    in_flight: TaskTracker,
}

/// What an engine is made of.
#[derive(Debug)]
pub struct EngineParts {
    /// Which tools exist.
    pub catalog: Arc<Catalog>,
    /// Who performs them, by id.
    pub upstreams: BTreeMap<String, Upstream>,
    /// Where calls are put on record.
    pub journal: Arc<dyn Journal>,
    /// What outlives the process.
    pub notebook: Arc<dyn Notebook>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How much is taken.
    pub limits: Limits,
}

/// How much the engine takes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of the arguments.
    pub gates: GateLimits,
    /// Of repair loops.
    pub repair: RepairLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let gates = GateLimits { arguments_bytes_max: 1 << 20, arguments_depth_max: 64 };
        Self { gates, repair: RepairLimits::default() }
    }
}

impl Gateway for Engine {
    async fn listing(&self, guest: &Guest) -> Arc<Listing> {
        self.discovery.listing(guest).await
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.catalog.changes()
    }

    async fn inquire(&self, inquiry: Inquiry) -> Result<InquiryAnswer, RpcError> {
        Err(RpcError::new(code::METHOD_NOT_FOUND, format!("no such method: `{}`", inquiry.subject.method())))
    }

    fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    async fn watch(&self, _guest: &Guest, _uri: &str) -> Result<Watch, RpcError> {
        Err(RpcError::new(code::METHOD_NOT_FOUND, "resources cannot be watched"))
    }

    async fn set_log_level(&self, _guest: &Guest, _level: &str) -> Result<(), RpcError> {
        Ok(())
    }

    fn roots_changed(&self, _guest: &Guest) {}

    fn attend(&self, _affinity: &str) -> mpsc::Receiver<Remark> {
        mpsc::channel(1).1
    }

    fn leave(&self, _affinity: &str) {}

    fn notebook(&self) -> Arc<dyn Notebook> {
        Arc::clone(&self.notebook)
    }

    async fn call(&self, request: CallRequest) -> CallAnswer {
        let _in_flight = self.in_flight.token();
        let started = Instant::now();
        let stopwatch = CallStopwatch::start();
        let trail = Trail::new(&stopwatch);
        let (proposal, errand) = self.propose(request);
        let record = CallRecord::new(&proposal);
        let chain = proposal.chain.clone();
        Passage { engine: self, started, stopwatch: &stopwatch, trail, record, chain }.run(proposal, errand).await
    }
}

impl Engine {
    /// Puts an engine together.
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { catalog, upstreams, journal, notebook, clock, limits } = parts;
        let news = broadcast::Sender::new(NEWS_MAX);
        // Doors hear of changes in one place, whatever changed.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (news, mut changes) = (news.clone(), catalog.changes());
            runtime.spawn(async move {
                while changes.changed().await.is_ok() {
                    let _ = news.send(News::Tools);
                }
            });
        }
        Self {
            discovery: Arc::new(Discovery::new(Arc::clone(&catalog), &upstreams)),
            catalog,
            upstreams,
            journal,
            notebook,
            news,
            clock,
            gate_limits: limits.gates,
            repairs: Repairs::new(limits.repair),
            in_flight: TaskTracker::new(),
        }
    }

    /// Waits until every call has its answer and its record, but not longer than that. Calls whose caller has gone are
    /// waited for too: what was dispatched must be recorded.
    pub async fn drain(&self, wait_max: Duration) {
        self.in_flight.close();
        if tokio::time::timeout(wait_max, self.in_flight.wait()).await.is_err() {
            tracing::warn!(calls = self.in_flight.len(), "calls were still in flight when the engine had to end");
        }
    }

    /// Which tools exist.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Keeps the catalog told.
    pub fn discovery(&self) -> &Arc<Discovery> {
        &self.discovery
    }

    /// Who performs them.
    pub fn upstreams(&self) -> &BTreeMap<String, Upstream> {
        &self.upstreams
    }

    fn propose(&self, request: CallRequest) -> (Proposal, Errand) {
        let CallRequest { guest, tool, arguments, chain, task, terms } = request;
        let caller = guest.caller.clone();
        let (caller_wait_ms, trace_parent) = (terms.caller_wait_ms, terms.trace_parent.clone());
        let trace_id =
            trace_parent.as_deref().and_then(trace::trace_id).map_or_else(trace::new_trace_id, str::to_owned);
        // Without a word from the caller, one session (or one trace, where there are no sessions) is one chain.
        let chain = chain.or_else(|| caller.session.clone()).unwrap_or_else(|| match &trace_parent {
            Some(_) => trace_id.clone(),
            None => caller.client.clone().unwrap_or_default(),
        });
        let received_at = self.clock.now();
        let call_id = CallId::new();
        let proposal = Proposal { call_id, caller, tool, arguments, received_at, trace_id, chain, caller_wait_ms };
        (proposal, Errand { guest, terms, task })
    }
}

/// News a slow listener may be behind with.
const NEWS_MAX: usize = 256;

/// Whose call it is and how it is to be answered, apart from what it proposes.
struct Errand {
    guest: Guest,
    terms: Terms,
    task: Option<Box<RawValue>>,
}

/// One call on its way.
struct Passage<'a> {
    engine: &'a Engine,
    started: Instant,
    stopwatch: &'a CallStopwatch,
    trail: Trail<'a>,
    record: CallRecord,
    chain: String,
}

impl Passage<'_> {
    async fn run(mut self, proposal: Proposal, errand: Errand) -> CallAnswer {
        self.engine.discovery.acquaint(&proposal, &errand.guest).await;
        let resolved = match self.resolve(proposal, &errand.guest) {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse_unresolved(refusal).await,
        };
        let contract = resolved.contract().clone();
        self.record.contract = Some(contract.reference());
        let permit = match pass_all(resolved, self.engine.gate_limits, &mut self.trail) {
            Ok(permit) => permit,
            Err(mut refusal) => {
                self.engine.repairs.refused(&self.record, &self.chain, &mut refusal);
                return CallAnswer::Result(self.refuse(contract.contract(), *refusal, Outcome::Refused, None).await);
            }
        };
        self.engine.repairs.passed(&self.record, &self.chain);
        self.record.proposal_digest = Some(permit.proposal_digest());
        let result = match self.perform(permit, errand).await {
            Ok(performed) => self.observe(performed).await,
            Err(refusal) => self.refuse(contract.contract(), *refusal, Outcome::NotExecuted, None).await,
        };
        CallAnswer::Result(result)
    }

    fn resolve(&mut self, proposal: Proposal, guest: &Guest) -> Result<Resolved, Box<Refusal>> {
        let catalog = &self.engine.catalog;
        self.trail.judge(GateName::Resolve, || match catalog.resolve(&proposal.tool, &guest.capabilities) {
            Ok(contract) => Ok(Resolved::new(proposal, contract)),
            Err(reason) => Err(Box::new(refusals::not_resolved(&proposal, reason))),
        })
    }

    /// Fences a permitted call and has it performed. An error means that nothing was sent.
    async fn perform(&mut self, permit: Permit, errand: Errand) -> Result<Performed, Box<Refusal>> {
        let timeout_ms = timeout_ms(permit.contract().contract(), permit.proposal());
        let upstream = self.upstream(&permit)?;
        self.record.deadline_ms = Some(timeout_ms);
        // The caller's time runs from the door: what the gates and the fence took is not added to it.
        let deadline = self.started + Duration::from_millis(timeout_ms);
        let fenced = self.fence(permit, deadline).await?;
        self.record.dispatched_at = Some(self.engine.clock.now());
        let Errand { guest, terms, task } = errand;
        let delivery = Delivery {
            cancel: terms.cancel,
            counterpart: Counterpart { capabilities: guest.capabilities, affinity: guest.affinity },
            remarks: terms.remarks,
            wants_progress: terms.wants_progress,
            log_level: terms.log_level,
            trace_parent: terms.trace_parent,
            meta: terms.meta,
            task,
            ..Delivery::until(deadline)
        };
        let started_us = self.stopwatch.elapsed_us();
        let performed = upstream.perform(fenced, delivery).await;
        self.trail.note(GateName::Perform, performed.outcome.is_ok(), started_us);
        Ok(performed)
    }

    fn upstream(&self, permit: &Permit) -> Result<Upstream, Box<Refusal>> {
        let id = &permit.contract().contract().binding.upstream;
        self.engine.upstreams.get(id).cloned().ok_or_else(|| refusals::no_upstream(permit.call_id().clone(), id))
    }

    /// Puts the call on record before it is sent. A ledger that does not answer in time refuses the call; should its record
    /// still be written later, the one that follows says that nothing was sent.
    async fn fence(&mut self, permit: Permit, deadline: Instant) -> Result<Fenced, Box<Refusal>> {
        let started_us = self.stopwatch.elapsed_us();
        let call_id = permit.call_id().clone();
        let fenced = fence(permit, || self.dispatching_record(), self.engine.journal.as_ref());
        let fenced =
            tokio::time::timeout_at(deadline, fenced).await.unwrap_or_else(|_| Err(refusals::fence_too_slow(call_id)));
        self.trail.note(GateName::Fence, fenced.is_ok(), started_us);
        fenced
    }

    /// What a crash leaves behind: everything up to the fence passed, and whether a byte left is not known.
    fn dispatching_record(&self) -> CallRecord {
        let mut verdicts = self.trail.verdicts().to_vec();
        verdicts.push(Verdict { gate: GateName::Fence, decision: Decision::Passed, took_us: 0 });
        let dispatched_at = Some(self.engine.clock.now());
        CallRecord { verdicts, dispatched_at, outcome: Outcome::Dispatching, ..self.record.clone() }
    }

    /// Makes the answer of what the upstream did.
    async fn observe(self, performed: Performed) -> ToolResult {
        let Performed { fenced, outcome, .. } = performed;
        let contract = fenced.permit().contract();
        match outcome {
            Ok(Answer { result, .. }) => self.observe_answer(&fenced, result).await,
            Err(failure) => {
                let (refusal, outcome) = upstream_failure::interpret(fenced.call_id(), contract.contract(), &failure);
                self.refuse(contract.contract(), refusal, outcome, None).await
            }
        }
    }

    async fn observe_answer(mut self, fenced: &Fenced, result: Bytes) -> ToolResult {
        let compiled = fenced.permit().contract();
        let started_us = self.stopwatch.elapsed_us();
        let checked = observe::observe(compiled, &result);
        self.trail.note(GateName::Observe, checked.is_ok(), started_us);
        self.record.answer_digest = Some(Digest::of(Domain::Answer, &[&result]));
        match checked {
            Ok(observed) => {
                let is_error = observed.class != TaxonomyClass::Success;
                let outcome = if is_error { Outcome::ToolError } else { Outcome::Completed };
                self.finish(outcome, observed.class, None);
                let verification = answer::verification(compiled.contract());
                let mut observation = answer::observation(&self.occasion(compiled.contract()), &observed, verification);
                // A tool that failed may have changed something first; only the contract's own keys make a repeat safe.
                observation.status.retryable &= !fenced.effect_class().mutates();
                let answered = answer::of_observed(&observed, &observation, result.len());
                self.put_on_record(fenced.effect_class().mutates(), None).await;
                answered
            }
            Err(broken) => {
                let refusal = refusals::quarantined(fenced, broken);
                self.refuse(compiled.contract(), refusal, Outcome::Quarantined, Some(result.clone())).await
            }
        }
    }

    async fn refuse_unresolved(mut self, refusal: Box<Refusal>) -> CallAnswer {
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        let observation = Observation::of_refusal(&self.occasion_of_record(), &refusal, Verification::none());
        self.put_on_record(false, None).await;
        if refusal.envelope_code == EnvelopeCode::ToolNotFound {
            return CallAnswer::UnknownTool(refusal);
        }
        CallAnswer::Result(answer::of_refusal(&refusal, &observation))
    }

    async fn refuse(
        mut self,
        contract: &ToolContract,
        refusal: Refusal,
        outcome: Outcome,
        quarantine: Option<Bytes>,
    ) -> ToolResult {
        self.finish(outcome, refusal.error_code, Some(&refusal));
        let verification = answer::verification(contract);
        let observation = Observation::of_refusal(&self.occasion(contract), &refusal, verification);
        // What may have happened must not be forgotten; a call that never left may be written down a moment later.
        let durable = refusal.effect != EffectKnowledge::None || quarantine.is_some();
        self.put_on_record(durable, quarantine).await;
        answer::of_refusal(&refusal, &observation)
    }

    fn finish(&mut self, outcome: Outcome, class: TaxonomyClass, refusal: Option<&Refusal>) {
        self.record.outcome = outcome;
        self.record.class = Some(class);
        self.record.refusal = refusal.cloned();
        self.record.finished_at = Some(self.engine.clock.now());
        self.record.verdicts = self.trail.take_verdicts();
    }

    /// An answer is never held back for its record: the ledger counts and reports what it could not keep.
    async fn put_on_record(self, durable: bool, quarantine: Option<Bytes>) {
        self.tell_operator();
        let call_id = self.record.call_id.clone();
        let kept = self.engine.journal.finished(self.record, quarantine, durable);
        match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), kept).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%call_id, %error, "the record of a finished call was not kept"),
            Err(_) => {
                tracing::error!(%call_id, "the ledger is too slow; whether a finished call is on record is not known");
            }
        }
    }

    /// What a person at the gateway should see: one line a call, louder where somebody may have to look.
    fn tell_operator(&self) {
        let CallRecord { call_id, tool, outcome, class, .. } = &self.record;
        let class = class.map_or("-", TaxonomyClass::name);
        match outcome {
            Outcome::Unknown | Outcome::Quarantined | Outcome::Dispatching => {
                tracing::warn!(%call_id, %tool, class, "a call ended {}; see `servanda explain {call_id}`", outcome.name());
            }
            _ => tracing::info!(%call_id, %tool, class, "a call ended {}", outcome.name()),
        }
    }

    fn occasion<'o>(&'o self, contract: &'o ToolContract) -> Occasion<'o> {
        let identity = &contract.identity;
        Occasion { tool: &identity.name, version: &identity.version, ..self.occasion_of_record() }
    }

    fn occasion_of_record(&self) -> Occasion<'_> {
        let record = &self.record;
        Occasion {
            tool: &record.tool,
            version: "",
            call_id: &record.call_id,
            received_at: record.received_at,
            finished_at: record.finished_at.unwrap_or(record.received_at),
            trace_id: &record.trace_id,
        }
    }
}

/// How long an answer waits for its record.
const RECORD_MS_MAX: u64 = 5_000;

/// The least of what the contract allows and what the caller will still wait.
fn timeout_ms(contract: &ToolContract, proposal: &Proposal) -> u64 {
    contract.timeout_ms().min(proposal.caller_wait_ms.unwrap_or(u64::MAX)).min(TIMEOUT_MS_MAX)
}

/// A day: what no call outlasts, whatever its contract says.
const TIMEOUT_MS_MAX: u64 = 86_400_000;
