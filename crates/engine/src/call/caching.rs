//! Reads that are answered with what their upstream said a moment ago. The contract says which answers may be cached; an answer for which
//! the client was asked something is never cached.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{Digest, GateName, digest::DigestDomain, record::Outcome, tool::DataClassification};
use servanda_gates::{CompiledContract, Permit, Stopwatch as _};
use servanda_upstream::Continuation;

use super::{
    context::CallContext,
    evidence::{CallExit, CallOperation, Dispatch},
    state::CallPipeline,
};
use crate::{
    answers::{observe, refusals, tool_result},
    cache::{CacheScope, CacheableRead, PendingRead},
    client::CallAnswer,
    records,
    world::Exposure,
};

/// What an answer from the cache says about itself.
const SERVED_FROM_CACHE: &str = "served from cache";

impl CallPipeline<'_> {
    /// Ends a read whose answer is in the cache. Otherwise returns the place in the cache for its answer, where it may be cached.
    pub(super) fn look_in_cache(
        &self,
        permit: &Permit,
        operation: &CallOperation,
        context: &CallContext,
    ) -> Result<Option<Box<PendingRead>>, CallExit> {
        let Some(read) = self.cacheable(permit, operation, context) else { return Ok(None) };
        match self.core.cache.find(read) {
            Ok(answer) => Err(CallExit::Cached(answer)),
            Err(under_way) => Ok(Some(under_way)),
        }
    }

    /// A call as a read that may be answered from the cache. An answer of a server that is shown a user's credential belongs to that
    /// user, whatever the contract says of the data, so it is never shared.
    fn cacheable(&self, permit: &Permit, operation: &CallOperation, context: &CallContext) -> Option<CacheableRead> {
        let contract = permit.contract().contract();
        let ttl_sec = contract.execution.as_ref()?.cache_ttl_sec.filter(|sec| *sec > 0)?;
        let Continuation { input_responses, request_state } = &context.continuation;
        let continues = context.state.is_some() || input_responses.is_some() || request_state.is_some();
        // A read with a key is answered by its key. A contract with preconditions checks them for every call.
        let has_key = operation.key.can_come_again();
        if permit.effect_class().mutates() || has_key || continues || context.task.is_some() || permit.asks_first() {
            return None;
        }
        let member = self.snapshot.member(&contract.binding.upstream);
        let is_personal = member.is_some_and(|member| member.server.is_personal());
        let shared = !is_personal && contract.security.data_classification == DataClassification::Public;
        Some(CacheableRead {
            scope: CacheScope::for_caller(&permit.proposal().caller, shared),
            request: permit.proposal_digest(),
            upstream: Arc::from(contract.binding.upstream.as_str()),
            resources: permit.reads(),
            ttl_ms: ttl_sec.saturating_mul(1_000),
        })
    }

    /// Answers a read from the cache, checked like any answer. Nothing is sent.
    pub(super) async fn answer_from_cache(
        mut self: Box<Self>,
        contract: &CompiledContract,
        result: &Bytes,
    ) -> CallAnswer {
        self.trail.skip(GateName::Budget);
        self.trail.skip(GateName::Fence);
        self.trail.skip(GateName::Perform);
        self.record.answer_digest = Some(Digest::compute(DigestDomain::Answer, &[result]));
        let started_us = self.stopwatch.elapsed_us();
        let checked = observe::observe(contract, result);
        self.trail.note(GateName::Observe, checked.is_ok(), started_us);
        let written = contract.contract();
        let observed = match checked {
            Ok(observed) => observed,
            Err(broken) => {
                let refusal = refusals::quarantined(&self.record.call_id, written.effect_class(), broken);
                return CallAnswer::Result(
                    self.refuse(written, refusal, Outcome::Quarantined, None, Dispatch::default()).await,
                );
            }
        };
        self.finish(Outcome::Completed, observed.class, None);
        let mut observation =
            tool_result::observation(&self.occasion(written), &observed, tool_result::verification(written));
        observation.result_payload.warnings.push(SERVED_FROM_CACHE.to_owned());
        let exposure = Exposure { naming: self.snapshot.naming, upstream: &written.binding.upstream };
        let answered = tool_result::from_answer(&observed, observation, exposure, result.len());
        records::write_record(self.core, self.record, false, None).await;
        CallAnswer::Result(answered)
    }
}
