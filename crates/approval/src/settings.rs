//! The operator's settings for approvals, as the configuration means them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_contract::tool::{ApprovalPattern, Presence, SideEffectClass};

use crate::{EscalationTier, RoleAssignments};

/// How long people have to decide.
pub(crate) const DECIDE_WITHIN_MS: u64 = 24 * 3_600_000;
/// The same for critical changes.
const CRITICAL_DECIDE_WITHIN_MS: u64 = 3_600_000;
/// How long an approval can be used.
const USE_WITHIN_MS: u64 = 600_000;
/// How long a call waits for people: less than the usual timeout of clients.
const WAIT_MS_MAX: u64 = 30_000;
/// For how many days a grant may hold.
const GRANT_DAYS_MAX: u32 = 7;

/// When approvals are needed, and from whom, unless contracts or policies say otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own, as in the operator's file")]
pub struct ApprovalSettings {
    /// Whether the side-effect class decides about calls that neither contract nor policy mentions.
    pub by_class: bool,
    /// Whether the environment is production.
    pub is_production: bool,
    /// Whether the gateway serves one person and asks for no credentials. That person consents; other patterns have no approvers.
    pub is_single_user: bool,
    /// Groups whose members are trusted.
    pub trusted_groups: BTreeSet<String>,
    /// The trust from which callers change what can be undone without an approval, outside production.
    pub trust_needed: TrustLevel,
    /// Scopes of side effects that count as critical in production.
    pub critical_scopes: BTreeSet<String>,
    /// How long people have to decide.
    pub decide_within_ms: u64,
    /// The same for critical changes.
    pub critical_decide_within_ms: u64,
    /// How long an approval can be used.
    pub use_within_ms: u64,
    /// Settings of single patterns.
    pub patterns: BTreeMap<ApprovalPattern, PatternSettings>,
    /// How long a call waits for people before its caller gets the ticket.
    pub wait_ms_max: u64,
    /// For how many days a grant may hold; 0 means that none is made and none covers a call.
    pub grant_days_max: u32,
    /// Whether agents may propose plans.
    pub plans: bool,
    /// Where people decide, without a slash at the end.
    pub console_url: Option<String>,
    /// What people may do.
    pub roles: RoleAssignments,
}

/// Who approves under a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PatternSettings {
    /// The groups whose members may decide; empty means every approver.
    pub groups: BTreeSet<String>,
    /// How many people have to approve; the pattern's own number if it is absent.
    pub quorum: Option<u8>,
    /// How sure the gateway must be that a person decides.
    pub presence: Presence,
    /// Groups that may decide too after a part of the time.
    pub escalation: Vec<EscalationTier>,
}

/// How far a caller is trusted to change things alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustLevel {
    /// It acts under a name that only the holder of its credential claims.
    Claimed,
    /// A person, or an agent that showed a credential of its own.
    Proven,
    /// A member of a group that the operator trusts.
    Trusted,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            by_class: true,
            is_production: false,
            is_single_user: false,
            trusted_groups: BTreeSet::new(),
            trust_needed: TrustLevel::Claimed,
            critical_scopes: ["external", "global", "organisation", "organization"].map(str::to_owned).into(),
            decide_within_ms: DECIDE_WITHIN_MS,
            critical_decide_within_ms: CRITICAL_DECIDE_WITHIN_MS,
            use_within_ms: USE_WITHIN_MS,
            patterns: BTreeMap::new(),
            wait_ms_max: WAIT_MS_MAX,
            grant_days_max: GRANT_DAYS_MAX,
            plans: false,
            console_url: None,
            roles: RoleAssignments::default(),
        }
    }
}

impl ApprovalSettings {
    /// Whether an agent may propose a plan here: plans are on, and a grant can be made of one.
    pub const fn takes_plans(&self) -> bool {
        self.plans && self.grant_days_max > 0
    }

    /// The settings of a pattern.
    pub fn pattern(&self, pattern: ApprovalPattern) -> PatternSettings {
        self.patterns.get(&pattern).cloned().unwrap_or_default()
    }

    /// How many people have to approve under a pattern.
    pub fn quorum(&self, pattern: ApprovalPattern) -> u8 {
        let least = if pattern == ApprovalPattern::Dual { 2 } else { 1 };
        self.patterns.get(&pattern).and_then(|settings| settings.quorum).unwrap_or(least).max(least)
    }

    /// How long people have to decide about a call of a class.
    pub fn decide_within_ms(&self, class: SideEffectClass) -> u64 {
        if class == SideEffectClass::CriticalMutation { self.critical_decide_within_ms } else { self.decide_within_ms }
    }
}
