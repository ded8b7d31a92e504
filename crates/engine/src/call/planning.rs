//! Decides who performs a permitted call and how long it may take, before it is paid for.

use std::time::Duration;

use servanda_gates::{JudgedCall, Permit};
use tokio::time::Instant;

use super::{
    context::CallContext,
    evidence::{CallExit, CallPlan},
    state::CallPipeline,
};
use crate::answers::refusals;

/// A day: no call takes longer, whatever its contract says.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

impl CallPipeline<'_> {
    /// Finds the server of a permitted call, and decides how long it may take.
    pub(super) fn plan(&mut self, permit: &Permit, context: &CallContext) -> Result<CallPlan, CallExit> {
        let id = &permit.contract().contract().binding.upstream;
        let no_upstream = || CallExit::not_sent(refusals::no_upstream(permit.call_id().clone(), id));
        let member = self.snapshot.member(id).cloned().ok_or_else(no_upstream)?;
        let (of_contract_ms, wait_ms) = self.limits_ms(permit);
        let timeout_ms = of_contract_ms.min(wait_ms.unwrap_or(u64::MAX));
        self.record.deadline_ms = Some(timeout_ms);
        Ok(CallPlan {
            member,
            contract: permit.shared_contract(),
            timeout_ms,
            deadline: self.deadline(permit),
            changes: permit.effect_class().mutates().then(|| permit.changes()),
            operation_id: permit.operation().operation_id().map(str::to_owned),
            refused_questions: self.refused_questions(permit, &context.requester.authority),
        })
    }

    /// When the answer has to be there. The contract's time begins when the server is ready, the caller's time when the call arrives.
    pub(super) fn deadline(&self, permit: &JudgedCall) -> Instant {
        let (of_contract_ms, wait_ms) = self.limits_ms(permit);
        let of_contract = self.begun + Duration::from_millis(of_contract_ms);
        wait_ms.map_or(of_contract, |wait_ms| of_contract.min(self.started + Duration::from_millis(wait_ms)))
    }

    /// How long the contract lets a call take, and how long its caller waits, if the caller says so. Long work continues when its caller
    /// stops waiting.
    fn limits_ms(&self, permit: &JudgedCall) -> (u64, Option<u64>) {
        let wait_ms = permit.proposal().caller_wait_ms.filter(|_| self.work.is_none());
        let of_contract_ms = permit.contract().contract().timeout_ms();
        (of_contract_ms.min(TIMEOUT_MS_MAX), wait_ms.map(|wait_ms| wait_ms.min(TIMEOUT_MS_MAX)))
    }
}
