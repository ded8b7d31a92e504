//! Ends a call of which nothing was sent: refused, answered from the cache, or answered from its existing effect.
//!
//! Every stage before the upstream ends a call by returning a [`CallExit`]. A call that was sent ends in `ending`.

use servanda_contract::refusal::EffectKnowledge;
use servanda_gates::CompiledContract;

use super::{evidence::CallExit, state::CallPipeline};
use crate::{budgets::DispatchCertainty, client::CallAnswer};

impl CallPipeline<'_> {
    /// Answers a call that was not sent.
    pub(super) async fn answer_exit(mut self: Box<Self>, contract: &CompiledContract, exit: CallExit) -> CallAnswer {
        match exit {
            CallExit::Refused { refusal, outcome, dispatch } => {
                if matches!(refusal.effect, EffectKnowledge::None | EffectKnowledge::UnknownBefore) {
                    self.give_back_state().await;
                }
                CallAnswer::Result(self.refuse(contract.contract(), *refusal, outcome, None, *dispatch).await)
            }
            CallExit::SentToPage(json) => self.answer_with_page(json).await,
            CallExit::HeldAsTask { id, json } => self.answer_with_held_task(id, json).await,
            CallExit::UnusableState(error) => self.refuse_state(error).await,
            CallExit::Cached(answer) => self.answer_from_cache(contract, &answer).await,
            CallExit::ExistingEffect(reply, effect) => {
                self.charge.close(DispatchCertainty::No, 0).await;
                self.answer_existing(contract, reply, effect).await
            }
        }
    }
}
