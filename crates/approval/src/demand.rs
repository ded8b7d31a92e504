//! What a call needs before it may be sent: which people, how many, how sure, and for how long.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use servanda_contract::tool::{ApprovalPattern, Presence, SideEffectClass};

/// The approval that a call needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalDemand {
    /// Who decides.
    pub pattern: ApprovalPattern,
    /// The groups whose members may decide; empty means every approver.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// How many different people have to approve.
    pub quorum: u8,
    /// How sure the gateway must be that a person decides.
    pub presence: Presence,
    /// How long people have to decide.
    pub decide_within_ms: u64,
    /// How long the approval can be used.
    pub use_within_ms: u64,
    /// Groups that may decide too after a part of the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalation: Vec<EscalationTier>,
    /// Why an approval is needed.
    pub causes: Vec<ApprovalCause>,
    /// The class of the call, as the approval function saw it.
    pub class: SideEffectClass,
}

/// Groups that may decide too, once a part of the time to decide is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EscalationTier {
    /// The part of the time, in percent.
    pub after_percent: u8,
    /// The groups.
    pub groups: BTreeSet<String>,
}

/// Why a call needs an approval.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalCause {
    /// Calls of its side-effect class need one.
    Class,
    /// It cannot be undone, and the environment is production.
    Irreversible,
    /// It reaches far, and the environment is production.
    CriticalScope(String),
    /// It changes something, and the caller is not trusted to do so alone.
    Untrusted,
    /// Its contract says so.
    Contract,
    /// A policy says so.
    Policy(String),
}

impl ApprovalDemand {
    /// Whether an approval that was given under `self` still satisfies `now`: nothing became stricter meanwhile.
    pub fn still_satisfies(&self, now: &Self) -> bool {
        self.pattern >= now.pattern
            && self.quorum >= now.quorum
            && self.presence >= now.presence
            && (now.groups.is_empty() || (!self.groups.is_empty() && self.groups.is_subset(&now.groups)))
            && self.tiers_are_within(now)
    }

    fn tiers_are_within(&self, now: &Self) -> bool {
        if now.groups.is_empty() {
            return true;
        }
        let known: BTreeSet<&String> =
            now.groups.iter().chain(now.escalation.iter().flat_map(|tier| &tier.groups)).collect();
        self.escalation.iter().flat_map(|tier| &tier.groups).all(|group| known.contains(group))
    }

    /// Who decides, in words: `2 approvers of finance, none of them the requester`.
    pub fn describe(&self) -> String {
        people_in_words(Some(self.pattern), self.quorum, &self.groups, self.presence)
    }

    /// Why it is needed, in words, after "because".
    pub fn describe_causes(&self) -> String {
        self.causes.iter().map(|cause| cause.describe(self.class)).collect::<Vec<_>>().join(", and ")
    }
}

/// The people who decide, in words.
pub(crate) fn people_in_words(
    pattern: Option<ApprovalPattern>,
    quorum: u8,
    groups: &BTreeSet<String>,
    presence: Presence,
) -> String {
    let of = if groups.is_empty() {
        String::new()
    } else {
        format!(" of {}", groups.iter().cloned().collect::<Vec<_>>().join(" or "))
    };
    let people = match (pattern, quorum) {
        (Some(ApprovalPattern::Consent), 1) => format!("the user or an approver{of}"),
        (_, 1) => format!("an approver{of}"),
        (_, count) => format!("{count} approvers{of}"),
    };
    match presence {
        Presence::Session => people,
        Presence::Fresh => format!("{people}, signed in just now"),
        Presence::Passkey => format!("{people}, with a passkey"),
    }
}

impl ApprovalCause {
    /// The cause in words, after "because".
    pub fn describe(&self, class: SideEffectClass) -> String {
        match self {
            Self::Class => format!("calls of the class {} need one", class.word()),
            Self::Irreversible => "it cannot be undone in production".to_owned(),
            Self::CriticalScope(scope) => format!("in production it reaches `{scope}`"),
            Self::Untrusted => "the caller may not change this alone".to_owned(),
            Self::Contract => "the tool's contract asks for one".to_owned(),
            Self::Policy(id) => format!("the policy `{id}` asks for one"),
        }
    }
}
