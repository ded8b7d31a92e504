//! How a call ends with nothing sent: refused, answered from the cache, or answered by what its effect already is.
//!
//! Every stage before the upstream ends a call by returning an [`Exit`]. A call that was sent ends in `ending`.

use servanda_contract::refusal::EffectKnowledge;
use servanda_gates::CompiledContract;

use super::{evidence::Exit, state::CallPipeline};
use crate::{budgets::Made, client::CallAnswer};

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
            Exit::UnusableState(error) => self.refuse_state(error).await,
            Exit::Cached(answer) => self.serve(contract, &answer).await,
            Exit::Standing(reply, effect) => {
                self.charge.close(Made::No, 0).await;
                self.stand(contract, reply, effect).await
            }
        }
    }
}
