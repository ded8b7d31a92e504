//! A call of a plan, judged like a dry run: gates 1 to 10, and whether people denied it. Its budgets, preconditions and operation are not
//! looked at, because each call of the plan is judged again when it is made. It leaves no record of its own: it is a part of the call that
//! proposes the plan.

use servanda_contract::{CallRecord, Proposal, Refusal};
use servanda_gates::{PreviewedCall, Trail};

use crate::{
    budgets::CallCharge,
    call::{context::CallContext, state::CallPipeline},
    clock::CallStopwatch,
};

impl CallPipeline<'_> {
    /// Judges a call that is not made. The error is the refusal that it would get.
    pub(in crate::call) async fn judge_like_dry_run(
        &self,
        proposal: Box<Proposal>,
        context: &CallContext,
    ) -> Result<PreviewedCall, Box<Refusal>> {
        let stopwatch = CallStopwatch::start();
        let mut judging = CallPipeline {
            core: self.core,
            calls: self.calls,
            snapshot: self.snapshot,
            stopwatch: &stopwatch,
            trail: Trail::new(&stopwatch),
            record: CallRecord::new(&proposal),
            unread_key: None,
            spent_nonce: None,
            // Draws nothing.
            charge: CallCharge::new(&self.core.budget_client),
            work: None,
            started: context.started,
            begun: context.started,
        };
        let resolved = judging.resolve(proposal, context).await?;
        let previewed = judging.judge_preview(resolved, context).await?;
        match judging.look_at_approval(&previewed).await {
            (_, Some(refusal)) => Err(Box::new(refusal)),
            (_, None) => Ok(previewed),
        }
    }
}
