//! Answers that come after the deadline of their call. The caller was told that nobody knows what the call did; the upstream's
//! answer says it after all, so it settles the effect. It is checked like any answer, and its record is a call of its own that goes
//! on from the first. How many are waited for, and how long, is the upstream's to limit.

use std::sync::Arc;

use servanda_contract::{CallId, CallRecord, Digest, digest::Domain, record::LATE_ANSWER_CLIENT};
use servanda_gates::{
    CompiledContract,
    effect::{Claim, End},
};
use servanda_upstream::{Answer, PerformFailure};
use tokio::sync::oneshot;

use crate::{
    core::Core,
    records::{self, Settling},
    recovery::{Judged, judge},
};

/// An answer that may still come.
pub(crate) type LateAnswer = oneshot::Receiver<Result<Answer, PerformFailure>>;

/// The effect that waits for it.
#[derive(Debug)]
pub(crate) struct Overdue {
    pub(crate) claim: Claim,
    pub(crate) contract: Arc<CompiledContract>,
    pub(crate) upstream: Arc<str>,
    /// What the call changes.
    pub(crate) resources: Vec<String>,
    pub(crate) was_sent_before: bool,
    /// Of the call whose time is over.
    pub(crate) record: CallRecord,
}

/// Settles the effect by its answer, if one comes. Nobody waits for it.
pub(crate) fn settle_when_it_comes(core: &Arc<Core>, overdue: Overdue, answer: LateAnswer) {
    let core = Arc::downgrade(core);
    tokio::spawn(async move {
        let Ok(outcome) = answer.await else { return };
        if let Some(core) = core.upgrade() {
            settle(&core, overdue, outcome).await;
        }
    });
}

async fn settle(core: &Arc<Core>, overdue: Overdue, outcome: Result<Answer, PerformFailure>) {
    let Overdue { claim, contract, upstream, resources, was_sent_before, record: first } = overdue;
    let answer_digest = outcome.as_ref().ok().map(|answer| Digest::of(Domain::Answer, &[&answer.result]));
    let mut record = record(core, first);
    let Judged { end, outcome, refusal, quarantine } = judge(&contract, &record.call_id, outcome, was_sent_before);
    let is_definite = matches!(end, End::Completed(_) | End::Failed(_));
    if !is_definite && quarantine.is_none() {
        tracing::debug!(effect = %claim.id, ?end, "what came after the deadline of a call does not say how it ended");
        return;
    }
    core.cache.changed(&upstream, &resources);
    let mutation = core.lookout.mutations.begin();
    record.finished_at = Some(core.clock.now());
    record.answer_digest = answer_digest;
    record.outcome = outcome;
    record.class = refusal.as_ref().map(|refusal| refusal.error_code);
    record.refusal = refusal;
    tracing::info!(effect = %claim.id, "the answer of a call came after its deadline and settles it");
    records::settle(core, Settling { claim, end, record, quarantine, held: None }).await;
    mutation.end(outcome);
}

/// The record of the answer: of the call whose time is over, as far as that was decided before it was sent.
fn record(core: &Core, first: CallRecord) -> CallRecord {
    let mut caller = first.caller.clone();
    caller.client = Some(LATE_ANSWER_CLIENT.to_owned());
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
