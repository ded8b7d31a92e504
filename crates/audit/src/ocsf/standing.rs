//! How an event went, in OCSF's words: its activity, status and severity. Deliberately not here: who and what.

use crate::leaf::{
    AuditEvent, DecisionLeaf, LeafEffectState, LeafMutation, LeafStatus, LeafTicketState, LeafVerdict, OutcomeLeaf,
};

/// Success, failure, what is not known, and what OCSF has no word for.
const SUCCESS: (u32, &str) = (1, "Success");
const FAILURE: (u32, &str) = (2, "Failure");
const UNKNOWN: (u32, &str) = (0, "Unknown");
const OTHER: u32 = 99;

pub(super) struct Severity {
    pub(super) id: u32,
    pub(super) name: &'static str,
}

/// What was done: OCSF knows creating, reading, updating and deleting. What a tool that changes something does is none of these for certain.
pub(super) const fn activity(event: &AuditEvent) -> (u32, &'static str) {
    const CREATE: (u32, &str) = (1, "Create");
    const READ: (u32, &str) = (2, "Read");
    const UPDATE: (u32, &str) = (3, "Update");
    match event {
        AuditEvent::Decision(decision) => match decision.mutation {
            Some(LeafMutation::Read) => READ,
            _ => (OTHER, "Call"),
        },
        AuditEvent::Call(call) => match call.decision.mutation {
            Some(LeafMutation::Read) => READ,
            _ => (OTHER, "Call"),
        },
        AuditEvent::Outcome(_) => (OTHER, "End of a call"),
        AuditEvent::Effect(effect) => match effect.to {
            LeafEffectState::Claimed => CREATE,
            _ => UPDATE,
        },
        AuditEvent::Ticket(ticket) => match ticket.to {
            LeafTicketState::Pending => CREATE,
            _ => UPDATE,
        },
        AuditEvent::Approval(approval) if approval.approves => (OTHER, "Approve"),
        AuditEvent::Approval(_) => (OTHER, "Deny"),
        AuditEvent::Change(_) => UPDATE,
    }
}

/// Whether it was allowed, and how it ended.
pub(super) fn status(event: &AuditEvent) -> (u32, &'static str) {
    match event {
        AuditEvent::Decision(decision) => of_verdict(decision.verdict),
        AuditEvent::Outcome(outcome) => of_end(outcome),
        AuditEvent::Call(call) => match call.decision.verdict {
            LeafVerdict::Allow => of_end(&call.outcome),
            verdict => of_verdict(verdict),
        },
        AuditEvent::Effect(effect) => match effect.to {
            LeafEffectState::Completed | LeafEffectState::Compensated => SUCCESS,
            LeafEffectState::FailedFinal | LeafEffectState::FailedRetryable => FAILURE,
            LeafEffectState::OutcomeUnknown => UNKNOWN,
            LeafEffectState::Claimed | LeafEffectState::Dispatching => (OTHER, "Under way"),
            LeafEffectState::Expired => (OTHER, "Expired"),
        },
        AuditEvent::Ticket(ticket) => match ticket.to {
            LeafTicketState::Approved | LeafTicketState::Consumed => SUCCESS,
            LeafTicketState::Denied | LeafTicketState::AutoDenied => FAILURE,
            LeafTicketState::Pending => (OTHER, "Waits for people"),
            LeafTicketState::Superseded => (OTHER, "Superseded"),
            LeafTicketState::Lapsed => (OTHER, "Lapsed"),
        },
        AuditEvent::Approval(_) | AuditEvent::Change(_) => SUCCESS,
    }
}

/// The same in the gateway's word.
pub(super) fn code(event: &AuditEvent) -> &str {
    match event {
        AuditEvent::Decision(decision) => match decision.verdict {
            LeafVerdict::Allow => "allow",
            LeafVerdict::Deny => "deny",
            LeafVerdict::RequiresApproval => "requires_approval",
        },
        AuditEvent::Outcome(outcome) => &outcome.outcome,
        AuditEvent::Call(call) => &call.outcome.outcome,
        AuditEvent::Effect(effect) => match effect.to {
            LeafEffectState::Claimed => "claimed",
            LeafEffectState::Dispatching => "dispatching",
            LeafEffectState::Completed => "completed",
            LeafEffectState::FailedFinal => "failed_final",
            LeafEffectState::FailedRetryable => "failed_retryable",
            LeafEffectState::OutcomeUnknown => "outcome_unknown",
            LeafEffectState::Compensated => "compensated",
            LeafEffectState::Expired => "expired",
        },
        AuditEvent::Ticket(ticket) => match ticket.to {
            LeafTicketState::Pending => "pending",
            LeafTicketState::Approved => "approved",
            LeafTicketState::Denied => "denied",
            LeafTicketState::AutoDenied => "auto_denied",
            LeafTicketState::Superseded => "superseded",
            LeafTicketState::Consumed => "consumed",
            LeafTicketState::Lapsed => "lapsed",
        },
        AuditEvent::Approval(approval) if approval.approves => "approve",
        AuditEvent::Approval(_) => "deny",
        AuditEvent::Change(change) => &change.change,
    }
}

/// The class of an error, and the gate that refused.
pub(super) fn detail(decision: Option<&DecisionLeaf>, outcome: Option<&OutcomeLeaf>) -> Option<String> {
    let refused = decision.and_then(|decision| decision.class.as_deref());
    let ended = outcome.and_then(|outcome| outcome.class.as_deref()).filter(|class| *class != "SUCCESS");
    let gate = decision.and_then(|decision| decision.gate.as_deref());
    match (refused.or(ended), gate) {
        (Some(class), Some(gate)) => Some(format!("{class} at {gate}")),
        (class, _) => class.map(str::to_owned),
    }
}

/// What failed is worth a look; what nobody knows the end of, or was kept back, is worth a second one.
pub(super) fn severity(event: &AuditEvent) -> Severity {
    let is_open = ["unknown", "outcome_unknown", "quarantined"].contains(&code(event));
    match status(event) {
        _ if is_open => Severity { id: 3, name: "Medium" },
        FAILURE => Severity { id: 2, name: "Low" },
        _ => Severity { id: 1, name: "Informational" },
    }
}

const fn of_verdict(verdict: LeafVerdict) -> (u32, &'static str) {
    match verdict {
        LeafVerdict::Allow => SUCCESS,
        LeafVerdict::Deny => FAILURE,
        LeafVerdict::RequiresApproval => (OTHER, "Requires approval"),
    }
}

fn of_end(outcome: &OutcomeLeaf) -> (u32, &'static str) {
    match outcome.status {
        // Whether it was done is not known, which is not a failure.
        _ if outcome.outcome == "unknown" => UNKNOWN,
        Some(LeafStatus::Success) => SUCCESS,
        Some(LeafStatus::Error | LeafStatus::Timeout) => FAILURE,
        None => UNKNOWN,
    }
}
