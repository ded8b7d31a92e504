//! What a credential lets its holder do, and the one operation on it: narrowing. Rights form a meet-semilattice, so that
//! the right of a call is user ∩ delegation ∩ contract ∩ policy in whatever order they are asked, and no step can widen it.
//!
//! Counting what was spent of a budget is not done here: a limit is a number that only shrinks.

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
pub use scope::{InvalidScopeText, SCOPE_BYTES_MAX, SCOPES_MAX, Scope, Scopes, line as scope_line};

/// Delegations that anybody may still make.
pub const DEPTH_MAX: u8 = 8;
/// The end of time: what JSON numbers hold exactly.
const EXPIRES_MAX: Timestamp = Timestamp::from_unix_ms((1 << 53) - 1);

/// Patterns over names of contracts.
pub type ToolPatterns = NamePatterns<ToolName>;
/// Patterns over names of what calls read and change.
pub type ResourcePatterns = NamePatterns<ResourceName>;

/// What may be done with a credential. Every member is written out: what is absent is not unlimited but an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// OAuth scopes.
    pub scopes: Scopes,
    /// Which tools.
    pub tools: ToolPatterns,
    /// On what.
    pub resources: ResourcePatterns,
    /// The gravest call.
    pub ceiling: SideEffectClass,
    /// Limits in what is counted; what is absent is not limited by this grant.
    pub budget: BTreeMap<RightsDimension, u64>,
    /// Not at or after this.
    pub expires_at: Timestamp,
    /// How many more times it may be handed on.
    pub depth_left: u8,
}

/// What is counted against a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RightsDimension {
    /// Calls that only read.
    Read,
    /// Calls that write.
    Write,
    /// Calls that leave the house.
    External,
    /// Money, in millionths.
    FinancialMicros,
    /// Critical calls.
    Critical,
}

/// What a step takes away. What is absent is left as it is: that can never widen anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrowing {
    /// Only these scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Scopes>,
    /// Only these tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolPatterns>,
    /// Only on these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcePatterns>,
    /// Nothing graver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<SideEffectClass>,
    /// No more than this.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub budget: BTreeMap<RightsDimension, u64>,
    /// No longer than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Handed on no more often than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_left: Option<u8>,
}

/// What one call needs.
#[derive(Debug, Clone, Copy)]
pub struct RequiredRights<'a> {
    /// Every scope of its contract.
    pub scopes: &'a BTreeSet<Scope>,
    /// The contract's name.
    pub tool: &'a str,
    /// What it reads and changes, of this payload.
    pub resources: &'a [String],
    /// How grave it is.
    pub class: SideEffectClass,
    /// When.
    pub at: Timestamp,
}

/// It may not be handed on any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the credential may not be delegated any further")]
pub struct DepthExhausted(pub(crate) ());

impl Rights {
    /// The top: everything, always. Local mode's, and what a narrowing begins with.
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

    /// What is left for whoever it is handed on to.
    pub fn delegated(&self, narrowing: &Narrowing) -> Result<Self, DepthExhausted> {
        let depth_left = self.depth_left.checked_sub(1).ok_or(DepthExhausted(()))?;
        Ok(Self { depth_left, ..self.clone() }.narrowed_by(&narrowing.as_rights()))
    }

    /// Whether nothing here goes beyond the other.
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

    /// Everything that a call lacks, at once; nothing if it may be made.
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
    /// As rights: the top, but for what is taken away.
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
