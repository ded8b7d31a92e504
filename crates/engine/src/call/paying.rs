//! Gate 11 on the way of a call: asked after gate 10 and before anything is begun; what is exact, between the claim and the fence.

use std::sync::Arc;

use servanda_authority::Authenticated;
use servanda_contract::{GateName, Refusal};
use servanda_gates::{
    Current, Funded, Permit, Stopwatch as _,
    budget::{Cleared, NotCleared, Unaffordable},
    effect::{self, ClientKey, Effect, Reply, Target},
    fund,
};
use tokio::time::Instant;

use super::passage::{NotSent, Passage};
use crate::budgets;

impl Passage<'_> {
    /// Takes a permitted call through gate 11. One whose operation is done already is answered instead: that costs nothing.
    pub(super) async fn clear(
        &mut self,
        permit: Permit,
        key: &ClientKey,
        authority: &Authenticated,
        deadline: Instant,
    ) -> Result<Cleared, NotSent> {
        let started_us = self.stopwatch.elapsed_us();
        let purse = (&*self.scene.allowances, authority);
        match budgets::clear(self.core, permit, purse, deadline, &mut self.bill).await {
            Ok(cleared) => {
                // What is due is asked for when the call is claimed, and then the gate has spoken.
                if !cleared.is_due() {
                    self.trail.note(GateName::Budget, true, started_us);
                }
                Ok(cleared)
            }
            Err(not_cleared) => {
                let NotCleared { permit, why } = *not_cleared;
                if let Some((reply, effect)) = Box::pin(self.answered_before(&permit, key)).await {
                    return Err(NotSent::Standing(reply, Some(effect)));
                }
                self.trail.note(GateName::Budget, false, started_us);
                Err(NotSent::Refused(self.unaffordable(&why)))
            }
        }
    }

    /// Keeps back what a claimed call draws exactly.
    pub(super) async fn fund(&mut self, current: Current, deadline: Instant) -> Result<Funded, NotSent> {
        let is_due = current.is_due();
        if is_due {
            // Whatever comes of it, it is this call's to close.
            self.bill.keeps(current.permit());
        }
        let started_us = self.stopwatch.elapsed_us();
        let funded = fund(current, &self.core.till.until(deadline)).await;
        if is_due {
            self.trail.note(GateName::Budget, funded.is_ok(), started_us);
        }
        funded.map_err(|why| NotSent::Refused(self.unaffordable(&Unaffordable::Unfunded(why))))
    }

    fn unaffordable(&self, why: &Unaffordable) -> Box<Refusal> {
        budgets::refuse(self.record.call_id.clone(), &self.record.tool, why, self.core.clock.now())
    }

    /// The answer of an operation that is over, for a call that cannot be paid for.
    async fn answered_before(&self, permit: &Permit, key: &ClientKey) -> Option<(Reply, Arc<Effect>)> {
        if !key.can_come_again() {
            return None;
        }
        let found = self.core.effects.find(Target::Key(permit.effect_key(key.clone()))).await.ok()??;
        let answer = effect::replay(&found, permit.payload_digest())?;
        Some((Reply::Replay(answer), Arc::new(found)))
    }
}
