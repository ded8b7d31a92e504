//! Does what every end of a call has in common: completes and writes its record, settles its effect, closes its charge, and takes the
//! probes again. How a call ends is decided by `refusing`, `replay`, `caching` and `ending`.

use bytes::Bytes;
use servanda_contract::{
    CallRecord, Refusal, TaxonomyClass, ToolContract, observation::ObservationContext, record::Outcome,
};
use servanda_effects::effect::DispatchEnd;

use super::{
    evidence::{Dispatch, OwnedEffect},
    state::CallPipeline,
};
use crate::{
    answers::tool_result,
    budgets::DispatchCertainty,
    records::{self, EffectSettlement, SettlementOutcome},
};

impl CallPipeline<'_> {
    pub(super) fn finish(&mut self, outcome: Outcome, class: TaxonomyClass, refusal: Option<&Refusal>) {
        self.record.outcome = outcome;
        self.record.class = Some(class);
        self.record.refusal = refusal.cloned();
        if outcome == Outcome::NotExecuted {
            self.record.price = None;
        }
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.take_verdicts();
    }

    /// Records how the call ended. An effect is settled in the same commit. Returns what the ledger made of it.
    ///
    /// If the contract has probes, they are taken again after the end is on record and before the caller is answered. The call keeps its
    /// turn meanwhile.
    pub(super) async fn conclude(
        mut self: Box<Self>,
        mut dispatch: Dispatch,
        end: DispatchEnd,
        durable: bool,
        quarantine: Option<Bytes>,
    ) -> SettlementOutcome {
        let outcome = self.record.outcome;
        let took_ms = self.took_ms();
        let (settled, made) = match dispatch.effect.take() {
            None => {
                records::write_record(self.core, self.record, durable, quarantine).await;
                (SettlementOutcome::NOTHING, DispatchCertainty::from_outcome(outcome))
            }
            Some(OwnedEffect { claim, held, class, .. }) => {
                let is_done = matches!(end, DispatchEnd::Completed(_) | DispatchEnd::Failed(_));
                let settling = EffectSettlement { claim, end, record: self.record, quarantine, held: Some(held) };
                let settled = Box::pin(records::settle(self.core, settling)).await;
                // The effect of a read counts as not executed although the read may have cost something, so its outcome decides.
                let by_effect = || DispatchCertainty::from_effect(settled.state(), is_done);
                let made = if class.mutates() { by_effect() } else { DispatchCertainty::from_outcome(outcome) };
                (settled, made)
            }
        };
        self.charge.close(made, took_ms).await;
        if let Some(mutation) = dispatch.mutation.take() {
            mutation.end(outcome);
        }
        if let Some(around) = dispatch.probed.take() {
            Box::pin(around.end(self.calls, self.snapshot, outcome)).await;
        }
        settled
    }

    /// How long the upstream had the call.
    fn took_ms(&self) -> u64 {
        let finished_at = self.record.finished_at.unwrap_or_else(|| self.core.clock.now());
        self.record.dispatched_at.map_or(0, |dispatched_at| finished_at.since_ms(dispatched_at))
    }

    pub(super) fn occasion<'o>(&'o self, contract: &'o ToolContract) -> ObservationContext<'o> {
        occasion_of_record(&self.record, contract)
    }
}

pub(super) fn occasion_of_record<'o>(record: &'o CallRecord, contract: &'o ToolContract) -> ObservationContext<'o> {
    let identity = &contract.identity;
    ObservationContext { tool: &identity.name, version: &identity.version, ..tool_result::occasion(record) }
}
