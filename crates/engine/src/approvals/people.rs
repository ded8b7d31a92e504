//! A person as approvals see them, and whether people who decided may still decide.

use std::collections::BTreeSet;

use servanda_approval::{ApprovalSettings, Approver, PersonRole, Ticket, check_eligible};
use servanda_contract::tool::Presence;

/// A person whom the gateway authenticated in a session of the console, or by a credential for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The tenant.
    pub tenant: String,
    /// The person.
    pub principal: String,
    /// The person's groups.
    pub groups: BTreeSet<String>,
    /// How sure the gateway is that the person is there.
    pub presence: Presence,
    /// How they signed in, for the record: never a credential.
    pub credential: String,
}

impl Person {
    /// The roles that the operator gives the person.
    pub fn roles(&self, settings: &ApprovalSettings) -> BTreeSet<PersonRole> {
        if settings.is_single_user {
            // Without authentication there is one person, and the console session is opened on the gateway's own terminal.
            return [PersonRole::Viewer, PersonRole::Approver, PersonRole::Operator, PersonRole::Admin].into();
        }
        settings.roles.of(&self.tenant, &self.principal, &self.groups)
    }

    /// Whether the person sees values of this sensitivity among the arguments of calls.
    pub fn sees(&self, sensitivity: &str, settings: &ApprovalSettings) -> bool {
        let roles = self.roles(settings);
        match sensitivity {
            "secret" => false,
            _ => roles.contains(&PersonRole::Admin),
        }
    }

    /// Whether the person settles effects, holds tools back and releases them.
    pub fn may_operate(&self, settings: &ApprovalSettings) -> bool {
        let roles = self.roles(settings);
        roles.contains(&PersonRole::Operator) || roles.contains(&PersonRole::Admin)
    }

    pub(crate) fn as_approver(&self, settings: &ApprovalSettings) -> Approver {
        Approver {
            tenant: self.tenant.clone(),
            principal: self.principal.clone(),
            groups: self.groups.clone(),
            roles: self.roles(settings),
            presence: self.presence,
        }
    }
}

/// Whether everybody who approved a ticket may still decide about it, by the operator's settings as they are now. Groups are those that the
/// person had when deciding.
pub fn is_still_eligible(ticket: &Ticket, settings: &ApprovalSettings) -> bool {
    let undecided = Ticket { decisions: Vec::new(), ..ticket.clone() };
    ticket.decisions.iter().all(|signed| {
        let decision = &signed.decision;
        let person = Person {
            tenant: decision.tenant.clone(),
            principal: decision.approver.clone(),
            groups: decision.groups.clone(),
            presence: decision.presence,
            credential: String::new(),
        };
        let takes_emergency_role = check_eligible(&undecided, &person.as_approver(settings), decision.at_ms);
        takes_emergency_role == Ok(decision.break_glass)
    })
}
