//! The path of a call: one decision, then at most one end.

use super::{StatePathFault, TrackedId, tracked_id};
use crate::leaf::event::{DecisionLeaf, LeafStatus, LeafTicketState, LeafVerdict, OutcomeLeaf, TicketLeaf};

/// Where a call is.
#[derive(Debug, Default)]
pub(super) struct CallPath {
    decision: Option<LeafVerdict>,
    has_ended: bool,
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

    pub(super) fn end(&mut self, outcome: &OutcomeLeaf) -> Result<(), StatePathFault> {
        let call = || outcome.call.clone();
        if std::mem::replace(&mut self.has_ended, true) {
            return Err(StatePathFault::SecondOutcome { call: call() });
        }
        match (self.standing(), outcome.status) {
            (CallStanding::Undecided, _) => Err(StatePathFault::OutcomeWithoutDecision { call: call() }),
            (CallStanding::NotAllowed, LeafStatus::Success) => {
                Err(StatePathFault::SuccessWithoutPermission { call: call() })
            }
            // With an effect, its dispatch was checked; the answer may also be an earlier call's.
            (CallStanding::NotApproved, LeafStatus::Success) if outcome.effect.is_none() => {
                Err(StatePathFault::SuccessWithoutPermission { call: call() })
            }
            _ => Ok(()),
        }
    }

    /// Remembers which approval the call used.
    pub(super) fn note(&mut self, ticket: &TicketLeaf) {
        if ticket.to == LeafTicketState::Consumed {
            self.used = Some(tracked_id(&ticket.ticket));
        }
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
