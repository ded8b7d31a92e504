//! The decision about one call. Forbid wins; a call that nothing permits is refused; an error in any considered policy refuses,
//! where Cedar alone would skip the policy and might let the call through.

use std::sync::Arc;

use crate::{
    answer::{PartialEvaluation, PolicyAnswer},
    decision::{DecidingPolicies, PolicyDecision, PolicyRefusalCause, RefusedByPolicy},
    index::ConditionResult,
    policies::Policies,
    principal::Principal,
    request::{self, CedarRequestError, PolicyCall},
    vocabulary::PolicyTool,
};

/// The most open rules of a tool that are cached.
const OPEN_MAX: usize = 512;

impl Policies {
    /// Decides a call.
    pub fn decide(&self, call: &PolicyCall<'_>) -> PolicyDecision {
        PolicyDecision::from_result(self.judge(call))
    }

    fn judge(&self, call: &PolicyCall<'_>) -> Result<DecidingPolicies, RefusedByPolicy> {
        let Some(tool) = self.vocabulary().tool(call.tool) else {
            return Err(RefusedByPolicy::for_cause(PolicyRefusalCause::UnknownTool));
        };
        let tool = tool.for_class(call.circumstances.program_class);
        if call.principal.acts_alone() {
            let (settled, said) = self.evaluate_call(call, tool)?;
            return if said.is_silent() {
                settled.fallback.clone()
            } else {
                said.merged_with(&settled.answer).into_result()
            };
        }
        let mut all = PolicyAnswer::default();
        for (role, principal) in call.principal.roles() {
            let (settled, said) = self.evaluate_call(&PolicyCall { principal, ..*call }, tool)?;
            all = all.combined_with(role, &said.merged_with(&settled.answer));
        }
        all.into_result()
    }

    /// The settled result for a call by one principal, combined with the rules that have to see the call.
    fn evaluate_call(
        &self,
        call: &PolicyCall<'_>,
        tool: &PolicyTool,
    ) -> Result<(Arc<PartialEvaluation>, PolicyAnswer), RefusedByPolicy> {
        let settled = self.partial_evaluation(call.principal, call.tool, tool)?;
        let mut said =
            PolicyAnswer::default().with_tenant_rule(call.circumstances.tenant, &call.principal.tenant, &settled);
        if !settled.open.is_empty() {
            let question = request::for_call(call, tool, &[&settled.needs].into_iter().collect())?;
            settled.open.iter().for_each(|rule| said.record(rule, question.holds_for(rule)));
        }
        Ok((settled, said))
    }

    pub(crate) fn partial_evaluation(
        &self,
        principal: &Principal,
        name: &str,
        tool: &PolicyTool,
    ) -> Result<Arc<PartialEvaluation>, CedarRequestError> {
        let key = (self.number(), tool.number);
        if let Some(settled) = principal.cache.partial_evaluations.get(&key) {
            return Ok(settled);
        }
        let buckets = self.index().buckets(name, tool, principal);
        let question = request::for_all_calls(principal, tool)?;
        let fixed = self.index().fixed(tool, buckets.iter().flat_map(|bucket| &bucket.rules));
        let mut settled = PartialEvaluation::default();
        for bucket in buckets {
            settled.needs.add(&bucket.needs);
            for rule in &bucket.rules {
                let known = rule.fixed.and_then(|number| fixed.get(&number));
                match (rule.own_tenant, rule.open, known) {
                    (true, ..) => settled.own_tenant = Some(Arc::clone(&rule.deciding_policy)),
                    (false, _, Some(ConditionResult::No)) => {}
                    (false, _, Some(ConditionResult::Yes)) => settled.answer.record_holding(rule),
                    (false, true, _) => settled.open.push(rule.clone()),
                    // A condition that fails is evaluated again, so that the error can be reported.
                    (false, false, _) => settled.answer.record(rule, question.holds_for(rule)),
                }
            }
        }
        settled.fallback = settled.answer.clone().into_result();
        let settled = Arc::new(settled);
        if settled.open.len() <= OPEN_MAX {
            principal.cache.partial_evaluations.insert(key, Arc::clone(&settled));
        }
        Ok(settled)
    }
}

impl From<CedarRequestError> for RefusedByPolicy {
    fn from(unaskable: CedarRequestError) -> Self {
        Self::for_cause(match unaskable {
            CedarRequestError::Arguments(reason) => PolicyRefusalCause::Arguments { reason },
            CedarRequestError::Engine(reason) => PolicyRefusalCause::Engine { reason },
        })
    }
}
