//! A decision in words: which policies were considered, what each said, and which condition did not hold if it said nothing.
//! For people who ask afterwards; it is slow.

use std::{collections::BTreeSet, fmt};

use cedar_policy::{Effect, Policy, PolicySet};
use serde::Serialize;
use servanda_approval::{ApprovalDemand, ApprovalSettings, PolicyApproval};

use crate::{
    approvals::ApprovalQuestion,
    context_needs::PolicyCondition,
    decision::{PolicyDecision, PolicyRefusalCause},
    loaded::LoadedPolicy,
    policies::Policies,
    principal_role::PrincipalRole,
    request::{self, CedarRequest, CedarRequestError, PolicyCall},
    vocabulary::PolicyTool,
};

/// Why a call is decided as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyExplanation {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The kind of refusal, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<PolicyRefusalCause>,
    /// The approval that it needs, if it is allowed with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalDemand>,
    /// Every policy that could apply to the call; those that said something come first.
    pub looked_at: Vec<ConsideredPolicy>,
    /// How many policies could not apply.
    pub passed_over: usize,
}

/// A policy that was considered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConsideredPolicy {
    /// Its id.
    pub policy: String,
    /// Its file and line.
    pub place: String,
    /// Its author's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `permit` or `forbid`.
    pub effect: &'static str,
    /// What it says about approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<PolicyApproval>,
    /// What it said.
    pub outcome: PolicyOutcome,
    /// Set if the policy was evaluated for a name that the caller only claims, or for an agent that acted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

/// The result of a policy for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOutcome {
    /// It holds.
    Holds,
    /// It does not.
    DoesNotHold {
        /// The reason.
        because: String,
    },
    /// It failed.
    Failed {
        /// The error.
        error: String,
    },
}

impl Policies {
    /// Explains the decision about a call.
    pub fn explain(&self, call: &PolicyCall<'_>, approvals: &ApprovalSettings) -> PolicyExplanation {
        let decision = self.decide(call);
        let mut looked_at = self.looked_at(call);
        let silent = |matched: &ConsideredPolicy| matches!(matched.outcome, PolicyOutcome::DoesNotHold { .. });
        looked_at.sort_by(|left, right| (silent(left), &left.policy).cmp(&(silent(right), &right.policy)));
        let ids: BTreeSet<&str> = looked_at.iter().map(|matched| matched.policy.as_str()).collect();
        let passed_over = self.count() - ids.len();
        let cause = match &decision {
            PolicyDecision::Allowed(_) => None,
            PolicyDecision::Refused(refused) => Some(refused.cause().clone()),
        };
        let approval = self.approval_needed(&decision, &ApprovalQuestion::from(call), approvals);
        // An upstream's question belongs to a call that people approved already.
        let approval = approval.filter(|_| call.circumstances.question.is_none());
        PolicyExplanation { allowed: decision.is_allowed(), cause, approval, looked_at, passed_over }
    }

    fn looked_at(&self, call: &PolicyCall<'_>) -> Vec<ConsideredPolicy> {
        let Some(tool) = self.vocabulary().tool(call.tool) else { return Vec::new() };
        let tool = tool.for_class(call.circumstances.program_class);
        let mut all: Vec<ConsideredPolicy> = Vec::new();
        for (role, principal) in call.principal.roles() {
            let mut found = self.looked_at_as(&PolicyCall { principal, ..*call }, tool);
            // A result that is the same under every name is listed once, and an agent that acted before needs no permit.
            found.retain(|new| !all.iter().any(|told| told.policy == new.policy && told.outcome == new.outcome));
            found.retain(|new| role.needs_permit() || new.effect == "forbid");
            let whose = match role {
                PrincipalRole::Proven => None,
                PrincipalRole::Claimed => Some(format!("{}, which is only claimed", principal.uid)),
                PrincipalRole::Delegator => Some(format!("{}, which acted before", principal.uid)),
            };
            all.extend(found.into_iter().map(|matched| ConsideredPolicy { of: whose.clone(), ..matched }));
        }
        all
    }

    fn looked_at_as(&self, call: &PolicyCall<'_>, tool: &PolicyTool) -> Vec<ConsideredPolicy> {
        let buckets = self.index().buckets(call.tool, tool, call.principal);
        let ids = buckets.iter().flat_map(|bucket| &bucket.ids);
        ids.filter_map(|id| self.get(id)).map(|policy| self.matched(policy, call, tool)).collect()
    }

    fn matched(&self, policy: &LoadedPolicy, call: &PolicyCall<'_>, tool: &PolicyTool) -> ConsideredPolicy {
        // Each policy is evaluated by itself: if one cannot hold an argument, the others still get an answer.
        let question = request::for_call(call, tool, &[&policy.needs].into_iter().collect());
        let question = question.map_err(|unaskable| match unaskable {
            CedarRequestError::Arguments(reason) => format!("it looks at {reason}"),
            CedarRequestError::Engine(reason) => reason,
        });
        let outcome = question.and_then(|question| self.outcome(policy, &question));
        ConsideredPolicy {
            policy: policy.id.clone(),
            place: policy.deciding_policy.place.clone(),
            reason: policy.deciding_policy.reason.clone(),
            effect: if policy.policy.effect() == Effect::Permit { "permit" } else { "forbid" },
            approval: policy.deciding_policy.approval.as_deref().cloned(),
            outcome: outcome.unwrap_or_else(|error| PolicyOutcome::Failed { error }),
            of: None,
        }
    }

    fn outcome(&self, policy: &LoadedPolicy, question: &CedarRequest) -> Result<PolicyOutcome, String> {
        let (json, conjuncts) = policy.conjuncts()?;
        let scope_holds = self.holds(policy.as_permit_with(&json, &[])?, question)?;
        if !scope_holds {
            return Ok(PolicyOutcome::DoesNotHold { because: "it is not about this principal".to_owned() });
        }
        for (position, conjunct) in conjuncts.iter().enumerate() {
            let alone = policy.as_permit_with(&json, std::slice::from_ref(conjunct))?;
            let words = condition_words(&alone, conjunct);
            if !self.holds(alone, question)? {
                let (number, count) = (position + 1, conjuncts.len());
                let because = match conjunct.kind() {
                    "unless" => format!("condition {number} of {count} excepts it: {words}"),
                    _ => format!("condition {number} of {count} is not met: {words}"),
                };
                return Ok(PolicyOutcome::DoesNotHold { because });
            }
        }
        Ok(PolicyOutcome::Holds)
    }

    pub(crate) fn holds(&self, asked: Policy, question: &CedarRequest) -> Result<bool, String> {
        let set = PolicySet::from_policies([asked]).map_err(|error| error.to_string())?;
        let response = self.authorizer().is_authorized(&question.request, &set, &question.entities);
        match response.diagnostics().errors().next() {
            Some(error) => Err(error.to_string()),
            None => Ok(response.decision() == cedar_policy::Decision::Allow),
        }
    }
}

/// A condition as Cedar writes it.
fn condition_words(alone: &Policy, conjunct: &PolicyCondition) -> String {
    let text = alone.to_string();
    let opening = format!("{} {{", conjunct.kind());
    let words = text.rsplit_once(&opening).map_or(text.as_str(), |(_, words)| words);
    let words = words.trim().trim_end_matches(';').trim_end().trim_end_matches('}').trim();
    format!("{} {{ {words} }}", conjunct.kind())
}

impl PolicyExplanation {
    /// Whether some policy permits the call under at least one of the caller's proven or claimed names.
    fn is_permitted_to_some(&self) -> bool {
        self.looked_at.iter().any(|matched| matched.effect == "permit" && matched.outcome == PolicyOutcome::Holds)
    }
}

impl fmt::Display for PolicyExplanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match &self.cause {
            None if let Some(demand) = &self.approval => {
                format!("allowed, with approval by {}: {}", demand.describe(), demand.describe_causes())
            }
            None => "allowed: a policy permits it and none forbids it".to_owned(),
            Some(PolicyRefusalCause::Forbidden) => "refused: a policy forbids it".to_owned(),
            Some(PolicyRefusalCause::NotPermitted) if self.is_permitted_to_some() => {
                "refused: no policy permits it under every name that the caller has or claims".to_owned()
            }
            Some(PolicyRefusalCause::NotPermitted) => "refused: no policy permits it".to_owned(),
            Some(PolicyRefusalCause::ErrorInPolicy { .. }) => {
                "refused: a policy failed, so its decision is unknown".to_owned()
            }
            Some(PolicyRefusalCause::UnknownTool) => "refused: the policies do not know this tool".to_owned(),
            Some(PolicyRefusalCause::Arguments { reason }) => format!("refused: a policy looks at {reason}"),
            Some(PolicyRefusalCause::Engine { reason }) => {
                format!("refused: the policies could not be evaluated: {reason}")
            }
        };
        write!(formatter, "{verdict}")?;
        for matched in &self.looked_at {
            let outcome = match &matched.outcome {
                PolicyOutcome::Holds => "holds".to_owned(),
                PolicyOutcome::DoesNotHold { because } => format!("does not hold: {because}"),
                PolicyOutcome::Failed { error } => format!("failed: {error}"),
            };
            let of = matched.of.as_ref().map_or_else(String::new, |of| format!(" of {of},"));
            write!(formatter, "\n  {} `{}`{of} {outcome} ({})", matched.effect, matched.policy, matched.place)?;
            let silent = matches!(matched.outcome, PolicyOutcome::DoesNotHold { .. });
            if let Some(approval) = matched.approval.as_ref().filter(|_| matched.outcome == PolicyOutcome::Holds) {
                write!(formatter, "\n    {}", approval.describe())?;
            }
            if let Some(reason) = matched.reason.as_ref().filter(|_| !silent) {
                write!(formatter, "\n    reason: {reason}")?;
            }
        }
        let other = if self.passed_over == 1 { "policy" } else { "policies" };
        write!(formatter, "\n  {} other {other} cannot concern this call", self.passed_over)
    }
}
