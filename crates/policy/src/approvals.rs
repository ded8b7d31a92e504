//! Whether a call that the policies permit needs an approval, for people who ask and for policies on trial. Gate 10 decides it for calls:
//! with the same function, from the same facts.

use servanda_approval::{ApprovalDemand, ApprovalInputs, ApprovalSettings, demand};
use servanda_contract::{Digest, tool::SideEffectClass};

use crate::{decision::PolicyDecision, policies::Policies, principal::Principal, request::PolicyCall};

/// The part of a call that decides about approvals, apart from its policies.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalQuestion<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// The contract's name.
    pub tool: &'a str,
    /// The class of the call, if the program in its arguments decides and is milder than the contract's.
    pub program_class: Option<SideEffectClass>,
    /// The digest of the payload. Without it, a call that a review queue may sample counts as held.
    pub payload: Option<&'a Digest>,
}

impl<'a> From<&PolicyCall<'a>> for ApprovalQuestion<'a> {
    fn from(call: &PolicyCall<'a>) -> Self {
        let program_class = call.circumstances.program_class;
        Self { principal: call.principal, tool: call.tool, program_class, payload: None }
    }
}

impl Policies {
    /// The approval that a call needs after this decision of these policies. None if it needs none, or is refused.
    pub fn approval_needed(
        &self,
        decision: &PolicyDecision,
        question: &ApprovalQuestion<'_>,
        settings: &ApprovalSettings,
    ) -> Option<ApprovalDemand> {
        let PolicyDecision::Allowed(allowed) = decision else { return None };
        let tool = self.vocabulary().tool(question.tool)?.for_class(question.program_class);
        let inputs = ApprovalInputs {
            class: tool.class,
            facts: tool.facts.approval(),
            trust: question.principal.trust(settings),
            policies: &allowed.approvals(),
            payload: question.payload,
        };
        demand(&inputs, settings)
    }
}
