//! Gate 11, budget: after gate 10 and before anything is begun. Amounts that must be counted exactly are reserved between the claim and the
//! fence.

use std::sync::Arc;

use servanda_contract::{GateName, Refusal};
use servanda_effects::effect::{self, ClientKey, Effect, EffectReply, EffectTarget};
use servanda_gates::{
    Funded, Permit, PreconditionsMet, Stopwatch as _,
    budget::{Cleared, NotCleared, NotClearedReason},
    fund,
};
use tokio::time::Instant;

use super::{
    context::CallContext,
    evidence::{CallExit, CallOperation, CallPlan},
    state::CallPipeline,
};
use crate::budgets;

impl CallPipeline<'_> {
    /// Takes a permitted call through gate 11. A call whose operation is already done is answered instead, because that costs nothing.
    pub(super) async fn clear(
        &mut self,
        permit: Permit,
        operation: &CallOperation,
        plan: &CallPlan,
        context: &CallContext,
    ) -> Result<Cleared, CallExit> {
        let started_us = self.stopwatch.elapsed_us();
        let budget_sources = (&*self.snapshot.allowances, &*context.requester.authority);
        match budgets::clear(&self.core.budget_client, permit, budget_sources, plan.deadline, &mut self.charge).await {
            Ok(cleared) => {
                // An amount that is due is reserved when the call is claimed; the verdict is noted then.
                if !cleared.is_due() {
                    self.trail.note(GateName::Budget, true, started_us);
                }
                Ok(cleared)
            }
            Err(not_cleared) => {
                let NotCleared { permit, why } = *not_cleared;
                if let Some((reply, effect)) = Box::pin(self.answered_before(&permit, &operation.key)).await {
                    return Err(CallExit::ExistingEffect(reply, Some(effect)));
                }
                self.trail.note(GateName::Budget, false, started_us);
                Err(CallExit::not_sent(self.unaffordable(&why)))
            }
        }
    }

    /// Reserves the exact amounts that a claimed call draws.
    pub(super) async fn fund(&mut self, current: PreconditionsMet, deadline: Instant) -> Result<Funded, Box<Refusal>> {
        let is_due = current.is_due();
        if is_due {
            // This call closes the reservation, whatever its outcome.
            self.charge.set_hold(current.permit());
        }
        let started_us = self.stopwatch.elapsed_us();
        let funded = fund(current, &self.core.budget_client.with_deadline(deadline)).await;
        if is_due {
            self.trail.note(GateName::Budget, funded.is_ok(), started_us);
        }
        funded.map_err(|why| self.unaffordable(&NotClearedReason::Unfunded(why)))
    }

    fn unaffordable(&self, why: &NotClearedReason) -> Box<Refusal> {
        budgets::refuse(self.record.call_id.clone(), &self.record.tool, why, self.core.clock.now())
    }

    /// The answer of an operation that is over, for a call that cannot be paid for.
    async fn answered_before(&self, permit: &Permit, key: &ClientKey) -> Option<(EffectReply, Arc<Effect>)> {
        if !key.can_come_again() {
            return None;
        }
        let found = self.core.effects.find(EffectTarget::Key(permit.effect_key(key.clone()))).await.ok()??;
        let answer = effect::replay(&found, permit.payload_digest())?;
        Some((EffectReply::Replay(answer), Arc::new(found)))
    }
}
