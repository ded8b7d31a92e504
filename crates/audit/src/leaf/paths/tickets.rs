//! The path of a ticket: opened for one payload, decided by people, used at most once.

use super::{StatePathFault, TrackedId, tracked_id};
use crate::leaf::{
    commitment::Commitment,
    event::{ApprovalLeaf, LeafTicketState as State, TicketLeaf},
};

/// People who may have decided about one ticket: more than any quorum.
const PEOPLE_MAX: usize = 256;

/// Where a ticket is.
#[derive(Debug, Default)]
pub(super) struct TicketPath {
    state: Option<State>,
    payload: Option<Commitment>,
    quorum: u8,
    /// Everybody who decided.
    people: Vec<TrackedId>,
    approvals: u8,
    is_denied: bool,
}

impl TicketPath {
    pub(super) fn change(&mut self, leaf: &TicketLeaf) -> Result<(), StatePathFault> {
        let ticket = || leaf.ticket.clone();
        match (self.state, leaf.to) {
            (None, State::Pending) => self.open(leaf)?,
            (Some(State::Pending), State::Approved) if self.approvals < self.quorum || self.is_denied => {
                let (approvals, quorum) = (self.approvals, self.quorum);
                return Err(StatePathFault::ApprovedWithoutQuorum { ticket: ticket(), approvals, quorum });
            }
            (Some(State::Pending), State::Denied) if !self.is_denied => {
                return Err(StatePathFault::DeniedByNobody { ticket: ticket() });
            }
            (Some(State::Pending), State::Approved | State::Denied | State::AutoDenied | State::Superseded)
            | (Some(State::Approved), State::Consumed | State::Lapsed | State::Superseded) => {}
            (Some(State::Consumed), State::Consumed) => {
                return Err(StatePathFault::SecondConsumption { ticket: ticket() });
            }
            (_, State::Consumed) => return Err(StatePathFault::ConsumptionWithoutApproval { ticket: ticket() }),
            (from, to) => return Err(StatePathFault::TicketStep { ticket: ticket(), from, to }),
        }
        self.state = Some(leaf.to);
        Ok(())
    }

    fn open(&mut self, leaf: &TicketLeaf) -> Result<(), StatePathFault> {
        let (Some(payload), Some(quorum @ 1..)) = (leaf.payload, leaf.quorum) else {
            return Err(StatePathFault::IncompleteTicket { ticket: leaf.ticket.clone() });
        };
        (self.payload, self.quorum) = (Some(payload), quorum);
        Ok(())
    }

    pub(super) fn decide(&mut self, leaf: &ApprovalLeaf) -> Result<(), StatePathFault> {
        let (ticket, by) = (leaf.ticket.clone(), leaf.by.clone());
        if self.state != Some(State::Pending) {
            return Err(StatePathFault::ApprovalTooLate { ticket, by });
        }
        if self.payload != Some(leaf.payload) {
            return Err(StatePathFault::OtherPayload { ticket, by });
        }
        let person = tracked_id(&leaf.by);
        if self.people.contains(&person) {
            return Err(StatePathFault::SecondApproval { ticket, by });
        }
        if self.people.len() == PEOPLE_MAX {
            return Err(StatePathFault::TooMany);
        }
        self.people.push(person);
        self.approvals = self.approvals.saturating_add(u8::from(leaf.approves));
        self.is_denied |= !leaf.approves;
        Ok(())
    }
}
