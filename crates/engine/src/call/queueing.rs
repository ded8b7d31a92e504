//! Waits for calls that change the same resource. The store keeps the order between gateways; `resource_queue` keeps it in this process.

use servanda_contract::GateName;
use servanda_effects::effect::{EffectKey, EffectState, EffectTarget};
use servanda_gates::{Permit, Stopwatch as _};
use tokio::time::Instant;

use super::{
    context::CallContext,
    evidence::{CallExit, CallOperation, CallPlan, Dispatch},
    resource_queue::{QueueFull, QueuedChange, ResourceTurn},
    state::CallPipeline,
};
use crate::answers::refusals;

impl CallPipeline<'_> {
    /// Waits until no earlier call changes the same resource, if the contract serialises such calls. A call waits before it asks or claims
    /// anything, because the answers must still hold when it is sent. It waits for at most half of its time, because a call that is sent
    /// too late ends unknown.
    pub(super) async fn queue(
        &mut self,
        permit: &Permit,
        operation: &CallOperation,
        plan: &CallPlan,
        context: &CallContext,
    ) -> Result<Dispatch, CallExit> {
        if !permit.takes_turns() {
            return Ok(Dispatch::default());
        }
        let started_us = self.stopwatch.elapsed_us();
        let changes = QueuedChange { key: permit.effect_key(operation.key.clone()), resources: permit.changes() };
        let effect_key = changes.key.clone();
        let call_id = permit.call_id();
        let refusal = match self.calls.queue.enqueue(changes) {
            Ok(turn) if turn.is_ready() => return Ok(Dispatch { _turn: Some(turn), ..Dispatch::default() }),
            // A call whose answer is already stored need not wait.
            Ok(_) if self.is_over(operation, effect_key).await => return Ok(Dispatch::default()),
            Ok(turn) => match self.wait_for(&turn, plan, context).await {
                Some(true) => return Ok(Dispatch { _turn: Some(turn), ..Dispatch::default() }),
                Some(false) => refusals::turn_not_reached(call_id.clone()),
                None => refusals::given_up(call_id.clone()),
            },
            Err(QueueFull) => refusals::turn_not_reached(call_id.clone()),
        };
        self.trail.note(GateName::Fence, false, started_us);
        Err(CallExit::not_sent(refusal))
    }

    /// Whether the turn came in time; none if the caller gave up.
    async fn wait_for(&self, turn: &ResourceTurn, plan: &CallPlan, context: &CallContext) -> Option<bool> {
        let now = Instant::now();
        let half = now + plan.deadline.saturating_duration_since(now) / 2;
        // Before its turn, long work has nothing that its caller could ask about, so the caller is told in time to call again.
        let until = self.work.as_ref().map_or(half, |work| half.min(work.caller_waits_until));
        tokio::select! {
            come = turn.wait_until(until) => Some(come),
            () = context.terms.cancel.cancelled() => None,
        }
    }

    /// Whether the operation is done, so that the call is only answered.
    async fn is_over(&self, operation: &CallOperation, effect_key: EffectKey) -> bool {
        use EffectState as State;
        if !operation.key.can_come_again() {
            return false;
        }
        let found = self.core.effects.find(EffectTarget::Key(effect_key)).await.ok().flatten();
        let done = [State::Completed, State::FailedFinal, State::Compensated, State::Expired];
        found.is_some_and(|effect| done.contains(&effect.state))
    }
}
