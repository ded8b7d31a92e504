//! The paths that are not legal, by name.

use crate::leaf::event::{LeafEffectState, LeafTicketState};

/// A leaf that may not follow those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatePathFault {
    /// Two decisions.
    #[error("call `{call}` is decided a second time")]
    SecondDecision {
        /// The call.
        call: String,
    },
    /// Two ends of a call.
    #[error("call `{call}` ends a second time")]
    SecondOutcome {
        /// The call.
        call: String,
    },
    /// An end without a beginning.
    #[error("call `{call}` ends, and no leaf before decides it")]
    OutcomeWithoutDecision {
        /// The call.
        call: String,
    },
    /// Done although it was refused.
    #[error("call `{call}` succeeds, and its decision did not allow it")]
    SuccessWithoutPermission {
        /// The call.
        call: String,
    },
    /// Sent without a decision.
    #[error("effect `{effect}` is dispatched, and no leaf before decides its call `{call}`")]
    DispatchWithoutDecision {
        /// The effect.
        effect: String,
        /// The call.
        call: String,
    },
    /// Sent although it was refused.
    #[error("effect `{effect}` is dispatched, and the decision about its call `{call}` did not allow it")]
    DispatchWithoutPermission {
        /// The effect.
        effect: String,
        /// The call.
        call: String,
    },
    /// Sent before the approval was used up.
    #[error("effect `{effect}` is dispatched, and its call `{call}` did not use the approval that it needs")]
    DispatchWithoutApproval {
        /// The effect.
        effect: String,
        /// The call.
        call: String,
    },
    /// Sent again after its end.
    #[error("effect `{effect}` is dispatched after it ended as {from:?}")]
    DispatchAfterEnd {
        /// The effect.
        effect: String,
        /// Its end.
        from: LeafEffectState,
    },
    /// Ended, and never sent.
    #[error("effect `{effect}` ends as {to:?}, and it was not dispatched")]
    EndWithoutDispatch {
        /// The effect.
        effect: String,
        /// The end.
        to: LeafEffectState,
    },
    /// Two ends of an effect.
    #[error("effect `{effect}` ends a second time: it was {from:?} and becomes {to:?}")]
    SecondCompletion {
        /// The effect.
        effect: String,
        /// Its end.
        from: LeafEffectState,
        /// The other one.
        to: LeafEffectState,
    },
    /// Another step that effects do not make.
    #[error("effect `{effect}` becomes {to:?} from {from:?}")]
    EffectStep {
        /// The effect.
        effect: String,
        /// Its state; none if no leaf before has it.
        from: Option<LeafEffectState>,
        /// The new one.
        to: LeafEffectState,
    },
    /// Used, and people did not approve.
    #[error("ticket `{ticket}` is used, and it is not approved")]
    ConsumptionWithoutApproval {
        /// The ticket.
        ticket: String,
    },
    /// Used twice.
    #[error("ticket `{ticket}` is used a second time")]
    SecondConsumption {
        /// The ticket.
        ticket: String,
    },
    /// Approved by too few.
    #[error("ticket `{ticket}` is approved, and {approvals} of {quorum} people approved it")]
    ApprovedWithoutQuorum {
        /// The ticket.
        ticket: String,
        /// Those who did.
        approvals: u8,
        /// Those who have to.
        quorum: u8,
    },
    /// The same person again.
    #[error("`{by}` decides about ticket `{ticket}` a second time")]
    SecondApproval {
        /// The ticket.
        ticket: String,
        /// The person.
        by: String,
    },
    /// Shown something else.
    #[error("`{by}` decides about another payload than that of ticket `{ticket}`")]
    OtherPayload {
        /// The ticket.
        ticket: String,
        /// The person.
        by: String,
    },
    /// A decision about a ticket that no longer takes one.
    #[error("`{by}` decides about ticket `{ticket}`, which is not pending")]
    ApprovalTooLate {
        /// The ticket.
        ticket: String,
        /// The person.
        by: String,
    },
    /// A denial that names no person.
    #[error("ticket `{ticket}` is denied, and no person denied it")]
    DeniedByNobody {
        /// The ticket.
        ticket: String,
    },
    /// Opened without what it is about.
    #[error("ticket `{ticket}` is opened without a payload or without a number of people, at least one")]
    IncompleteTicket {
        /// The ticket.
        ticket: String,
    },
    /// Another step that tickets do not make.
    #[error("ticket `{ticket}` becomes {to:?} from {from:?}")]
    TicketStep {
        /// The ticket.
        ticket: String,
        /// Its state; none if no leaf before has it.
        from: Option<LeafTicketState>,
        /// The new one.
        to: LeafTicketState,
    },
    /// Too much to remember.
    #[error("the log has more calls, effects or tickets than can be checked at once ({max})", max = super::TRACKED_MAX)]
    TooMany,
}
