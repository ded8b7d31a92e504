//! The gateway's own tool for results: answers with the end of another call, or with its state. The call goes through the gates like any other; nothing
//! is sent.

use std::{sync::Arc, time::Duration};

use servanda_contract::{GateName, Refusal, TaxonomyClass, record::Outcome, taxonomy::NextAction};
use servanda_effects::effect::{EffectReply, EffectState, StoredAnswer};
use servanda_gates::{CompiledContract, ResolvedCall};
use tokio::time::Instant;

use super::{
    context::CallContext,
    evidence::{CallExit, Dispatch},
    state::CallPipeline,
};
use crate::{
    client::CallAnswer,
    long_running::{self, LONG_WAIT_MS_MAX},
    world::result_tool_args,
};

impl CallPipeline<'_> {
    /// Answers with the state of long work.
    pub(super) async fn fetch(
        mut self: Box<Self>,
        resolved: ResolvedCall,
        own: &CompiledContract,
        context: &CallContext,
    ) -> CallAnswer {
        // The tool gives callers only what is theirs already, so neither a credential nor a policy is checked.
        let cleared = match self.judge_own_tool(resolved, own, context).await {
            Ok(cleared) => cleared,
            Err(refusal) => return self.answer_exit(own, CallExit::refused(refusal)).await,
        };
        let permit = cleared.permit();
        let call_id = permit.call_id().clone();
        let wish = result_tool_args(permit);
        let seen = match &wish {
            Some(wish) => {
                let wait_ms =
                    wish.wait_ms.min(self.calls.deferred.long_running.wait_ms_max.unwrap_or(LONG_WAIT_MS_MAX));
                let until = Instant::now() + Duration::from_millis(wait_ms);
                long_running::await_end(
                    &self.calls.deferred.long_running,
                    &context.requester,
                    &wish.handle,
                    until,
                    &context.terms.cancel,
                )
                .await
            }
            None => None,
        };
        let Some(seen) = seen else {
            let refusal = no_such_work(call_id);
            return CallAnswer::Result(
                self.refuse(own.contract(), refusal, Outcome::Refused, None, Dispatch::default()).await,
            );
        };
        self.record.effect_id = Some(seen.effect.id.to_string());
        let contract = seen.contract(self.snapshot);
        let contract = contract.as_deref().unwrap_or(own);
        let refusal = match seen.effect.state {
            EffectState::Claimed | EffectState::Dispatching => long_running::under_way(&call_id, &seen),
            EffectState::FailedRetryable => long_running::never_ran(&call_id, &seen),
            EffectState::OutcomeUnknown => {
                return Box::pin(self.answer_existing(contract, EffectReply::Unknown, Some(Arc::new(seen.effect))))
                    .await;
            }
            EffectState::Expired => {
                return Box::pin(self.answer_existing(contract, EffectReply::KeyExpired, Some(Arc::new(seen.effect))))
                    .await;
            }
            EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated => {
                let lost = || StoredAnswer::Known("the answer was not kept".to_owned());
                let reply = EffectReply::Replay(seen.effect.answer.clone().unwrap_or_else(lost));
                return Box::pin(self.answer_existing(contract, reply, Some(Arc::new(seen.effect)))).await;
            }
        };
        CallAnswer::Result(self.refuse(contract.contract(), refusal, Outcome::Refused, None, Dispatch::default()).await)
    }
}

/// There is no such work, or it belongs to another caller. Both are refused with the same words, so that a caller cannot tell them apart.
fn no_such_work(call_id: servanda_contract::CallId) -> Refusal {
    let mut refusal = Refusal::new(
        call_id,
        GateName::Perform,
        TaxonomyClass::SemanticInvalidity,
        "there is no long work with that handle, or its result is no longer stored".to_owned(),
        "use the handle exactly as it was given; if it is an old one, look at the target with a read-only tool"
            .to_owned(),
    );
    refusal.next_action = NextAction::RefreshStateAndReplan;
    refusal
}
