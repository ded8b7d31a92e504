//! What happens to a ticket, and what a store replies.

use servanda_contract::{CallId, Digest};

use crate::{
    ApprovalDemand, Approver, GrantEnd, Ineligible, SignedDecision, SignedGrant, Ticket, TicketId, TicketKey,
    TicketNotice, ticket::TicketSubject,
};

/// Something that happens to a ticket.
#[derive(Debug, Clone, PartialEq)]
pub enum TicketEvent {
    /// A call needs an approval: opens a ticket, or joins the open one of the same payload.
    Request(Box<TicketRequest>),
    /// A grant covers a call: asks whether a decision of people speaks against it. Opens no ticket, and ends the one that waits.
    Cover(Box<TicketRequest>),
    /// A person decides.
    Decide {
        /// The decision.
        decision: Box<SignedDecision>,
        /// The person, as the gateway authenticated them.
        approver: Box<Approver>,
        /// What the approval of a plan allows, signed for that person; none for everything else. It holds if and only if the decision
        /// approves the plan.
        grant: Option<Box<SignedGrant>>,
    },
    /// A person allows calls like this one from now on.
    Grant {
        /// The grant.
        grant: Box<SignedGrant>,
        /// The person, as the gateway authenticated them.
        approver: Box<Approver>,
    },
    /// A person takes the grant back.
    Revoke {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// The call is dispatched and uses the approval, or draws on the grant. Only a store applies it, in the transaction of the dispatch.
    Consume {
        /// What is used.
        usage: ApprovalUse,
        /// The effect of the call.
        effect_id: String,
    },
    /// An approver lost the right to decide, or what was approved changed.
    Supersede {
        /// Why.
        reason: String,
    },
    /// Time has passed: the ticket ends if it is due.
    Tick,
    /// People were told about it.
    Notified {
        /// What they were told.
        notice: TicketNotice,
    },
}

/// A call that needs an approval.
#[derive(Debug, Clone, PartialEq)]
pub struct TicketRequest {
    /// The id of the ticket if one is opened.
    pub id: TicketId,
    /// What the ticket is looked up by.
    pub key: TicketKey,
    /// The call.
    pub subject: TicketSubject,
    /// The approval that it needs.
    pub demand: ApprovalDemand,
}

/// The use of an approval by a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalUse {
    /// What of the ticket is used.
    pub kind: ApprovalUseKind,
    /// The ticket.
    pub ticket: TicketId,
    /// H of the call.
    pub payload: Digest,
    /// The call.
    pub call_id: CallId,
    /// The digest of the warrant, or of the grant.
    pub warrant: Digest,
}

/// What of a ticket a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalUseKind {
    /// The approval of this very call.
    Approval,
    /// One use of the grant that a person made from the ticket.
    Grant {
        /// Which call of the grant, counted from zero.
        call: usize,
        /// What it takes of the grant's money, in millionths.
        cost_micros: u64,
    },
}

/// What a store replies to an event.
#[derive(Debug, Clone, PartialEq)]
pub enum TicketReply {
    /// People have not decided yet.
    Pending,
    /// The call may be made.
    Approved,
    /// A person denied it. The same call is not asked about again before this time of the store's clock.
    Denied {
        /// When it may be asked about again.
        until_ms: u64,
    },
    /// Nobody decided in time. The same call may be asked about again.
    NobodyDecided,
    /// It was approved and not used in time. The same call may be asked about again.
    Lapsed,
    /// People denied so many calls of the run that no further ones are asked about before this time of the store's clock.
    RunStopped {
        /// When further calls are asked about again.
        until_ms: u64,
    },
    /// The decision is recorded; more people have to approve.
    Recorded {
        /// How many.
        missing: u8,
    },
    /// A grant covers the call, and nothing speaks against it.
    Covered,
    /// The approval is used up by this call, or the grant is drawn on for it.
    Consumed,
    /// The grant cannot be drawn on any more.
    GrantEnded(GrantEnd),
    /// The ticket changed as the event said.
    Done,
    /// Nothing was changed.
    Unchanged,
    /// The person may not decide.
    NotEligible(Ineligible),
    /// The person was shown another payload than the ticket's.
    OtherPayload,
    /// The ticket is in a state in which the event means nothing.
    NotNow,
    /// There is no such ticket.
    NotFound,
}

impl TicketEvent {
    /// Whether it may open a ticket.
    pub const fn opens(&self) -> bool {
        matches!(self, Self::Request(_))
    }
}

impl TicketReply {
    /// Whether a call that consumes an approval may be dispatched.
    pub const fn is_consumed(&self) -> bool {
        matches!(self, Self::Consumed)
    }
}

impl Ticket {
    /// Whether this call, in this effect, has used it already. Repeating the use changes nothing.
    pub fn is_used_by(&self, usage: &ApprovalUse, effect_id: &str) -> bool {
        self.consumed.as_ref().is_some_and(|used| {
            used.call_id == usage.call_id && used.effect_id == effect_id && used.warrant == usage.warrant
        })
    }
}
