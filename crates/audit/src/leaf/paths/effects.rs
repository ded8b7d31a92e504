//! The path of an effect: claimed, dispatched, ended once. The steps are those of the effects' own machine; a step that it does not
//! make was not made by it.

use super::{
    StatePathFault,
    calls::{CallPath, CallStanding},
};
use crate::leaf::event::{EffectLeaf, LeafEffectState as State};

/// Where an effect is.
#[derive(Debug, Default)]
pub(super) struct EffectPath {
    state: Option<State>,
    /// Whether it was ever dispatched, or may have been in a window that the store has lost.
    may_have_run: bool,
}

impl EffectPath {
    pub(super) fn change(&mut self, leaf: &EffectLeaf, call: &CallPath) -> Result<(), StatePathFault> {
        let effect = || leaf.effect.clone();
        match (self.state, leaf.to) {
            (Some(from @ (State::Completed | State::FailedFinal | State::Compensated | State::Expired)), to) => {
                self.after_end(leaf, from, to)?;
            }
            (_, State::Dispatching) => may_dispatch(leaf, call)?,
            (None, to @ (State::Completed | State::FailedFinal | State::FailedRetryable)) => {
                return Err(StatePathFault::EndWithoutDispatch { effect: effect(), to });
            }
            // An answer of an earlier dispatch may come while the effect is claimed again.
            (Some(_), State::Completed) if !self.may_have_run => {
                return Err(StatePathFault::EndWithoutDispatch { effect: effect(), to: State::Completed });
            }
            // What was sent before the store lost its latest commits is unknown, and needs no state before.
            (_, State::OutcomeUnknown)
            | (None | Some(State::Claimed | State::FailedRetryable), State::Claimed)
            | (Some(_), State::Completed | State::FailedFinal)
            | (Some(State::Claimed | State::Dispatching | State::OutcomeUnknown), State::FailedRetryable)
            | (Some(State::FailedRetryable), State::Expired) => {}
            (from, to) => return Err(StatePathFault::EffectStep { effect: effect(), from, to }),
        }
        self.may_have_run |= matches!(leaf.to, State::Dispatching | State::OutcomeUnknown);
        self.state = Some(leaf.to);
        Ok(())
    }

    fn after_end(&self, leaf: &EffectLeaf, from: State, to: State) -> Result<(), StatePathFault> {
        let effect = leaf.effect.clone();
        match (from, to) {
            (State::Completed, State::Compensated)
            | (State::Completed | State::FailedFinal | State::Compensated, State::Expired) => Ok(()),
            (_, State::Dispatching | State::Claimed) => Err(StatePathFault::DispatchAfterEnd { effect, from }),
            (_, State::Completed | State::FailedFinal | State::FailedRetryable | State::OutcomeUnknown) => {
                Err(StatePathFault::SecondCompletion { effect, from, to })
            }
            _ => Err(StatePathFault::EffectStep { effect, from: self.state, to }),
        }
    }
}

fn may_dispatch(leaf: &EffectLeaf, call: &CallPath) -> Result<(), StatePathFault> {
    let (effect, call_id) = (leaf.effect.clone(), leaf.call.clone());
    match call.standing() {
        CallStanding::Allowed => Ok(()),
        CallStanding::Undecided => Err(StatePathFault::DispatchWithoutDecision { effect, call: call_id }),
        CallStanding::NotAllowed => Err(StatePathFault::DispatchWithoutPermission { effect, call: call_id }),
        CallStanding::NotApproved => Err(StatePathFault::DispatchWithoutApproval { effect, call: call_id }),
    }
}
