//! Who may decide about a ticket. Checked when a person decides, and again when the approval is used.

use std::collections::BTreeSet;

use servanda_contract::tool::{ApprovalPattern, Presence};

use crate::{PersonRole, Ticket, responsible_groups};

/// A person who wants to decide, as the gateway authenticated them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// The tenant.
    pub tenant: String,
    /// The person.
    pub principal: String,
    /// The person's groups.
    pub groups: BTreeSet<String>,
    /// What the operator lets this person do.
    pub roles: BTreeSet<PersonRole>,
    /// How sure the gateway is that the person decides.
    pub presence: Presence,
}

/// Why a person may not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// The ticket is another tenant's. It does not exist for this person.
    #[error("there is no such ticket")]
    OtherTenant,
    /// The person asked for it, or owns the agent that did.
    #[error(
        "you may not decide about your own request: the pattern of this ticket excludes its requester and the agent's owner"
    )]
    OwnRequest,
    /// The person has not the role.
    #[error("you do not have the role `approver`")]
    NoRole,
    /// The person is in none of the groups.
    #[error("you are in none of the groups that decide about this ticket")]
    OtherGroup,
    /// The person has decided already.
    #[error("you have decided about this ticket already; another person has to approve it too")]
    DecidedAlready,
    /// The gateway must be surer that a person decides.
    #[error("this ticket needs a stronger proof that you are present: {}", needed.word())]
    Presence {
        /// What is needed.
        needed: Presence,
    },
}

/// Checks whether a person may decide about a ticket at that time of the store's clock. Returns whether that takes the emergency role.
pub fn check_eligible(ticket: &Ticket, approver: &Approver, now_ms: u64) -> Result<bool, Ineligible> {
    let subject = &ticket.subject;
    if approver.tenant != subject.tenant {
        return Err(Ineligible::OtherTenant);
    }
    let is_own = approver.principal == subject.principal;
    let is_agent = !is_own && subject.actors.iter().any(|actor| actor.name == approver.principal);
    let is_consent = ticket.demand.pattern == ApprovalPattern::Consent;
    // The user may consent to what the agent does. The agent itself never may.
    if is_agent || (is_own && !is_consent) {
        return Err(Ineligible::OwnRequest);
    }
    let has = |role| approver.roles.contains(&role);
    let groups = responsible_groups(ticket, now_ms);
    let is_responsible = groups.is_empty() || !groups.is_disjoint(&approver.groups);
    let takes_emergency_role = if is_own {
        // The person consents to what their own agent does.
        false
    } else if has(PersonRole::Approver) && is_responsible {
        false
    } else if has(PersonRole::BreakGlass) {
        true
    } else if has(PersonRole::Approver) {
        return Err(Ineligible::OtherGroup);
    } else {
        return Err(Ineligible::NoRole);
    };
    if ticket.decisions.iter().any(|signed| signed.decision.approver == approver.principal) {
        return Err(Ineligible::DecidedAlready);
    }
    let needed = ticket.demand.presence;
    if approver.presence < needed {
        return Err(Ineligible::Presence { needed });
    }
    Ok(takes_emergency_role)
}
