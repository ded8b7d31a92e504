//! Which operation a call is: the key that its effect is found by, and the `requestState` that it continues from.

use servanda_contract::Refusal;
use servanda_effects::effect::{ClientKey, EffectId};
use servanda_gates::JudgedCall;
use servanda_mcp::{RpcError, envelope::code};

use super::{
    context::{CallContext, ResumedState},
    evidence::{CallExit, CallOperation},
    state::CallPipeline,
};
use crate::answers::{existing_effect, refusals};

impl CallPipeline<'_> {
    /// Finds out which operation the call is, and uses up the state that it continues from.
    pub(super) async fn identify(
        &mut self,
        permit: &JudgedCall,
        context: &mut CallContext,
    ) -> Result<CallOperation, CallExit> {
        let key = self.key(permit, context).await.map_err(CallExit::refused)?;
        let is_keyed = key.can_come_again() && permit.effect_class().mutates();
        self.unread_key = is_keyed.then(|| permit.effect_key(key.clone()));
        let continues = self.use_state(permit, &key, context).await.map_err(CallExit::UnusableState)?;
        context.binding = context.binding.take().map(|binding| binding.for_operation(&key));
        Ok(CallOperation { key, continues })
    }

    /// The key of the operation. A call that continues from a state belongs to the operation of that state.
    async fn key(&self, permit: &JudgedCall, context: &CallContext) -> Result<ClientKey, Box<Refusal>> {
        let own = self.calls.keys.key_for(permit).await;
        let own = own.map_err(|error| refusals::no_key(permit.call_id().clone(), &error))?;
        match context.state.as_ref().and_then(|state| state.key.as_ref()) {
            Some(carried) if own.can_come_again() && own != *carried => {
                Err(Box::new(refusals::key_of_another_operation(permit.call_id().clone())))
            }
            Some(carried) => Ok(carried.clone()),
            None => match self.done_late(permit, &own) {
                Some(done) => Err(Box::new(existing_effect::done_late(permit.call_id().clone(), &done))),
                None => Ok(own),
            },
        }
    }

    /// The effect of an identical call that was reported as unknown and was done late. Found only for a call that could be its repetition:
    /// one that may change something and has no key.
    pub(super) fn done_late(&self, permit: &JudgedCall, key: &ClientKey) -> Option<EffectId> {
        if !permit.effect_class().mutates() || key.can_come_again() {
            return None;
        }
        let (caller, now) = (&permit.proposal().caller, self.core.clock.now());
        self.calls.deferred.late_completions.find(caller, permit.proposal_digest(), now)
    }

    /// Uses up the state that a change continues from, because a change may use a state only once, and returns its nonce. A change without
    /// a state was asked nothing, so its answers are dropped. A read may use its state again. An operation with a key needs no note: its
    /// effect knows which state it waits for.
    async fn use_state(
        &mut self,
        permit: &JudgedCall,
        key: &ClientKey,
        context: &mut CallContext,
    ) -> Result<Option<String>, RpcError> {
        if !permit.effect_class().mutates() {
            return Ok(context.state.as_ref().map(|state| state.nonce.clone()));
        }
        let Some(ResumedState { nonce, .. }) = context.state.take() else {
            context.continuation.input_responses = None;
            return Ok(None);
        };
        if !key.can_come_again() {
            let deadline = self.deadline(permit);
            let spent = tokio::time::timeout_at(deadline, self.calls.bridge.spend(&nonce, permit.call_id()));
            spent.await.unwrap_or_else(|_| Err(no_time()))?;
            self.spent_nonce = Some(nonce.clone());
        }
        Ok(Some(nonce))
    }

    /// Gives back the state that this call used up, because nothing was sent for it.
    pub(super) async fn give_back_state(&mut self) {
        if let Some(nonce) = self.spent_nonce.take() {
            self.calls.bridge.unspend(&nonce).await;
        }
    }
}

fn no_time() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the use of the `requestState` could not be put on record in time")
        .with_hint("nothing was sent; operators: `servanda doctor` looks at the ledger")
}
