//! The decision that a case expects: allowed, allowed with an approval, or refused, and which approval.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use servanda_approval::ApprovalDemand;
use servanda_contract::tool::{ApprovalPattern, Presence};

use crate::explain::PolicyExplanation;

/// An expected decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedDecision {
    /// The call is allowed, without an approval.
    Allow,
    /// It is allowed if people approve it.
    Approval,
    /// It is not allowed.
    Deny,
}

/// An expected approval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedApproval {
    /// Who decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<ApprovalPattern>,
    /// The groups whose members may decide, exactly these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<String>>,
    /// How many people have to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u8>,
    /// How sure the gateway must be that a person decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<Presence>,
}

impl ExpectedDecision {
    /// The decision of an explanation.
    pub(crate) fn of(explanation: &PolicyExplanation) -> Self {
        match (explanation.allowed, &explanation.approval) {
            (true, None) => Self::Allow,
            (true, Some(_)) => Self::Approval,
            (false, _) => Self::Deny,
        }
    }

    /// The word in files.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Approval => "approval",
            Self::Deny => "deny",
        }
    }
}

impl ExpectedApproval {
    /// What differs, in words.
    pub(crate) fn differences(&self, demand: &ApprovalDemand) -> Vec<String> {
        let differs = |what: &str, wanted: String, found: String| {
            (wanted != found).then(|| format!("expected the approval's {what} to be {wanted}, and it is {found}"))
        };
        let any = "every approver's";
        let compared = [
            self.pattern.and_then(|wanted| differs("pattern", wanted.word().into(), demand.pattern.word().into())),
            self.groups.as_ref().and_then(|wanted| differs("groups", quoted(wanted, any), quoted(&demand.groups, any))),
            self.quorum.and_then(|wanted| differs("quorum", wanted.to_string(), demand.quorum.to_string())),
            self.presence.and_then(|wanted| differs("presence", wanted.word().into(), demand.presence.word().into())),
        ];
        compared.into_iter().flatten().collect()
    }
}

/// Names as people read them.
pub(crate) fn quoted(names: &BTreeSet<String>, none: &str) -> String {
    if names.is_empty() {
        return none.to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
