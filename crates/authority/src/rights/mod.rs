//! The rights of a credential, and the one operation on them: narrowing. Rights form a meet-semilattice, so the rights
//! of a call are user ∩ delegation ∩ contract ∩ policy in any order, and no step can widen them.
//!
//! Deliberately not here: counting what was spent of a budget. A limit is a number that only shrinks.

mod missing_rights;
mod pattern;
mod scope;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use servanda_contract::{Timestamp, tool::SideEffectClass};

pub use missing_rights::MissingRights;
pub use pattern::{
    InvalidNamePatterns, NameKind, NamePatterns, PATTERN_BYTES_MAX, PATTERNS_MAX, ResourceName, ToolName,
};
pub use scope::{
    CONSOLE_SCOPE, InvalidScopeText, METRICS_SCOPE, SCOPE_BYTES_MAX, SCOPES_MAX, Scope, Scopes, line as scope_line,
};

/// The most delegations that may still follow.
pub const DEPTH_MAX: u8 = 8;
/// The latest time: the largest number that JSON holds exactly.
const EXPIRES_MAX: Timestamp = Timestamp::from_unix_ms((1 << 53) - 1);

/// Patterns for contract names.
pub type ToolPatterns = NamePatterns<ToolName>;
/// Patterns for the names of resources that calls read and change.
pub type ResourcePatterns = NamePatterns<ResourceName>;

/// What a credential allows. Every member must be present: an absent one is an error, not unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// OAuth scopes.
    pub scopes: Scopes,
    /// The tools.
    pub tools: ToolPatterns,
    /// The resources.
    pub resources: ResourcePatterns,
    /// The gravest side-effect class.
    pub ceiling: SideEffectClass,
    /// Limits per dimension; an absent dimension is not limited by this grant.
    pub budget: BTreeMap<RightsDimension, u64>,
    /// Valid before this time, not at it.
    pub expires_at: Timestamp,
    /// How many more times it may be delegated.
    pub depth_left: u8,
}

/// The dimensions of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RightsDimension {
    /// Calls that only read.
    Read,
    /// Calls that write.
    Write,
    /// Calls with effects outside the organisation.
    External,
    /// Money, in millionths.
    FinancialMicros,
    /// Critical calls.
    Critical,
}

/// What a step removes. An absent member changes nothing, which can never widen anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrowing {
    /// Only these scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Scopes>,
    /// Only these tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolPatterns>,
    /// Only these resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcePatterns>,
    /// No graver class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<SideEffectClass>,
    /// No higher limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub budget: BTreeMap<RightsDimension, u64>,
    /// Not valid after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// No more delegations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_left: Option<u8>,
}

/// The rights that one call needs.
#[derive(Debug, Clone, Copy)]
pub struct RequiredRights<'a> {
    /// Every scope of its contract.
    pub scopes: &'a BTreeSet<Scope>,
    /// The contract's name.
    pub tool: &'a str,
    /// The resources that it reads and changes with this payload.
    pub resources: &'a [String],
    /// Its side-effect class.
    pub class: SideEffectClass,
    /// The time of the call.
    pub at: Timestamp,
}

/// The credential may not be delegated any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the credential may not be delegated any further")]
pub struct DepthExhausted(pub(crate) ());

impl Rights {
    /// The top: everything, always. For local mode, and the start of every narrowing.
    pub fn unlimited() -> Self {
        Self {
            scopes: Scopes::All,
            tools: ToolPatterns::all(),
            resources: ResourcePatterns::all(),
            ceiling: SideEffectClass::CriticalMutation,
            budget: BTreeMap::new(),
            expires_at: EXPIRES_MAX,
            depth_left: DEPTH_MAX,
        }
    }

    /// What both allow: associative, commutative, idempotent, and within both.
    #[must_use]
    pub fn narrowed_by(&self, other: &Self) -> Self {
        let mut budget = self.budget.clone();
        for (&dimension, &limit) in &other.budget {
            budget.entry(dimension).and_modify(|own| *own = limit.min(*own)).or_insert(limit);
        }
        Self {
            scopes: self.scopes.narrowed_by(&other.scopes),
            tools: self.tools.narrowed_by(&other.tools),
            resources: self.resources.narrowed_by(&other.resources),
            ceiling: self.ceiling.min(other.ceiling),
            budget,
            expires_at: self.expires_at.min(other.expires_at),
            depth_left: self.depth_left.min(other.depth_left),
        }
    }

    /// The rights that a delegation leaves to the next holder.
    pub fn delegated(&self, narrowing: &Narrowing) -> Result<Self, DepthExhausted> {
        let depth_left = self.depth_left.checked_sub(1).ok_or(DepthExhausted(()))?;
        Ok(Self { depth_left, ..self.clone() }.narrowed_by(&narrowing.as_rights()))
    }

    /// Whether these rights never exceed the other.
    pub fn is_within(&self, other: &Self) -> bool {
        let budget_within =
            |(dimension, limit): (&RightsDimension, &u64)| self.budget.get(dimension).is_some_and(|own| own <= limit);
        self.scopes.is_within(&other.scopes)
            && self.tools.is_within(&other.tools)
            && self.resources.is_within(&other.resources)
            && self.ceiling <= other.ceiling
            && other.budget.iter().all(budget_within)
            && self.expires_at <= other.expires_at
            && self.depth_left <= other.depth_left
    }

    /// Everything that a call lacks, at once; `None` if it is allowed.
    pub fn lacks(&self, need: &RequiredRights<'_>) -> Option<MissingRights> {
        let uncovered = need.resources.iter().filter(|resource| !self.resources.covers(resource));
        let lack = MissingRights {
            scopes_missing: self.scopes.missing(need.scopes),
            scopes_needed: need.scopes.clone(),
            tool: (!self.tools.covers(need.tool)).then(|| need.tool.to_owned()),
            resources: uncovered.cloned().collect(),
            ceiling: (need.class > self.ceiling).then_some(self.ceiling),
            expired_at: (need.at >= self.expires_at).then_some(self.expires_at),
        };
        (!lack.is_empty()).then_some(lack)
    }
}

impl Narrowing {
    /// The narrowing as rights: the top, reduced by what is removed.
    pub fn as_rights(&self) -> Rights {
        let top = Rights::unlimited();
        Rights {
            scopes: self.scopes.clone().unwrap_or(top.scopes),
            tools: self.tools.clone().unwrap_or(top.tools),
            resources: self.resources.clone().unwrap_or(top.resources),
            ceiling: self.ceiling.unwrap_or(top.ceiling),
            budget: self.budget.clone(),
            expires_at: self.expires_at.unwrap_or(top.expires_at),
            depth_left: self.depth_left.unwrap_or(top.depth_left),
        }
    }
}
