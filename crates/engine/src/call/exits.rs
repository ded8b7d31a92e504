//! How a call ends with nothing sent: refused, answered from the cache, or answered by what its effect already is.
//!
//! Every stage before the upstream ends a call by returning an [`Exit`]. A call that was sent ends in `ending`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::{
    CallRecord, GateName, Refusal, TaxonomyClass, ToolContract,
    observation::{Observation, Verification},
    record::Outcome,
    refusal::EffectKnowledge,
    taxonomy::EnvelopeCode,
};
use servanda_effects::effect::{self, Effect, Reply, Rules, Target};
use servanda_gates::CompiledContract;
use servanda_mcp::RpcError;

use super::{dispatch::Dispatch, ending::occasion_of, pipeline::CallPipeline};
use crate::{
    answer,
    budgets::Made,
    gateway::{CallAnswer, ToolResult},
    records, refusals,
};

/// How long a refused call looks whether an earlier call with its key was done.
const LOOK_BACK_MS_MAX: u64 = 1_000;

/// Why a call ends before it is sent.
#[derive(Debug)]
pub(super) enum Exit {
    /// A stage refused it.
    Refused {
        refusal: Box<Refusal>,
        /// How it is recorded.
        outcome: Outcome,
        /// What it holds already: a call may be refused after its effect was claimed.
        dispatch: Box<Dispatch>,
    },
    /// The `requestState` that it continues from cannot be used.
    State(RpcError),
    /// The cache has its answer.
    Cached(Bytes),
    /// Its effect exists already, or belongs to another call.
    Standing(Reply, Option<Arc<Effect>>),
}

impl Exit {
    /// A gate refused the call.
    pub(super) fn refused(refusal: Box<Refusal>) -> Self {
        Self::Refused { refusal, outcome: Outcome::Refused, dispatch: Box::default() }
    }

    /// The call passed the gates and was not sent all the same.
    pub(super) fn not_sent(refusal: Box<Refusal>) -> Self {
        Self::not_dispatched(refusal, Dispatch::default())
    }

    /// The same for a call that holds something.
    pub(super) fn not_dispatched(refusal: Box<Refusal>, dispatch: Dispatch) -> Self {
        let outcome = outcome_of(&refusal);
        Self::Refused { refusal, outcome, dispatch: Box::new(dispatch) }
    }
}

impl CallPipeline<'_> {
    /// Answers a call that was not sent.
    pub(super) async fn leave(mut self: Box<Self>, contract: &CompiledContract, exit: Exit) -> CallAnswer {
        match exit {
            Exit::Refused { refusal, outcome, dispatch } => {
                if matches!(refusal.effect, EffectKnowledge::None | EffectKnowledge::UnknownBefore) {
                    self.give_back_state().await;
                }
                CallAnswer::Result(self.refuse(contract.contract(), *refusal, outcome, None, *dispatch).await)
            }
            Exit::State(error) => self.refuse_state(error).await,
            Exit::Cached(answer) => self.serve(contract, &answer).await,
            Exit::Standing(reply, effect) => {
                self.charge.close(self.core, Made::No, 0).await;
                self.stand(contract, reply, effect).await
            }
        }
    }

    pub(super) async fn refuse_unresolved(mut self: Box<Self>, mut refusal: Box<Refusal>) -> CallAnswer {
        self.look_back(&mut refusal, Outcome::Refused).await;
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        let observation = Observation::of_refusal(&answer::occasion(&self.record), &refusal, Verification::none());
        records::put_down(self.core, self.record, false, None).await;
        if refusal.envelope_code == EnvelopeCode::ToolNotFound {
            return CallAnswer::UnknownTool(refusal);
        }
        CallAnswer::Result(answer::of_refusal(*refusal, observation))
    }

    async fn refuse_state(mut self: Box<Self>, error: RpcError) -> CallAnswer {
        let refusal = refusals::round_refused(&self.record.call_id, &error);
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        records::put_down(self.core, self.record, false, None).await;
        CallAnswer::Failed(error)
    }

    /// Refuses a call, and settles its effect by that where it has one. A call that was sent may be refused too, because of its answer.
    pub(super) async fn refuse(
        mut self: Box<Self>,
        contract: &ToolContract,
        mut refusal: Refusal,
        outcome: Outcome,
        quarantine: Option<Bytes>,
        dispatch: Dispatch,
    ) -> ToolResult {
        if let Some(effect) = &dispatch.effect
            && refusal.effect == EffectKnowledge::Unknown
        {
            refusal.handle = Some(effect.claim.id.to_string());
        }
        let outcome = if dispatch.effect.is_none() { self.look_back(&mut refusal, outcome).await } else { outcome };
        self.finish(outcome, refusal.error_code, Some(&refusal));
        // What may have happened must not be forgotten; a call that never left may be written down a moment later.
        let durable = refusal.effect != EffectKnowledge::None || quarantine.is_some();
        let end = dispatch.end_of_refusal(&refusal);
        let observed = |record: &CallRecord, refusal: &Refusal| {
            let observation =
                Observation::of_refusal(&occasion_of(record, contract), refusal, answer::verification(contract));
            answer::of_refusal(refusal.clone(), observation)
        };
        if dispatch.effect.is_none() {
            let answered = observed(&self.record, &refusal);
            self.conclude(dispatch, end, durable, quarantine).await;
            return answered;
        }
        let record = self.record.clone();
        let settled = self.conclude(dispatch, end, durable, quarantine).await;
        observed(&record, &settled.told(refusal))
    }

    /// Looks up the key of a call that is refused before its key was looked up: an earlier call with the key may have been done, and the
    /// refusal must not claim otherwise. Returns how the call is recorded.
    async fn look_back(&mut self, refusal: &mut Refusal, outcome: Outcome) -> Outcome {
        let Some(key) = self.unread_key.take() else { return outcome };
        if refusal.effect != EffectKnowledge::None {
            return outcome;
        }
        let reading = self.core.effects.find(Target::Key(key));
        let found = tokio::time::timeout(Duration::from_millis(LOOK_BACK_MS_MAX), reading).await;
        let of_key = match found {
            Ok(Ok(effect)) => effect::of_key(effect.as_ref()),
            _ => effect::of_unread_key(true, Rules::IN_FORCE),
        };
        if of_key == EffectKnowledge::None {
            return outcome;
        }
        refusal.mark_unknown_before();
        Outcome::Refused
    }
}

/// How a call that was not sent is recorded.
fn outcome_of(refusal: &Refusal) -> Outcome {
    match (refusal.gate, refusal.error_code, refusal.effect) {
        (GateName::State | GateName::Scope | GateName::Budget, _, _)
        | (_, TaxonomyClass::IdempotencyConflict, _)
        | (_, _, EffectKnowledge::UnknownBefore) => Outcome::Refused,
        (_, _, EffectKnowledge::None) => Outcome::NotExecuted,
        _ => Outcome::Unknown,
    }
}
