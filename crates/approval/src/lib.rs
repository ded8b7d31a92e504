//! Approvals: when a call needs one, who may give it, and how long it lasts.
//!
//! [`demand`] puts contract, class, policies and settings together. A [`Ticket`] is one request for an approval; [`step`] decides its next
//! state, and every store runs it inside its own transaction. People's decisions are signed statements ([`SignedDecision`]), and a
//! [`Warrant`] carries them to the dispatch of the call and to people outside who check it.
//!
//! Everything here takes values and returns values: no I/O and no clock. Deliberately not here: whether a call needs the approval that it
//! shows (gate 10), storage, and how people are authenticated.

mod decision;
mod demand;
mod eligibility;
mod escalation;
mod event;
mod facts;
mod notice;
mod packet;
mod passkey_record;
mod policy_terms;
mod rendering;
mod roles;
mod settings;
mod step;
#[cfg(test)]
mod tests;
mod ticket;
mod ticket_id;
mod warrant;
mod warrant_passkeys;
mod when;

pub use decision::{ApprovalDecision, ApprovalVerdict, DecisionFault, SignedDecision, passkey_decision_challenge};
pub use demand::{ApprovalCause, ApprovalDemand, EscalationTier};
pub use eligibility::{Approver, Ineligible, check_eligible};
pub use escalation::{escalation_level, responsible_groups};
pub use event::{ApprovalUse, TicketEvent, TicketReply, TicketRequest};
pub use facts::ApprovalFacts;
pub use notice::{TicketNotice, TicketNoticeKind, due_notice, next_notice_ms};
pub use packet::{ApprovalPacket, PacketField, PacketFlag};
pub use passkey_record::{PasskeyAssertionRecord, PasskeyRecordFault};
pub use policy_terms::{PolicyApproval, PolicyApprovalFault};
pub use rendering::{RenderedArgument, RenderedArguments, render_arguments};
pub use roles::{PersonRole, RoleAssignments, RoleMember, RoleMemberFault};
pub use settings::{ApprovalSettings, PatternSettings, TrustLevel};
pub use step::{
    DENIAL_HOLD_MS, DENIALS_IN_A_ROW_MAX, DENIALS_IN_RUN_MAX, RunDenials, TicketContext, TicketTransition, step,
};
pub use ticket::{
    Deadline, StateBefore, Ticket, TicketConsumption, TicketKey, TicketPreview, TicketState, TicketSubject,
};
pub use ticket_id::TicketId;
pub use warrant::{VerifiedWarrant, Warrant, WarrantClaims, WarrantExpectation, WarrantFault};
pub use warrant_passkeys::{KnownPasskey, KnownPasskeyFault};
pub use when::{ApprovalInputs, demand};
