//! What the policies would say to a call whose arguments are unknown, because records keep none. For people who ask afterwards;
//! it never lets a call through.

use crate::{
    answer::PolicyAnswer,
    bucket::PolicyRule,
    decision::{PolicyDecision, PolicyRefusalCause, RefusedByPolicy},
    policies::Policies,
    principal::Principal,
    request::{self, CallCircumstances, CedarRequest},
    vocabulary::PolicyTool,
};

/// What can be said without arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// The same, whatever the arguments are.
    Certain(PolicyDecision),
    /// It depends on the arguments, by these policies.
    Depends {
        /// Their ids.
        on: Vec<String>,
    },
}

/// The certain part of the answer, and the policies whose result is uncertain.
struct OutlookEvaluation {
    answer: PolicyAnswer,
    unclear: Vec<PolicyRule>,
    /// Policies that do not hold but read arguments whose values they may be unable to hold: such a call is refused.
    may_refuse: Vec<String>,
}

impl Policies {
    /// What the policies would say to a call of that tool in these circumstances, as far as it does not depend on arguments.
    pub fn outlook(&self, principal: &Principal, tool: &str, circumstances: &CallCircumstances<'_>) -> Outlook {
        self.foresee(principal, tool, circumstances)
            .unwrap_or_else(|refused| Outlook::Certain(PolicyDecision::Refused(refused)))
    }

    fn foresee(
        &self,
        principal: &Principal,
        name: &str,
        circumstances: &CallCircumstances<'_>,
    ) -> Result<Outlook, RefusedByPolicy> {
        let Some(tool) = self.vocabulary().tool(name) else {
            return Err(RefusedByPolicy::for_cause(PolicyRefusalCause::UnknownTool));
        };
        let tool = tool.for_class(circumstances.program_class);
        let (mut all, mut on, mut may_permit) = (PolicyAnswer::default(), Vec::new(), true);
        let mut strained = Vec::new();
        for (role, principal) in principal.roles() {
            let OutlookEvaluation { answer, unclear, may_refuse: more } =
                self.foreseen(principal, name, tool, circumstances)?;
            may_permit &= !role.needs_permit() || answer.permits() || unclear.iter().any(|rule| rule.permits);
            all = all.combined_with(role, &answer);
            strained.extend(more);
            let heard = |rule: &&PolicyRule| role.needs_permit() || !rule.permits;
            on.extend(unclear.iter().filter(heard).map(|rule| rule.deciding_policy.policy.clone()));
        }
        if on.is_empty() || all.refuses() || !may_permit {
            let decision = all.into_decision();
            if strained.is_empty() || !decision.is_allowed() {
                return Ok(Outlook::Certain(decision));
            }
        }
        on.extend(strained);
        on.sort_unstable();
        on.dedup();
        Ok(Outlook::Depends { on })
    }

    /// The outlook for a single principal, without other names.
    fn foreseen(
        &self,
        principal: &Principal,
        name: &str,
        tool: &PolicyTool,
        circumstances: &CallCircumstances<'_>,
    ) -> Result<OutlookEvaluation, RefusedByPolicy> {
        let settled = self.partial_evaluation(principal, name, tool)?;
        let needs = settled.open.iter().filter_map(|rule| self.get(&rule.deciding_policy.policy));
        let needs: Vec<_> = needs.map(|policy| policy.needs.without_arguments()).collect();
        let needs = needs.iter().collect();
        let question = request::for_call_without_arguments(principal, tool, circumstances, &needs)?;
        let mut answer = settled.answer.clone().with_tenant_rule(circumstances.tenant, &principal.tenant, &settled);
        let (mut unclear, mut strained) = (Vec::new(), Vec::new());
        for rule in &settled.open {
            if !self.looks_at_arguments(rule) {
                answer.record(rule, question.holds_for(rule));
            } else if self.may_hold(rule, &question) {
                unclear.push(rule.clone());
            } else if self
                .get(&rule.deciding_policy.policy)
                .is_none_or(|policy| tool.may_get_unfit_argument(&policy.needs))
            {
                strained.push(rule.deciding_policy.policy.clone());
            }
        }
        Ok(OutlookEvaluation { answer, unclear, may_refuse: strained })
    }

    fn looks_at_arguments(&self, rule: &PolicyRule) -> bool {
        self.get(&rule.deciding_policy.policy).is_none_or(|policy| policy.needs.any_argument())
    }

    /// Whether the conditions before the first one that reads the call hold. If they fail, the result counts as uncertain.
    fn may_hold(&self, rule: &PolicyRule, question: &CedarRequest) -> bool {
        let listing = self.get(&rule.deciding_policy.policy).and_then(|policy| policy.listing.as_ref());
        listing.is_none_or(|listing| self.holds(listing.prefix.clone(), question).unwrap_or(true))
    }
}
