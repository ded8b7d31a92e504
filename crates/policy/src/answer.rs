//! What the policies say to one question, put together: permits, forbids and failures, and what follows from them.
//!
//! Nothing is asked here: what each rule said is handed in.

use std::sync::Arc;

use crate::{
    bucket::PolicyRule,
    context_needs::ContextNeeds,
    deciding_policy::DecidingPolicy,
    decision::{DecidingPolicies, PolicyDecision, PolicyRefusalCause, RefusedByPolicy},
    principal_role::PrincipalRole,
};

/// What the policies say whatever the call of a tool by a principal is, and those that have to see the call.
#[derive(Debug)]
pub(crate) struct PartialEvaluation {
    pub(crate) answer: PolicyAnswer,
    pub(crate) open: Vec<PolicyRule>,
    /// The policy that forbids calls in another tenant's name.
    pub(crate) own_tenant: Option<Arc<DecidingPolicy>>,
    pub(crate) needs: ContextNeeds,
    /// What follows where the others say nothing.
    pub(crate) fallback: Result<DecidingPolicies, RefusedByPolicy>,
}

/// What the parts of the policies said.
#[derive(Debug, Clone, Default)]
pub(crate) struct PolicyAnswer {
    permits: Vec<Arc<DecidingPolicy>>,
    forbids: Vec<Arc<DecidingPolicy>>,
    failed: Vec<Arc<DecidingPolicy>>,
    errors: Vec<String>,
    /// No policy permits it under a name that needs a permission.
    lacks_permit: bool,
}

impl Default for PartialEvaluation {
    fn default() -> Self {
        let judged = Err(RefusedByPolicy::for_cause(PolicyRefusalCause::NotPermitted));
        Self {
            answer: PolicyAnswer::default(),
            open: Vec::new(),
            own_tenant: None,
            needs: ContextNeeds::default(),
            fallback: judged,
        }
    }
}

impl PolicyAnswer {
    pub(crate) fn is_silent(&self) -> bool {
        self.permits.is_empty() && self.forbids.is_empty() && self.failed.is_empty()
    }

    /// Together with what others said.
    pub(crate) fn merged_with(mut self, others: &Self) -> Self {
        self.permits.extend_from_slice(&others.permits);
        self.forbids.extend_from_slice(&others.forbids);
        self.failed.extend_from_slice(&others.failed);
        self.errors.extend_from_slice(&others.errors);
        self
    }

    /// Joins it with the decision about the same caller under another name.
    pub(crate) fn combined_with(self, role: PrincipalRole, said: &Self) -> Self {
        let permits = if role.needs_permit() { said.permits.clone() } else { Vec::new() };
        let lacks_permit = self.lacks_permit || (role.needs_permit() && permits.is_empty());
        Self { lacks_permit, ..self.merged_with(&Self { permits, ..said.clone() }) }
    }

    /// With what is said to a call of a principal in the name of a tenant, which may be another than its own.
    pub(crate) fn with_tenant_rule(mut self, tenant: &str, own_tenant: &str, settled: &PartialEvaluation) -> Self {
        self.forbids.extend(settled.own_tenant.iter().filter(|_| own_tenant != tenant).cloned());
        self
    }

    /// Whether it is refused whatever else is said.
    pub(crate) fn refuses(&self) -> bool {
        !self.forbids.is_empty() || !self.failed.is_empty()
    }

    /// Whether something permits it.
    pub(crate) fn permits(&self) -> bool {
        !self.permits.is_empty()
    }

    /// Takes note of what was found when a rule's condition was asked.
    pub(crate) fn record(&mut self, rule: &PolicyRule, holds: Result<bool, String>) {
        match holds {
            Ok(true) => self.record_holding(rule),
            Ok(false) => {}
            Err(error) => {
                self.errors.push(format!("policy `{}`: {error}", rule.deciding_policy.policy));
                self.failed.push(Arc::clone(&rule.deciding_policy));
            }
        }
    }

    /// Takes note of a rule that holds.
    pub(crate) fn record_holding(&mut self, rule: &PolicyRule) {
        let said = if rule.permits { &mut self.permits } else { &mut self.forbids };
        said.push(Arc::clone(&rule.deciding_policy));
    }

    pub(crate) fn into_result(mut self) -> Result<DecidingPolicies, RefusedByPolicy> {
        if !self.errors.is_empty() {
            self.errors.sort();
            self.errors.dedup();
            return Err(RefusedByPolicy::by_policies(
                PolicyRefusalCause::ErrorInPolicy { errors: self.errors },
                self.failed,
            ));
        }
        if !self.forbids.is_empty() {
            return Err(RefusedByPolicy::by_policies(PolicyRefusalCause::Forbidden, self.forbids));
        }
        if self.permits.is_empty() || self.lacks_permit {
            return Err(RefusedByPolicy::for_cause(PolicyRefusalCause::NotPermitted));
        }
        Ok(DecidingPolicies::new(self.permits))
    }

    /// The decision that follows.
    pub(crate) fn into_decision(self) -> PolicyDecision {
        PolicyDecision::from_result(self.into_result())
    }
}
