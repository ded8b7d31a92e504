//! Answers that come after the deadline of their call. The caller was told that the outcome is unknown. The late answer tells the
//! outcome, so it settles the effect. It is checked like any answer, and its record is a call of its own that continues the first. The
//! upstream limits how many late answers it waits for, and for how long.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use servanda_contract::{
    CallId, CallRecord, Caller, Digest, Timestamp, digest::DigestDomain, record::LATE_ANSWER_CLIENT,
};
use servanda_effects::effect::{Claim, DispatchEnd, EffectId};
use servanda_gates::CompiledContract;
use servanda_upstream::{Answer, PerformFailure};
use tokio::sync::oneshot;

use super::{
    DeferredContext,
    verdict::{DeferredVerdict, judge},
};
use crate::{
    core::Core,
    records::{self, EffectSettlement},
};

/// An answer that may still come.
pub(crate) type LateAnswer = oneshot::Receiver<Result<Answer, PerformFailure>>;

/// How long an identical call counts as a repetition of a call that was answered late, and how many such calls are remembered.
const REPETITION_MS_MAX: u64 = 600_000;
const REPETITIONS_MAX: usize = 1_024;

/// Calls that completed after their deadline. Their callers were told that the outcome is unknown, so an identical call without a key is
/// more likely a repetition than a new operation. Each process remembers only its own; a call with a key does not need this.
#[derive(Debug, Default)]
pub(crate) struct LateCompletions(Mutex<HashMap<RepetitionKey, (EffectId, u64)>>);

/// What a repetition has in common with the call: tenant, principal, and the digest of the proposal.
type RepetitionKey = (String, String, Digest);

impl LateCompletions {
    /// The effect of an identical call that completed late, if that was not long ago.
    pub(crate) fn find(&self, caller: &Caller, proposal: Digest, now: Timestamp) -> Option<EffectId> {
        let mut done = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if done.is_empty() {
            return None;
        }
        done.retain(|_, (_, at_ms)| now.unix_ms().saturating_sub(*at_ms) < REPETITION_MS_MAX);
        done.get(&(caller.tenant.clone(), caller.principal.clone(), proposal)).map(|(effect, _)| effect.clone())
    }

    fn note(&self, record: &CallRecord, effect: &EffectId, now: Timestamp) {
        let Some(proposal) = record.proposal_digest else { return };
        let mut done = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if done.len() >= REPETITIONS_MAX {
            let oldest = done.iter().min_by_key(|(_, (_, at_ms))| *at_ms).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| done.remove(&oldest));
        }
        let Caller { tenant, principal, .. } = &*record.caller;
        done.insert((tenant.clone(), principal.clone(), proposal), (effect.clone(), now.unix_ms()));
    }
}

/// A call whose deadline has passed, with what its late answer needs to settle the effect.
#[derive(Debug)]
pub(crate) struct OverdueCall {
    pub(crate) claim: Claim,
    pub(crate) contract: Arc<CompiledContract>,
    pub(crate) upstream: Arc<str>,
    /// The resources that the call changes.
    pub(crate) resources: Vec<String>,
    pub(crate) was_sent_before: bool,
    /// The record of the call whose deadline has passed.
    pub(crate) record: CallRecord,
}

/// Settles the effect by its answer, if one comes. No caller waits for it.
pub(crate) fn settle_when_it_comes(deferred: &Arc<DeferredContext>, overdue: OverdueCall, answer: LateAnswer) {
    let deferred = Arc::downgrade(deferred);
    tokio::spawn(async move {
        let Ok(outcome) = answer.await else { return };
        if let Some(deferred) = deferred.upgrade() {
            settle(&deferred, overdue, outcome).await;
        }
    });
}

async fn settle(deferred: &DeferredContext, overdue: OverdueCall, outcome: Result<Answer, PerformFailure>) {
    let core = &deferred.core;
    let OverdueCall { claim, contract, upstream, resources, was_sent_before, record: first } = overdue;
    let answer_digest = outcome.as_ref().ok().map(|answer| Digest::compute(DigestDomain::Answer, &[&answer.result]));
    let mut record = record(core, first);
    let DeferredVerdict { end, outcome, refusal, quarantine } =
        judge(&contract, &record.call_id, outcome, was_sent_before);
    let is_definite = matches!(end, DispatchEnd::Completed(_) | DispatchEnd::Failed(_));
    if !is_definite && quarantine.is_none() {
        tracing::debug!(effect = %claim.id, ?end, "the late answer of a call does not tell how the call ended; its effect stays as it is");
        return;
    }
    core.cache.invalidate(&upstream, &resources);
    let mutation = core.mutations.begin();
    record.finished_at = Some(core.clock.now());
    record.answer_digest = answer_digest;
    record.outcome = outcome;
    record.class = refusal.as_ref().map(|refusal| refusal.error_code);
    record.refusal = refusal;
    // This comes before the effect is settled: until then the unknown effect itself stops an identical call.
    if matches!(end, DispatchEnd::Completed(_)) {
        deferred.late_completions.note(&record, &claim.id, core.clock.now());
    }
    tracing::info!(effect = %claim.id, "the answer of a call came after its deadline; the effect is settled by it");
    records::settle(core, EffectSettlement { claim, end, record, quarantine, held: None }).await;
    mutation.end(outcome);
}

/// The record of the late answer: what was decided about the first call before it was sent, as a call of its own.
fn record(core: &Core, first: CallRecord) -> CallRecord {
    let caller = Arc::new(Caller { client: Some(LATE_ANSWER_CLIENT.to_owned()), ..Caller::clone(&first.caller) });
    CallRecord {
        call_id: CallId::new(),
        caller,
        continues: Some(first.call_id.clone()),
        received_at: core.clock.now(),
        verdicts: Vec::new(),
        questions: Vec::new(),
        ..first
    }
}
