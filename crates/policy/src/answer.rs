//! Combines what the policies say to one call (permits, forbids and failures) into a decision.
//!
//! Evaluates no policy: the result of each rule is passed in.

use std::sync::Arc;

use servanda_approval::PolicyApproval;

use crate::{
    bucket::PolicyRule,
    context_needs::ContextNeeds,
    deciding_policy::DecidingPolicy,
    decision::{DecidingPolicies, PolicyDecision, PolicyRefusalCause, RefusedByPolicy},
    principal_role::PrincipalRole,
};

/// What the policies say about every call of a tool by a principal, and the rules that still have to see the call.
#[derive(Debug)]
pub(crate) struct PartialEvaluation {
    pub(crate) answer: PolicyAnswer,
    pub(crate) open: Vec<PolicyRule>,
    /// The policy that forbids calls in another tenant's name.
    pub(crate) own_tenant: Option<Arc<DecidingPolicy>>,
    pub(crate) needs: ContextNeeds,
    /// The result if the open rules say nothing.
    pub(crate) fallback: Result<DecidingPolicies, RefusedByPolicy>,
}

/// The collected results of rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct PolicyAnswer {
    permits: Vec<Arc<DecidingPolicy>>,
    forbids: Vec<Arc<DecidingPolicy>>,
    failed: Vec<Arc<DecidingPolicy>>,
    errors: Vec<String>,
    /// No policy permits the call under a name that needs a permit.
    lacks_permit: bool,
    /// Under one of several names no policy lifts the approval that the class asks for, so it is not lifted. Otherwise an agent could
    /// claim the name of a trusted one.
    lacks_lift: bool,
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

    /// Merged with another answer.
    pub(crate) fn merged_with(mut self, others: &Self) -> Self {
        self.permits.extend_from_slice(&others.permits);
        self.forbids.extend_from_slice(&others.forbids);
        self.failed.extend_from_slice(&others.failed);
        self.errors.extend_from_slice(&others.errors);
        self
    }

    /// Joined with the answer for the same caller under another name.
    pub(crate) fn combined_with(self, role: PrincipalRole, said: &Self) -> Self {
        let permits = if role.needs_permit() { said.permits.clone() } else { Vec::new() };
        let lacks_permit = self.lacks_permit || (role.needs_permit() && permits.is_empty());
        let lacks_lift = self.lacks_lift || (role.needs_permit() && !said.lifts_approval());
        Self { lacks_permit, lacks_lift, ..self.merged_with(&Self { permits, ..said.clone() }) }
    }

    /// Adds the tenant rule for a call in the name of a tenant, which may differ from the principal's own.
    pub(crate) fn with_tenant_rule(mut self, tenant: &str, own_tenant: &str, settled: &PartialEvaluation) -> Self {
        self.forbids.extend(settled.own_tenant.iter().filter(|_| own_tenant != tenant).cloned());
        self
    }

    /// Whether the call is refused whatever else is said.
    pub(crate) fn refuses(&self) -> bool {
        !self.forbids.is_empty() || !self.failed.is_empty()
    }

    /// Whether some policy permits it.
    pub(crate) fn permits(&self) -> bool {
        !self.permits.is_empty()
    }

    /// What the policies that permit it say about approvals.
    pub(crate) fn approvals(&self) -> Vec<PolicyApproval> {
        let said = self.permits.iter().filter_map(|policy| policy.approval.as_deref());
        said.filter(|approval| approval.asks() || !self.lacks_lift).cloned().collect()
    }

    fn lifts_approval(&self) -> bool {
        self.permits.iter().any(|policy| policy.approval.as_ref().is_some_and(|approval| approval.lifts()))
    }

    /// Records the result of a rule's condition.
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

    /// Records a rule that holds.
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
        let permitted = DecidingPolicies::new(self.permits);
        Ok(if self.lacks_lift { permitted.without_lifts() } else { permitted })
    }

    /// The decision that follows.
    pub(crate) fn into_decision(self) -> PolicyDecision {
        PolicyDecision::from_result(self.into_result())
    }
}
