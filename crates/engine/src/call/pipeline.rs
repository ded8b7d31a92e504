//! The life of one call, top to bottom: [`CallPipeline::run`] and [`CallPipeline::send`] list its stages in order.
//!
//! Each stage takes the evidence of the one before it. A stage that ends the call before anything is sent returns a [`CallExit`], which
//! `exits` answers; `ending` answers a call that was sent. Both refuse by way of `refusing`. Deliberately not here: what surrounds a call
//! (questions to the client, long work), which is in `call`, and what a stage does, which is in the stage's file.

use std::sync::Arc;

use servanda_contract::Proposal;
use servanda_gates::{ResolvedCall, Trail};

use super::{
    Calls,
    admission::{AdmittedCall, given_key},
    context::CallContext,
    evidence::{CallExit, PerformedCall},
    state::CallPipeline,
};
use crate::{budgets::CallCharge, client::CallAnswer, clock::CallStopwatch, world::OwnTool};

impl CallPipeline<'_> {
    /// Takes a call through to its answer.
    pub(super) async fn take(calls: &Arc<Calls>, admitted: Box<AdmittedCall>) -> CallAnswer {
        let AdmittedCall { snapshot, proposal, mut record, context } = *admitted;
        let stopwatch = CallStopwatch::start();
        record.continues.clone_from(&context.continues);
        // Boxed, because its ends hand it from one to the next.
        let pipeline = Box::new(CallPipeline {
            core: &calls.core,
            calls,
            snapshot: &snapshot,
            stopwatch: &stopwatch,
            trail: Trail::new(&stopwatch),
            record,
            unread_key: given_key(&snapshot, &proposal),
            spent_nonce: None,
            charge: CallCharge::new(&calls.core.budget_client),
            work: context.work.clone(),
            started: context.started,
            begun: context.started,
        });
        pipeline.run(proposal, context).await
    }

    async fn run(mut self: Box<Self>, proposal: Box<Proposal>, context: Box<CallContext>) -> CallAnswer {
        let resolved = match self.resolve(proposal, &context).await {
            Ok(resolved) => resolved,
            Err(refusal) => return Box::pin(self.refuse_unresolved(refusal)).await,
        };
        let contract = Arc::clone(resolved.contract());
        self.record.contract = Some(contract.reference());
        match self.own_tool(&self.record.tool) {
            Some((OwnTool::Result, _)) => return Box::pin(self.fetch(resolved, &contract, &context)).await,
            Some((OwnTool::ProposePlan, _)) => return Box::pin(self.propose(resolved, &contract, &context)).await,
            None => {}
        }
        // Boxed, because sending is by far the largest part of a call, and a call that ends early never uses the ends below.
        match Box::pin(self.send(resolved, context)).await {
            Ok(performed) => Box::pin(self.settle(performed)).await,
            Err(exit) => Box::pin(self.answer_exit(&contract, exit)).await,
        }
    }

    /// Every stage from the contract to the upstream's answer. Each `?` ends the call with nothing sent.
    async fn send(
        &mut self,
        resolved: ResolvedCall,
        mut context: Box<CallContext>,
    ) -> Result<Box<PerformedCall>, CallExit> {
        // Gates 1 to 10.
        let judged = self.judge(resolved, &context).await?;
        // Which operation it is: its key, and the state it continues from.
        let operation = self.identify(&judged, &mut context).await?;
        // Where gate 10 asks for it, people have approved this very call.
        let permit = self.approve(judged, &operation, &context).await?;
        // A read whose answer is in the cache ends here.
        let to_cache = self.look_in_cache(&permit, &operation, &context)?;
        let plan = self.plan(&permit, &context)?;
        // Gate 11, budget.
        let cleared = self.clear(permit, &operation, &plan, &context).await?;
        // Calls that change the same resource wait for each other.
        let dispatch = self.queue(cleared.permit(), &operation, &plan, &context).await?;
        // The contract's probes, before anything is sent.
        let around = self.look_before(cleared.permit(), &plan, &context).await?;
        // The effect is on record before a byte leaves.
        let sendable = self.fence(cleared, dispatch, &operation, &plan, &context).await?;
        self.perform(sendable, around, plan, to_cache, context).await
    }
}
