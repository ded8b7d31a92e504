//! The path of a call: one decision, then at most one end.

use super::{StatePathFault, TrackedId, tracked_id};
use crate::leaf::event::{CallLeaf, DecisionLeaf, LeafStatus, LeafTicketState, LeafVerdict, OutcomeLeaf, TicketLeaf};

/// The class of calls that end because the store or an upstream did not answer.
const GIVEN_UP_CLASS: &str = "DEPENDENCY_UNAVAILABLE";

/// Where a call is.
#[derive(Debug, Default)]
pub(super) struct CallPath {
    decision: Option<LeafVerdict>,
    has_ended: bool,
    /// Whether it ended because something that the gateway depends on did not answer.
    was_given_up: bool,
    /// The approval that the decision names.
    needs: Option<TrackedId>,
    /// The approval that the call used.
    used: Option<TrackedId>,
}

/// Whether the effect of a call may be dispatched.
pub(super) enum CallStanding {
    Undecided,
    NotAllowed,
    NotApproved,
    Allowed,
}

impl CallPath {
    pub(super) fn decide(&mut self, decision: &DecisionLeaf) -> Result<(), StatePathFault> {
        // A store that was silent may commit a dispatch after its gateway gave the call up. Nothing is sent then; recovery takes the effect up.
        if self.was_given_up && decision.verdict == LeafVerdict::Allow {
            self.decision = Some(LeafVerdict::Allow);
            self.needs = decision.ticket.as_deref().map(tracked_id);
            return Ok(());
        }
        // A call that waited for people is decided again when they have decided.
        let waited = self.decision == Some(LeafVerdict::RequiresApproval);
        let is_second = self.decision.is_some() && !(waited && decision.verdict != LeafVerdict::RequiresApproval);
        if is_second || self.has_ended {
            return Err(StatePathFault::SecondDecision { call: decision.call.clone() });
        }
        self.decision = Some(decision.verdict);
        self.needs = decision.ticket.as_deref().map(tracked_id);
        Ok(())
    }

    /// The decision comes with an end, and may have been told before: a call that was under way, and is over, has it twice. And a store may
    /// commit a dispatch and say so too late; then the call is refused although it was allowed, and nothing is sent.
    pub(super) fn decide_with_end(&mut self, call: &CallLeaf) -> Result<(), StatePathFault> {
        let verdict = call.decision.verdict;
        let is_told_again = self.decision == Some(verdict);
        let is_withdrawn = self.decision == Some(LeafVerdict::Allow)
            && verdict == LeafVerdict::Deny
            && call.outcome.status != Some(LeafStatus::Success);
        if (is_told_again || is_withdrawn) && !self.has_ended { Ok(()) } else { self.decide(&call.decision) }
    }

    pub(super) fn end(&mut self, outcome: &OutcomeLeaf) -> Result<(), StatePathFault> {
        let call = || outcome.call.clone();
        if self.has_ended {
            return Err(StatePathFault::SecondOutcome { call: call() });
        }
        self.has_ended = outcome.status.is_some();
        self.was_given_up =
            outcome.status != Some(LeafStatus::Success) && outcome.class.as_deref() == Some(GIVEN_UP_CLASS);
        match (self.standing(), outcome.status) {
            (CallStanding::Undecided, _) => Err(StatePathFault::OutcomeWithoutDecision { call: call() }),
            (CallStanding::NotAllowed, Some(LeafStatus::Success)) => {
                Err(StatePathFault::SuccessWithoutPermission { call: call() })
            }
            // With an effect, its dispatch was checked; the answer may also be an earlier call's.
            (CallStanding::NotApproved, Some(LeafStatus::Success)) if outcome.effect.is_none() => {
                Err(StatePathFault::SuccessWithoutPermission { call: call() })
            }
            _ => Ok(()),
        }
    }

    /// Remembers which approval the call used.
    pub(super) fn note(&mut self, ticket: &TicketLeaf) {
        if ticket.to == LeafTicketState::Consumed {
            self.use_approval(&ticket.ticket);
        }
    }

    /// Remembers that the call used the approval of this ticket, or the grant that is kept with it.
    pub(super) fn use_approval(&mut self, ticket: &str) {
        self.used = Some(tracked_id(ticket));
    }

    pub(super) fn standing(&self) -> CallStanding {
        match self.decision {
            None => CallStanding::Undecided,
            Some(LeafVerdict::Deny | LeafVerdict::RequiresApproval) => CallStanding::NotAllowed,
            Some(LeafVerdict::Allow) if self.needs.is_some() && self.needs != self.used => CallStanding::NotApproved,
            Some(LeafVerdict::Allow) => CallStanding::Allowed,
        }
    }
}
