//! Policies that apply at the same place. That they are looked at at all means that their scope holds: what is left to ask is
//! their conditions.

use std::sync::Arc;

use cedar_policy::{Effect, Expression, PolicySet, PolicySetError};

use crate::{context_needs::ContextNeeds, deciding_policy::DecidingPolicy, loaded::LoadedPolicy};

/// Policies that are looked at together.
#[derive(Debug, Default)]
pub(crate) struct PolicyBucket {
    /// What a call is decided by.
    pub rules: Vec<PolicyRule>,
    /// What the rules look at in the context.
    pub needs: ContextNeeds,
    /// Policies that say the same whatever the call is: for lists, as the next two.
    pub certain: PolicySet,
    /// The beginnings of the others: where one does not hold, the policy says nothing.
    pub prefixes: PolicySet,
    /// The others that permit, without what needs a call: where one does not hold, the policy does not permit.
    pub relaxed: PolicySet,
    /// What policies for lists look at in the context.
    pub list_needs: ContextNeeds,
    /// Ids of all, to tell which were looked at.
    pub ids: Vec<String>,
}

/// A policy whose scope holds.
#[derive(Debug, Clone)]
pub(crate) struct PolicyRule {
    pub deciding_policy: Arc<DecidingPolicy>,
    pub permits: bool,
    /// It looks at the call itself, not only at who calls what.
    pub open: bool,
    /// What has to hold besides; none is nothing.
    pub condition: Option<Arc<Expression>>,
    /// It is the built-in one about the caller's own tenant. Every call is asked that, so it is not asked by way of Cedar.
    pub own_tenant: bool,
    /// Its number, if what it says of a tool is the same for every call of it.
    pub fixed: Option<u32>,
}

/// The id of that policy.
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
