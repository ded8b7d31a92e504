//! The end of a task: checked against the contract before a requester sees it, and recorded once.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{
    Digest, GateName, Refusal, TaxonomyClass,
    digest::DigestDomain,
    record::{Decision, Outcome, QuestionRecord, Verdict},
};
use servanda_effects::effect::{DispatchEnd, SettlementStatus};
use servanda_gates::CompiledContract;
use servanda_mcp::{
    RawObject, RpcError,
    envelope::code,
    fields::{member as field, result_type},
};
use servanda_upstream::PerformFailure;

use super::note::{self, TaskNote};
use crate::{
    answers::{observe, refusals, tool_result, upstream_failure},
    deferred::DeferredContext,
    questions::QuestionRules,
    records::{self, EffectSettlement},
    task_shape::with_members,
    world::{UpstreamMember, WorldSnapshot},
};

/// A task and what is needed to judge it.
pub(crate) struct TaskSettlement<'a> {
    pub(crate) deferred: &'a Arc<DeferredContext>,
    pub(crate) snapshot: &'a WorldSnapshot,
    pub(crate) member: &'a UpstreamMember,
    pub(crate) ours: &'a str,
    pub(crate) note: TaskNote,
}

impl TaskSettlement<'_> {
    /// Which questions the task may ask the caller.
    pub(super) fn question_rules(&self) -> QuestionRules {
        self.snapshot.question_rules(self.member).refusing(&self.note.refused_questions)
    }

    /// Stores the task's questions for its record. Clients may poll a task often, and its state repeats the same questions each time.
    pub(crate) async fn add_questions(&mut self, asked: Vec<QuestionRecord>) {
        if self.note.add_questions(asked) {
            note::write_questions(self.deferred, self.ours, &self.note).await;
        }
    }

    /// Settles a task that ended with a result. Returns the result as a requester may see it, or the error that the requester gets
    /// instead.
    pub(crate) async fn with_result(self, result: &Bytes) -> Result<String, RpcError> {
        let contract = self.contract().ok_or_else(|| {
            RpcError::new(code::INTERNAL_ERROR, "the result cannot be checked: the contract of its tool is gone")
                .with_hint("operators: `servanda check` checks the contracts")
        })?;
        let Self { deferred, member, ours, mut note, .. } = self;
        let core = &deferred.core;
        member.server.unwatch_task(&note.theirs);
        let checked = observe::observe(&contract, result);
        let now = core.clock.now();
        let mutates = contract.contract().effect_class().mutates();
        if mutates {
            core.cache.invalidate(&member.id, &[]);
        }
        note.record.answer_digest = Some(Digest::compute(DigestDomain::Answer, &[result]));
        note.record.finished_at = Some(now);
        let decision = if checked.is_ok() { Decision::Passed } else { Decision::Refused };
        note.record.verdicts.push(Verdict { gate: GateName::Observe, decision, took_us: 0 });
        match checked {
            Ok(observed) => {
                let failed = observed.class != TaxonomyClass::Success;
                note.record.outcome = if failed { Outcome::ToolError } else { Outcome::Completed };
                note.record.class = Some(observed.class);
                let identity = &contract.contract().identity;
                let occasion = servanda_contract::observation::ObservationContext {
                    tool: &identity.name,
                    version: &identity.version,
                    ..tool_result::occasion(&note.record)
                };
                let verification = tool_result::verification(contract.contract());
                let mut observation = tool_result::observation(&occasion, &observed, verification);
                observation.status.retryable &= !mutates;
                let json = tool_result::from_answer(&observed, observation, member.exposure(), result.len()).json;
                let end = records::end_of_answer(&observed, contract.contract(), result);
                // A requester is told of success only if the ledger has recorded it.
                match settle(deferred, ours, note, end, mutates, None).await {
                    SettlementStatus::Accepted => Ok(with_result_type(&json, result)),
                    SettlementStatus::NotYet | SettlementStatus::Disagrees => Err(not_on_record()),
                }
            }
            Err(broken) => {
                let refusal = refusals::quarantined(&note.record.call_id, contract.contract().effect_class(), broken);
                let error = RpcError::new(code::INTERNAL_ERROR, refusal.message.clone()).with_data(&refusal);
                let end = records::end_of_refusal(&refusal);
                note.refused(Outcome::Quarantined, refusal);
                settle(deferred, ours, note, end, true, Some(result.clone())).await;
                Err(error)
            }
        }
    }

    /// Settles a task that ended with a protocol error: the upstream would have answered the call with it.
    pub(crate) async fn with_error(self, error: &RpcError) {
        self.with_failure(&upstream_failure::rejected(error.clone())).await;
    }

    /// Settles a task that was cancelled.
    pub(crate) async fn cancelled(self) {
        self.with_failure(&PerformFailure::Cancelled { sent: true }).await;
    }

    async fn with_failure(self, failure: &PerformFailure) {
        let contract = self.contract();
        let Self { deferred, member, ours, mut note, .. } = self;
        let core = &deferred.core;
        member.server.unwatch_task(&note.theirs);
        let Some(contract) = contract else { return };
        if contract.contract().effect_class().mutates() {
            core.cache.invalidate(&member.id, &[]);
        }
        let was_sent_before = note.claim().is_some_and(|claim| claim.epoch > 1);
        let call_id = &note.record.call_id;
        let (refusal, outcome) = upstream_failure::interpret(call_id, contract.contract(), failure, was_sent_before);
        note.record.finished_at = Some(core.clock.now());
        let end = records::end_of_refusal(&refusal);
        note.refused(outcome, refusal);
        settle(deferred, ours, note, end, true, None).await;
    }

    /// The present version of the call's contract: a result that is passed on today must keep today's promises.
    fn contract(&self) -> Option<Arc<CompiledContract>> {
        self.snapshot.contract(&self.note.record.tool, &self.note.contract)
    }
}

impl TaskNote {
    fn refused(&mut self, outcome: Outcome, refusal: Refusal) {
        self.record.outcome = outcome;
        self.record.class = Some(refusal.error_code);
        self.record.refusal = Some(refusal);
    }
}

/// Records the end, unless it is recorded already.
async fn settle(
    deferred: &DeferredContext,
    ours: &str,
    note: TaskNote,
    end: DispatchEnd,
    durable: bool,
    quarantine: Option<Bytes>,
) -> SettlementStatus {
    let core = &deferred.core;
    if note.settled {
        return SettlementStatus::Accepted;
    }
    let mut record = note.record.clone();
    record.trace.is_sequel = true;
    let concluded = match note.claim() {
        None => {
            records::write_record(core, record, durable, quarantine).await;
            SettlementStatus::Accepted
        }
        Some(claim) => {
            records::settle(core, EffectSettlement { claim, end, record, quarantine, held: None }).await.concluded
        }
    };
    if concluded == SettlementStatus::NotYet {
        return concluded;
    }
    if let Err(error) = note::write(deferred, ours, &TaskNote { settled: true, ..note }).await {
        tracing::warn!(%error, task = ours, "the settlement of a task could not be stored with the task");
    }
    concluded
}

fn not_on_record() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the task has ended, but the ledger has not recorded its end")
        .with_hint("ask for the task again; operators: `servanda doctor` looks at the ledger")
}

/// Adds `resultType` if the upstream's own result had one.
fn with_result_type(json: &str, result: &Bytes) -> String {
    let members: RawObject<'_> = serde_json::from_slice(result).unwrap_or_default();
    if members.get(field::RESULT_TYPE).is_none() {
        return json.to_owned();
    }
    with_members(json, &format!(r#""{}":"{}""#, field::RESULT_TYPE, result_type::COMPLETE))
}
