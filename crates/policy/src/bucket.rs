//! Policies with the same scope. They are looked up by scope, so the scope already holds, and only their conditions are left to
//! evaluate.

use std::sync::Arc;

use cedar_policy::{Effect, Expression, PolicySet, PolicySetError};

use crate::{context_needs::ContextNeeds, deciding_policy::DecidingPolicy, loaded::LoadedPolicy};

/// Policies that are evaluated together.
#[derive(Debug, Default)]
pub(crate) struct PolicyBucket {
    /// The rules that decide a call.
    pub rules: Vec<PolicyRule>,
    /// What the rules read from the context.
    pub needs: ContextNeeds,
    /// Policies with the same result for every call; used for lists, like the next two.
    pub certain: PolicySet,
    /// The leading conditions of the other policies: if they do not hold, the policy says nothing.
    pub prefixes: PolicySet,
    /// The other permits, without conditions that need a call: if one does not hold, the policy does not permit.
    pub relaxed: PolicySet,
    /// What the policies for lists read from the context.
    pub list_needs: ContextNeeds,
    /// The ids of all policies, to report which were considered.
    pub ids: Vec<String>,
}

/// A policy whose scope holds.
#[derive(Debug, Clone)]
pub(crate) struct PolicyRule {
    pub deciding_policy: Arc<DecidingPolicy>,
    pub permits: bool,
    /// It reads the call itself, not only the principal and the tool.
    pub open: bool,
    /// The condition that must hold as well; `None` if there is none.
    pub condition: Option<Arc<Expression>>,
    /// It is the built-in rule about the caller's own tenant. Every call needs it, so it is checked without Cedar.
    pub own_tenant: bool,
    /// Its number, if its result for a tool is the same for every call.
    pub fixed: Option<u32>,
}

/// The id of the built-in tenant rule.
const OWN_TENANT: &str = "always.own-tenant";

impl PolicyRule {
    pub(crate) fn from_loaded(policy: &LoadedPolicy) -> Self {
        let (permits, condition) = (policy.policy.effect() == Effect::Permit, policy.condition.clone());
        let open = policy.needs != ContextNeeds::default();
        let own_tenant = policy.is_built_in() && policy.id == OWN_TENANT;
        Self { deciding_policy: Arc::clone(&policy.deciding_policy), permits, open, condition, own_tenant, fixed: None }
    }
}

impl PolicyBucket {
    pub(crate) fn add_rule(&mut self, rule: PolicyRule, needs: &ContextNeeds) {
        self.rules.push(rule);
        self.needs.add(needs);
    }

    pub(crate) fn add_listing(&mut self, policy: &LoadedPolicy) -> Result<(), Box<PolicySetError>> {
        self.list_needs.add(&policy.needs);
        self.ids.push(policy.id.clone());
        let Some(listing) = &policy.listing else {
            return self.certain.add(policy.policy.clone()).map_err(Box::new);
        };
        self.prefixes.add(listing.prefix.clone())?;
        if policy.policy.effect() == Effect::Permit {
            self.relaxed.add(listing.relaxed.clone())?;
        }
        Ok(())
    }
}
