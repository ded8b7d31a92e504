//! A policy that was read and may be used, with its scope, its needs and its conditions.

use std::sync::Arc;

use cedar_policy::{Expression, Policy, PolicyId};

use crate::{
    context_needs::{ArgumentAccess, ContextNeeds, PolicyCondition, conjuncts, with_conjuncts},
    deciding_policy::DecidingPolicy,
    findings::{PolicyFinding, PolicyFindingKind},
    scope::{MAY_NEVER_APPLY, PolicyScope},
    split::{clauses, position},
};

/// The prefix of the names of built-in texts. An id can be used only once, so an operator's policy is never mistaken for a
/// built-in one.
pub(crate) const BUILT_IN: &str = "built-in ";

/// A file of policies.
#[derive(Debug, Clone, Copy)]
pub struct PolicySource<'a> {
    /// Its name, for people.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// A policy that may be used.
#[derive(Debug)]
pub(crate) struct LoadedPolicy {
    pub id: String,
    pub file: Arc<str>,
    pub offset: usize,
    pub text: String,
    pub policy: Policy,
    pub scope: PolicyScope,
    /// How decisions report it.
    pub deciding_policy: Arc<DecidingPolicy>,
    pub needs: ContextNeeds,
    /// The places in the arguments that it reads.
    pub argument_accesses: Vec<ArgumentAccess>,
    /// The condition that must hold beside the scope; `None` if there is none.
    pub condition: Option<Arc<Expression>>,
    /// The part that can be evaluated without a call; for policies that read what only a call has.
    pub listing: Option<ListingPolicy>,
}

/// A policy without the conditions that only a call can answer.
#[derive(Debug)]
pub(crate) struct ListingPolicy {
    /// The conditions before the first one that needs a call. If they do not hold, the policy says nothing.
    pub prefix: Policy,
    /// All conditions that need no call. If they do not hold, the policy is not satisfied, though it may fail.
    pub relaxed: Policy,
}

impl LoadedPolicy {
    /// Whether it is a built-in policy.
    pub(crate) fn is_built_in(&self) -> bool {
        self.file.starts_with(BUILT_IN)
    }

    pub(crate) fn may_never_apply(&self) -> bool {
        self.policy.annotation(MAY_NEVER_APPLY).is_some()
    }

    pub(crate) fn finding(
        &self,
        sources: &[PolicySource<'_>],
        offset: usize,
        kind: PolicyFindingKind,
        message: String,
    ) -> PolicyFinding {
        let text = sources.iter().find(|source| *source.name == *self.file).map_or("", |source| source.text);
        let (line, column) = position(text, self.offset + offset);
        let policy = Some(self.id.clone());
        PolicyFinding { file: self.file.to_string(), line, column, policy, kind, message, hint: None }
    }

    /// Whether its result for a tool is the same for every call. A word in a string counts as a use too, which is harmless.
    pub(crate) fn is_fixed(&self) -> bool {
        let looks = |word: &&str| clauses(&self.text).iter().any(|(_, body)| body.contains(*word));
        !["principal", "action", "context"].iter().any(looks)
    }

    /// Whether it names a group, or reads a principal's groups. A word in a string counts too, which is harmless.
    pub(crate) fn looks_at_groups(&self) -> bool {
        let names_one = || self.policy.entity_literals().iter().any(|uid| uid.type_name().basename() == "Group");
        self.text.contains("groups") || (self.text.contains("Group") && names_one())
    }

    /// The policy as JSON, and its conditions.
    pub(crate) fn conjuncts(&self) -> Result<(serde_json::Value, Vec<PolicyCondition>), String> {
        let json = self.policy.to_json().map_err(|error| error.to_string())?;
        let conjuncts = conjuncts(&json);
        Ok((json, conjuncts))
    }

    /// The policy with only some conditions, as a permit.
    pub(crate) fn as_permit_with(
        &self,
        json: &serde_json::Value,
        conjuncts: &[PolicyCondition],
    ) -> Result<Policy, String> {
        let id = PolicyId::new(&self.id);
        Policy::from_json(Some(id), with_conjuncts(json, conjuncts)).map_err(|error| error.to_string())
    }

    /// Determines what the policy reads. A policy that nowhere says `context` does not read it.
    pub(crate) fn analyse_needs(&mut self) -> Result<(), String> {
        if !self.text.contains("context") {
            return Ok(());
        }
        let (json, conjuncts) = self.conjuncts()?;
        for conjunct in &conjuncts {
            self.needs.add(&conjunct.needs());
            self.argument_accesses.extend(conjunct.argument_accesses());
        }
        if self.needs.beyond_list {
            let needs_call = |conjunct: &&PolicyCondition| conjunct.needs().beyond_list;
            let first = conjuncts.iter().position(|conjunct| needs_call(&conjunct)).unwrap_or(conjuncts.len());
            let relaxed: Vec<PolicyCondition> =
                conjuncts.iter().filter(|conjunct| !needs_call(conjunct)).cloned().collect();
            let prefix = self.as_permit_with(&json, conjuncts.get(..first).unwrap_or_default())?;
            self.listing = Some(ListingPolicy { prefix, relaxed: self.as_permit_with(&json, &relaxed)? });
        }
        Ok(())
    }
}
