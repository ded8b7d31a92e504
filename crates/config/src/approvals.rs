//! `approvals:` of the configuration: when calls need a person's approval, who gives it, and how long it lasts.
//!
//! What a single tool or call needs is in contracts and policies; `servanda_approval` puts them together with these settings.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_approval::{
    ApprovalSettings, EscalationTier, PatternSettings, PersonRole, RoleAssignments, RoleMember, TrustLevel,
};
use servanda_contract::tool::{ApprovalPattern, Presence};

use crate::{AuthMode, Config, approval_webhooks::ApprovalWebhookConfig};

/// The longest time to decide: thirty days.
const DECIDE_WITHIN_SEC_MAX: u64 = 2_592_000;
/// The longest time to use an approval: a day.
const USE_WITHIN_SEC_MAX: u64 = 86_400;
/// The longest time that a call waits for people: ten minutes.
const WAIT_MS_MAX: u64 = 600_000;
/// The most days that a grant holds.
const GRANT_DAYS_MAX: u64 = 30;
const QUORUM_MAX: u8 = 9;
/// The most escalation tiers of a pattern.
const TIERS_MAX: usize = 8;

/// When calls need a person's approval, and from whom. See docs/approvals.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsConfig {
    /// Whether the side-effect class asks for an approval where neither the contract nor a policy says something: from
    /// `HIGH_RISK_EXTERNAL` on, and earlier in production.
    pub by_class: bool,
    /// The values of `policy.environment` that count as production.
    pub production: BTreeSet<String>,
    /// Groups whose members are trusted to change what can be undone.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub trusted_groups: BTreeSet<String>,
    /// The trust that a caller needs for a `MEDIUM_RISK_WRITE` without an approval.
    pub trust_needed: TrustLevel,
    /// The scopes of side effects that count as critical in production; by default `external`, `global` and `organisation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_scopes: Option<BTreeSet<String>>,
    /// How long people have to decide.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub decide_within_sec: u64,
    /// How long people have to decide about a `CRITICAL_MUTATION`.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub critical_decide_within_sec: u64,
    /// How long an approval can be used.
    #[schemars(range(min = 1, max = 86_400))]
    pub use_within_sec: u64,
    /// How long a call waits for people before its caller gets the ticket.
    #[schemars(range(max = 600_000))]
    pub wait_ms_max: u64,
    /// For how many days people may allow calls from now on; 0 means not at all.
    #[schemars(range(max = 30))]
    pub grant_days_max: u32,
    /// Whether agents may propose plans: calls of several tools that a person allows at once, each within bounds and a number of times.
    pub plans: bool,
    /// Who decides under a pattern.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub patterns: BTreeMap<ApprovalPattern, PatternConfig>,
    /// What people may do: `acme/ada`, or `group:acme/finance`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<PersonRole, BTreeSet<String>>,
    /// Where people are told that calls wait for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<ApprovalWebhookConfig>,
    /// The address of the console as people reach it, e.g. `https://gateway.example`. By default, the listening address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_url: Option<String>,
}

/// Who decides under a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatternConfig {
    /// The groups whose members may decide; every approver by default.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// How many different people have to approve.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    pub quorum: Option<u8>,
    /// How sure the gateway must be that a person decides.
    #[serde(skip_serializing_if = "is_session")]
    pub presence: Presence,
    /// Groups that may decide too, once a part of the time is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalation: Vec<EscalationConfig>,
}

/// Groups that may decide too, once a part of the time is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EscalationConfig {
    /// The part of the time, in percent.
    #[schemars(range(min = 1, max = 99))]
    pub after_percent: u8,
    /// The groups.
    pub groups: BTreeSet<String>,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        let own = ApprovalSettings::default();
        Self {
            by_class: own.by_class,
            production: ["prod", "production"].map(str::to_owned).into(),
            trusted_groups: BTreeSet::new(),
            trust_needed: own.trust_needed,
            critical_scopes: None,
            decide_within_sec: own.decide_within_ms / 1000,
            critical_decide_within_sec: own.critical_decide_within_ms / 1000,
            use_within_sec: own.use_within_ms / 1000,
            wait_ms_max: own.wait_ms_max,
            grant_days_max: own.grant_days_max,
            plans: own.plans,
            patterns: BTreeMap::new(),
            roles: BTreeMap::new(),
            notify: Vec::new(),
            console_url: None,
        }
    }
}

impl ApprovalsConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn pattern_settings(&self) -> BTreeMap<ApprovalPattern, PatternSettings> {
        self.patterns.iter().map(|(pattern, config)| (*pattern, config.settings())).collect()
    }

    fn role_assignments(&self) -> Result<RoleAssignments, (String, String)> {
        let mut roles = RoleAssignments::default();
        for (role, members) in &self.roles {
            let members = members.iter().cloned().map(RoleMember::try_from).collect::<Result<Vec<_>, _>>();
            let members = members.map_err(|fault| (format!("approvals.roles.{}", role.word()), fault.to_string()))?;
            roles = roles.with(*role, members);
        }
        Ok(roles)
    }
}

impl Config {
    /// When calls need an approval, and from whom. `console_url` is where people decide, if the file says nothing else; none if this
    /// process serves no console.
    pub fn approval_settings(&self, console_url: Option<String>) -> ApprovalSettings {
        let approvals = &self.approvals;
        let own = ApprovalSettings::default();
        ApprovalSettings {
            by_class: approvals.by_class,
            is_production: approvals.production.contains(&self.policy.environment),
            is_single_user: self.auth.mode == AuthMode::Local,
            trusted_groups: approvals.trusted_groups.clone(),
            trust_needed: approvals.trust_needed,
            critical_scopes: approvals.critical_scopes.clone().unwrap_or(own.critical_scopes),
            decide_within_ms: approvals.decide_within_sec.saturating_mul(1000),
            critical_decide_within_ms: approvals.critical_decide_within_sec.saturating_mul(1000),
            use_within_ms: approvals.use_within_sec.saturating_mul(1000),
            wait_ms_max: approvals.wait_ms_max,
            grant_days_max: approvals.grant_days_max,
            plans: approvals.plans,
            patterns: approvals.pattern_settings(),
            console_url: approvals.console_url.clone().or(console_url).map(|url| url.trim_end_matches('/').to_owned()),
            // The file was checked when it was read.
            roles: approvals.role_assignments().unwrap_or_default(),
        }
    }
}

impl PatternConfig {
    fn settings(&self) -> PatternSettings {
        let tier =
            |tier: &EscalationConfig| EscalationTier { after_percent: tier.after_percent, groups: tier.groups.clone() };
        PatternSettings {
            groups: self.groups.clone(),
            quorum: self.quorum,
            presence: self.presence,
            escalation: self.escalation.iter().map(tier).collect(),
        }
    }
}

/// The first field with an impossible value, and why.
pub(super) fn fault(config: &Config) -> Option<(String, String)> {
    let approvals = &config.approvals;
    let wrong = |field: &str, reason: String| Some((format!("approvals.{field}"), reason));
    let times = [
        ("decide_within_sec", approvals.decide_within_sec, 1, DECIDE_WITHIN_SEC_MAX),
        ("critical_decide_within_sec", approvals.critical_decide_within_sec, 1, DECIDE_WITHIN_SEC_MAX),
        ("use_within_sec", approvals.use_within_sec, 1, USE_WITHIN_SEC_MAX),
        ("wait_ms_max", approvals.wait_ms_max, 0, WAIT_MS_MAX),
        ("grant_days_max", u64::from(approvals.grant_days_max), 0, GRANT_DAYS_MAX),
    ];
    if let Some((field, _, least, most)) =
        times.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value))
    {
        return wrong(field, format!("must be {least} to {most}"));
    }
    if let Some(url) = &approvals.console_url
        && !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme))
    {
        return wrong("console_url", "is not an address like https://gateway.example".to_owned());
    }
    let roles = match approvals.role_assignments() {
        Ok(roles) => roles,
        Err(fault) => return Some(fault),
    };
    for (pattern, own) in &approvals.patterns {
        if let Some(reason) = pattern_fault(*pattern, own) {
            return wrong(&format!("patterns.{}", pattern.word()), reason);
        }
    }
    let settings = config.approval_settings(None);
    too_few_approvers(config, &settings, &roles)
}

fn pattern_fault(word: ApprovalPattern, pattern: &PatternConfig) -> Option<String> {
    if pattern.quorum.is_some_and(|quorum| !(1..=QUORUM_MAX).contains(&quorum)) {
        return Some(format!("quorum must be 1 to {QUORUM_MAX}"));
    }
    if word == ApprovalPattern::Dual && pattern.quorum == Some(1) {
        return Some("quorum: `dual` needs two people or more".to_owned());
    }
    if pattern.escalation.len() > TIERS_MAX {
        return Some(format!("escalation: there are more than {TIERS_MAX} tiers"));
    }
    if pattern.escalation.iter().any(|tier| !(1..=99).contains(&tier.after_percent) || tier.groups.is_empty()) {
        return Some("escalation: each tier needs `after_percent` from 1 to 99 and `groups`".to_owned());
    }
    let is_open = pattern.groups.is_empty() && !pattern.escalation.is_empty();
    is_open.then(|| "escalation: without `groups`, every approver may decide from the beginning".to_owned())
}

/// A pattern that the file names and that no number of the named approvers can satisfy.
fn too_few_approvers(
    config: &Config,
    settings: &ApprovalSettings,
    roles: &RoleAssignments,
) -> Option<(String, String)> {
    if config.auth.mode == AuthMode::Local {
        return None;
    }
    let tenants: BTreeSet<&str> = roles.members(PersonRole::Approver).map(RoleMember::tenant).collect();
    for pattern in config.approvals.patterns.keys().copied() {
        let quorum = settings.quorum(pattern);
        for tenant in &tenants {
            let Some(count) = roles.people_count(PersonRole::Approver, tenant) else { continue };
            if count < usize::from(quorum) {
                let reason = format!(
                    "`{}` needs {quorum} approvers, and `{tenant}` has {count}: name more people or a group",
                    pattern.word()
                );
                return Some(("approvals.roles.approver".to_owned(), reason));
            }
        }
    }
    None
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_session(presence: &Presence) -> bool {
    *presence == Presence::Session
}
