//! Reads that are answered with what their upstream said a moment ago, and what has to be given up because a call may change
//! it. Which answers may be kept is the contract's to say; one that somebody was asked something for is never kept.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{Digest, GateName, digest::Domain, record::Outcome, tool::DataClassification};
use servanda_gates::{CompiledContract, Permit, Stopwatch as _, effect::ClientKey};

use super::{passage::Passage, way::Way};
use crate::{
    answer,
    cache::{Read, Scope},
    gateway::CallAnswer,
    observe, records, refusals,
    relay::Exposure,
    scene::Scene,
};

/// What an answer that was there already says about itself.
const SERVED_FROM_CACHE: &str = "served from cache";

/// A call as a read that may be answered from the cache; none if it is no such thing. What a server answers to whom it is shown a
/// credential of is that user's, whatever the contract says of the data: a personal server's answers are never shared.
pub(super) fn read_of(permit: &Permit, key: &ClientKey, way: &Way, scene: &Scene) -> Option<Read> {
    let contract = permit.contract().contract();
    let ttl_sec = contract.execution.as_ref().and_then(|execution| execution.cache_ttl_sec).filter(|sec| *sec > 0)?;
    let goes_on =
        way.round.is_some() || way.continuation.input_responses.is_some() || way.continuation.request_state.is_some();
    // A read that is somebody's operation is answered by its key, and what has to be asked about first is asked.
    if permit.effect_class().mutates() || key.can_come_again() || goes_on || way.task.is_some() || permit.asks_first() {
        return None;
    }
    let is_personal = scene.member(&contract.binding.upstream).is_some_and(|member| member.server.is_personal());
    let shared = !is_personal && contract.security.data_classification == DataClassification::Public;
    Some(Read {
        scope: Scope::of(&permit.proposal().caller, shared),
        request: permit.proposal_digest(),
        upstream: Arc::from(contract.binding.upstream.as_str()),
        resources: permit.reads(),
        ttl_ms: ttl_sec.saturating_mul(1_000),
    })
}

impl Passage<'_> {
    /// Answers a read with what was kept, checked like any answer. Nothing is sent.
    pub(super) async fn serve(mut self, contract: &CompiledContract, result: &Bytes) -> CallAnswer {
        self.trail.skip(GateName::Budget);
        self.trail.skip(GateName::Fence);
        self.trail.skip(GateName::Perform);
        self.record.answer_digest = Some(Digest::of(Domain::Answer, &[result]));
        let started_us = self.stopwatch.elapsed_us();
        let checked = observe::observe(contract, result);
        self.trail.note(GateName::Observe, checked.is_ok(), started_us);
        let written = contract.contract();
        let observed = match checked {
            Ok(observed) => observed,
            Err(broken) => {
                let refusal = refusals::quarantined(&self.record.call_id, written.effect_class(), broken);
                return CallAnswer::Result(self.refuse(written, refusal, Outcome::Quarantined, None).await);
            }
        };
        self.finish(Outcome::Completed, observed.class, None);
        let mut observation = answer::observation(&self.occasion(written), &observed, answer::verification(written));
        observation.result_payload.warnings.push(SERVED_FROM_CACHE.to_owned());
        let exposure = Exposure { naming: self.scene.naming, upstream: &written.binding.upstream };
        let answered = answer::of_observed(&observed, observation, exposure, result.len());
        records::put_down(self.core, self.record, false, None).await;
        CallAnswer::Result(answered)
    }
}
