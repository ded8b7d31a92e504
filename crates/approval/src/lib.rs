//! Approvals: when a call needs one, who may give it, and how long it lasts.
//!
//! [`demand`] puts contract, class, policies and settings together. A [`Ticket`] is one request for an approval; [`step`] decides its next
//! state, and every store runs it inside its own transaction. People's decisions are signed statements ([`SignedDecision`]), and a
//! [`Warrant`] carries them to the dispatch of the call and to people outside who check it. An [`ApprovalGrant`] is what a person allows from then on:
//! calls like approved ones, within bounds, a number of times. A [`ProposedPlan`] is what an agent asks to be allowed so, before any call.
//!
//! Everything here takes values and returns values: no I/O and no clock. Deliberately not here: whether a call needs the approval that it
//! shows (gate 10), storage, and how people are authenticated.

mod cost_ceiling;
mod deadline;
mod decision;
mod demand;
mod eligibility;
mod escalation;
mod event;
mod facts;
mod grant;
mod grant_bounds;
mod grant_leaves;
mod grant_obstacle;
mod grant_step;
mod grant_terms;
mod granted_call;
mod notice;
mod packet;
mod passkey_record;
mod plan;
mod policy_terms;
mod rendering;
mod roles;
mod settings;
mod standing_grant;
mod step;
#[cfg(test)]
mod tests;
mod ticket;
mod ticket_id;
mod warrant;
mod warrant_passkeys;
mod when;

pub use cost_ceiling::{CostCeiling, CostCeilingFault};
pub use deadline::Deadline;
pub use decision::{ApprovalDecision, ApprovalVerdict, DecisionFault, SignedDecision, passkey_decision_challenge};
pub use demand::{ApprovalCause, ApprovalDemand, EscalationTier};
pub use eligibility::{Approver, Ineligible, check_eligible};
pub use escalation::{escalation_level, responsible_groups};
pub use event::{ApprovalUse, ApprovalUseKind, TicketEvent, TicketReply, TicketRequest};
pub use facts::ApprovalFacts;
pub use grant::{ApprovalGrant, GrantExpectation, GrantFault, GrantKey, SignedGrant};
pub use grant_bounds::{ArgumentBound, BoundFault, BoundRule, NarrowedBound, proposed_bounds};
pub use grant_leaves::{ArgumentLeaf, LEAVES_MAX, LeafFault, argument_leaves};
pub use grant_obstacle::GrantObstacle;
pub use grant_step::{GRANT_LIFE_MS_MAX, GRANT_USES_MAX, PLAN_CALLS_MAX};
pub use grant_terms::{GrantTerms, grant_obstacle};
pub use granted_call::GrantedCall;
pub use notice::{TicketNotice, TicketNoticeKind, due_notice, next_notice_ms};
pub use packet::{ApprovalPacket, PacketField, PacketFlag, PacketPlan, PacketPlanCall, requester_in_words};
pub use passkey_record::{PasskeyAssertionRecord, PasskeyRecordFault};
pub use plan::{
    PLAN_PURPOSE_CHARS_MAX, PLAN_VALUES_MAX, PlanFault, PlanTerms, ProposedCall, ProposedPlan, call_obstacle,
};
pub use policy_terms::{PolicyApproval, PolicyApprovalFault};
pub use rendering::{RenderedArgument, RenderedArguments, render_arguments};
pub use roles::{PersonRole, RoleAssignments, RoleMember, RoleMemberFault};
pub use settings::{ApprovalSettings, PatternSettings, TrustLevel};
pub use standing_grant::{GrantDraw, GrantEnd, GrantRevocation, StandingGrant, VerifiedGrant};
pub use step::{
    DENIAL_HOLD_MS, DENIALS_IN_A_ROW_MAX, DENIALS_IN_RUN_MAX, RunDenials, TicketContext, TicketTransition, step,
};
pub use ticket::{StateBefore, Ticket, TicketConsumption, TicketKey, TicketPreview, TicketState, TicketSubject};
pub use ticket_id::TicketId;
pub use warrant::{VerifiedWarrant, Warrant, WarrantClaims, WarrantExpectation, WarrantFault};
pub use warrant_passkeys::{KnownPasskey, KnownPasskeyFault};
pub use when::{ApprovalInputs, demand};
