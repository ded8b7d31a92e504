//! One call, from proposal to answer. Reads top to bottom in the order things happen.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_catalog::{Catalog, Listing, NotResolved};
use servanda_contract::{
    CallId, CallRecord, Digest, GateName, Proposal, Refusal, TaxonomyClass, ToolContract,
    digest::Domain,
    observation::{Observation, Occasion, Verification},
    record::{Outcome, RECORD_VERSION},
    refusal::EffectKnowledge,
    taxonomy::EnvelopeCode,
    time::Clock,
};
use servanda_gates::{
    Fenced, GateLimits, Journal, Permit, Resolved, Stopwatch as _, Trail, fence, pass_all, repair::RepairLimits,
};
use servanda_upstream::{Answer, Delivery, Performed, Upstream};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;

use crate::{
    answer,
    clock::CallStopwatch,
    gateway::{CallAnswer, CallRequest, Gateway, ToolResult},
    observe::{self, Broken},
    repairs::Repairs,
    upstream_failure,
};

/// Takes calls through.
#[derive(Debug)]
pub struct Engine {
    catalog: Arc<Catalog>,
    upstreams: BTreeMap<String, Upstream>,
    journal: Arc<dyn Journal>,
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
    fn listing(&self) -> Arc<Listing> {
        self.catalog.listing()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.catalog.changes()
    }

    async fn call(&self, request: CallRequest) -> CallAnswer {
        let _in_flight = self.in_flight.token();
        let stopwatch = CallStopwatch::start();
        let trail = Trail::new(&stopwatch);
        let (proposal, terms) = self.propose(request);
        let record = new_record(&proposal);
        let chain = proposal.chain.clone();
        Passage { engine: self, stopwatch: &stopwatch, trail, record, chain }.run(proposal, terms).await
    }
}

impl Engine {
    /// Puts an engine together.
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { catalog, upstreams, journal, clock, limits } = parts;
        Self {
            catalog,
            upstreams,
            journal,
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

    /// Who performs them.
    pub fn upstreams(&self) -> &BTreeMap<String, Upstream> {
        &self.upstreams
    }

    fn propose(&self, request: CallRequest) -> (Proposal, Terms) {
        let CallRequest { caller, tool, arguments, caller_wait_ms, trace_parent, chain, progress, cancel } = request;
        let trace_id = trace_parent.as_deref().and_then(trace_id).map_or_else(new_trace_id, str::to_owned);
        // Without a word from the caller, one session (or one trace, where there are no sessions) is one chain.
        let chain = chain.or_else(|| caller.session.clone()).unwrap_or_else(|| match &trace_parent {
            Some(_) => trace_id.clone(),
            None => caller.client.clone().unwrap_or_default(),
        });
        let received_at = self.clock.now();
        let call_id = CallId::new();
        let proposal = Proposal { call_id, caller, tool, arguments, received_at, trace_id, chain, caller_wait_ms };
        (proposal, Terms { trace_parent, progress, cancel })
    }
}

/// How the caller wants to be answered, apart from what it proposes.
struct Terms {
    trace_parent: Option<String>,
    progress: Option<servanda_upstream::ProgressSink>,
    cancel: tokio_util::sync::CancellationToken,
}

/// One call on its way.
struct Passage<'a> {
    engine: &'a Engine,
    stopwatch: &'a CallStopwatch,
    trail: Trail<'a>,
    record: CallRecord,
    chain: String,
}

impl Passage<'_> {
    async fn run(mut self, proposal: Proposal, terms: Terms) -> CallAnswer {
        let resolved = match self.resolve(proposal) {
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
        let result = match self.perform(permit, terms).await {
            Ok(performed) => self.observe(performed).await,
            Err(refusal) => self.refuse(contract.contract(), *refusal, Outcome::NotExecuted, None).await,
        };
        CallAnswer::Result(result)
    }

    fn resolve(&mut self, proposal: Proposal) -> Result<Resolved, Box<Refusal>> {
        let catalog = &self.engine.catalog;
        self.trail.judge(GateName::Resolve, || match catalog.resolve(&proposal.tool) {
            Ok(contract) => Ok(Resolved::new(proposal, contract)),
            Err(reason) => Err(Box::new(not_resolved(&proposal, reason))),
        })
    }

    /// Fences a permitted call and has it performed. An error means that nothing was sent.
    async fn perform(&mut self, permit: Permit, terms: Terms) -> Result<Performed, Box<Refusal>> {
        let timeout_ms = timeout_ms(permit.contract().contract(), permit.proposal());
        let upstream = self.upstream(&permit)?;
        self.record.deadline_ms = Some(timeout_ms);
        self.record.dispatched_at = Some(self.engine.clock.now());
        self.record.outcome = Outcome::Dispatching;
        let fenced = self.fence(permit).await?;
        let Terms { trace_parent, progress, cancel } = terms;
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let started_us = self.stopwatch.elapsed_us();
        let performed = upstream.perform(fenced, Delivery { deadline, progress, cancel, trace_parent }).await;
        self.trail.note(GateName::Perform, performed.outcome.is_ok(), started_us);
        Ok(performed)
    }

    fn upstream(&self, permit: &Permit) -> Result<Upstream, Box<Refusal>> {
        let id = &permit.contract().contract().binding.upstream;
        self.engine.upstreams.get(id).cloned().ok_or_else(|| {
            Box::new(Refusal::new(
                permit.call_id().clone(),
                GateName::Perform,
                TaxonomyClass::DependencyUnavailable,
                format!("no upstream `{id}` is configured"),
                "operators: add the upstream to servanda.yaml; `servanda check` finds such contracts".to_owned(),
            ))
        })
    }

    async fn fence(&mut self, permit: Permit) -> Result<Fenced, Box<Refusal>> {
        let started_us = self.stopwatch.elapsed_us();
        let record = || CallRecord { verdicts: self.trail.verdicts().to_vec(), ..self.record.clone() };
        let fenced = fence(permit, record, self.engine.journal.as_ref()).await;
        self.trail.note(GateName::Fence, fenced.is_ok(), started_us);
        fenced
    }

    /// Makes the answer of what the upstream did.
    async fn observe(self, performed: Performed) -> ToolResult {
        let Performed { fenced, outcome, .. } = performed;
        let contract = fenced.permit().contract();
        match outcome {
            Ok(Answer { result }) => self.observe_answer(&fenced, result).await,
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
                let observation = answer::observation(&self.occasion(compiled.contract()), &observed, verification);
                let answered = answer::of_observed(&observed, &observation, result.len());
                self.put_on_record(fenced.effect_class().mutates(), None).await;
                answered
            }
            Err(broken) => {
                let refusal = quarantined(fenced, broken);
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
        if let Err(error) = self.engine.journal.finished(self.record, quarantine, durable).await {
            tracing::error!(%error, "the record of a finished call was not kept");
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

pub(crate) fn new_record(proposal: &Proposal) -> CallRecord {
    CallRecord {
        record_version: RECORD_VERSION,
        call_id: proposal.call_id.clone(),
        trace_id: proposal.trace_id.clone(),
        caller: proposal.caller.clone(),
        tool: proposal.tool.clone(),
        contract: None,
        arguments_digest: proposal.arguments_digest(),
        proposal_digest: None,
        received_at: proposal.received_at,
        dispatched_at: None,
        finished_at: None,
        deadline_ms: None,
        verdicts: Vec::new(),
        outcome: Outcome::Refused,
        class: None,
        refusal: None,
        answer_digest: None,
    }
}

/// The least of what the contract allows and what the caller will still wait.
fn timeout_ms(contract: &ToolContract, proposal: &Proposal) -> u64 {
    contract.timeout_ms().min(proposal.caller_wait_ms.unwrap_or(u64::MAX)).min(TIMEOUT_MS_MAX)
}

/// A day: what no call outlasts, whatever its contract says.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

fn not_resolved(proposal: &Proposal, reason: NotResolved) -> Refusal {
    let call_id = proposal.call_id.clone();
    let shown: String = proposal.tool.chars().take(128).collect();
    match reason {
        NotResolved::Unknown { did_you_mean } => {
            let hint = match did_you_mean {
                Some(name) => format!("did you mean `{name}`? `tools/list` has every tool there is"),
                None => "call a tool that `tools/list` has".to_owned(),
            };
            let message = format!("there is no tool `{shown}`");
            let mut refusal =
                Refusal::new(call_id, GateName::Resolve, TaxonomyClass::StructuralViolation, message, hint);
            refusal.envelope_code = EnvelopeCode::ToolNotFound;
            refusal
        }
        NotResolved::Withdrawn { upstream } => Refusal::new(
            call_id,
            GateName::Resolve,
            TaxonomyClass::DependencyUnavailable,
            format!("`{shown}` has a contract, but the upstream `{upstream}` does not offer it any more"),
            "use another tool; operators: `servanda tools` shows what each upstream offers".to_owned(),
        ),
    }
}

fn quarantined(fenced: &Fenced, broken: Broken) -> Refusal {
    let mutates = fenced.effect_class().mutates();
    let effect = if mutates { EffectKnowledge::Happened } else { EffectKnowledge::None };
    let happened = if mutates { "; the effect happened, do not repeat the call" } else { "" };
    Refusal::new(
        fenced.call_id().clone(),
        GateName::Observe,
        TaxonomyClass::ObservationNormalizationFail,
        format!("the upstream's answer {}{happened}", broken.message),
        format!(
            "the answer was kept back; a person can look at it with `servanda explain {} --quarantined`",
            fenced.call_id()
        ),
    )
    .with_field_errors(broken.errors)
    .with_effect(effect)
}

/// The trace id of a W3C `traceparent`, if it is one.
fn trace_id(trace_parent: &str) -> Option<&str> {
    let mut parts = trace_parent.split('-');
    let (_, trace_id) = (parts.next()?, parts.next()?);
    let hex =
        trace_id.len() == 32 && trace_id.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase());
    (hex && trace_id.bytes().any(|byte| byte != b'0')).then_some(trace_id)
}

fn new_trace_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
