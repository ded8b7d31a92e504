//! What every end of a call has in common: its record is completed and written, its effect settled, its charge closed, and the probes taken
//! again. How a call ends is decided by `refusing`, `replay`, `caching` and `ending`.

use bytes::Bytes;
use servanda_contract::{CallRecord, Refusal, TaxonomyClass, ToolContract, observation::Occasion, record::Outcome};
use servanda_effects::effect::End;

use super::{
    evidence::{Dispatch, Mark},
    state::CallPipeline,
};
use crate::{
    answers::tool_result,
    budgets::Made,
    records::{self, Settled, Settling},
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

    /// Puts down how it ended; where it is an effect, that is settled with the same commit. Says what the ledger made of it.
    ///
    /// Where the contract has probes, they are taken again after the end is on record and before the caller is answered. The call
    /// keeps its turn meanwhile.
    pub(super) async fn conclude(
        mut self: Box<Self>,
        mut dispatch: Dispatch,
        end: End,
        durable: bool,
        quarantine: Option<Bytes>,
    ) -> Settled {
        let outcome = self.record.outcome;
        let took_ms = self.took_ms();
        let (settled, made) = match dispatch.effect.take() {
            None => {
                records::put_down(self.core, self.record, durable, quarantine).await;
                (Settled::NOTHING, Made::by_outcome(outcome))
            }
            Some(Mark { claim, held, class, .. }) => {
                let is_done = matches!(end, End::Completed(_) | End::Failed(_));
                let settling = Settling { claim, end, record: self.record, quarantine, held: Some(held) };
                let settled = Box::pin(records::settle(self.core, settling)).await;
                // What changes nothing is not executed as far as its effect is concerned, and may have cost something.
                let by_effect = || Made::by_effect(settled.state(), is_done);
                let made = if class.mutates() { by_effect() } else { Made::by_outcome(outcome) };
                (settled, made)
            }
        };
        self.charge.close(made, took_ms).await;
        if let Some(mutation) = dispatch.mutation.take() {
            mutation.end(outcome);
        }
        if let Some(around) = dispatch.around.take() {
            Box::pin(around.end(self.calls, self.scene, outcome)).await;
        }
        settled
    }

    /// How long the upstream had it.
    fn took_ms(&self) -> u64 {
        let finished_at = self.record.finished_at.unwrap_or_else(|| self.core.clock.now());
        self.record.dispatched_at.map_or(0, |dispatched_at| finished_at.since_ms(dispatched_at))
    }

    pub(super) fn occasion<'o>(&'o self, contract: &'o ToolContract) -> Occasion<'o> {
        occasion_of(&self.record, contract)
    }
}

pub(super) fn occasion_of<'o>(record: &'o CallRecord, contract: &'o ToolContract) -> Occasion<'o> {
    let identity = &contract.identity;
    Occasion { tool: &identity.name, version: &identity.version, ..tool_result::occasion(record) }
}
