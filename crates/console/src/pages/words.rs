//! Words for the states of tickets, for how grave a call is, and for how far a decision is.

use servanda_approval::{ApprovalVerdict, Ticket, TicketState};
use servanda_contract::tool::SideEffectClass;

/// A state in words, and the mark that stands beside them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateWords {
    /// The words.
    pub(crate) words: &'static str,
    /// The class of the style sheet.
    pub(crate) style: &'static str,
}

/// How grave a call is, in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RiskWords {
    /// The words.
    pub(crate) words: &'static str,
    /// The class of the style sheet.
    pub(crate) style: &'static str,
}

impl StateWords {
    /// The state of a ticket.
    pub(crate) fn new(ticket: &Ticket) -> Self {
        let style = match ticket.state {
            TicketState::Pending => "waiting",
            TicketState::Approved | TicketState::Consumed => "good",
            TicketState::Denied => "bad",
            TicketState::AutoDenied | TicketState::Superseded | TicketState::Lapsed => "quiet",
        };
        Self { words: ticket.state.describe(), style }
    }
}

impl RiskWords {
    /// The gravity of a class.
    pub(crate) const fn new(class: SideEffectClass) -> Self {
        let (words, style) = match class {
            SideEffectClass::ReadOnly => ("reads only", "low"),
            SideEffectClass::EphemeralWrite => ("temporary change", "low"),
            SideEffectClass::LowRiskInternal => ("low risk", "low"),
            SideEffectClass::MediumRiskWrite => ("medium risk", "medium"),
            SideEffectClass::HighRiskExternal => ("high risk, outside", "high"),
            SideEffectClass::CriticalMutation => ("critical", "critical"),
        };
        Self { words, style }
    }
}

/// How many decisions of how many.
pub(crate) fn progress(ticket: &Ticket) -> String {
    if ticket.decisions.iter().any(|signed| signed.decision.verdict == ApprovalVerdict::Deny) {
        return "denied".to_owned();
    }
    let (approved, quorum) = (ticket.approvals(), usize::from(ticket.demand.quorum).max(1));
    format!("{approved} of {quorum} approval{}", if quorum == 1 { "" } else { "s" })
}

/// A text whose names stand between backticks, with quotation marks as people write them.
pub(crate) fn quoted(text: &str) -> String {
    let mut is_open = false;
    let mut mark = || {
        is_open = !is_open;
        if is_open { '“' } else { '”' }
    };
    text.chars().map(|character| if character == '`' { mark() } else { character }).collect()
}
